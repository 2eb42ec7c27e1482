//! Ranking of contenders that do the same work: by speed, ties by peak memory.

use indexmap::IndexMap;

use crate::ranking::{ALIKE, Speed, tied};
use crate::summary::RunSummary;

/// The contenders that have a speed, each with its best run.
pub(crate) struct Standing<'a> {
    /// Contenders as fast as the fastest: least peak memory first, then the order of the file.
    /// If memory is alike, or not known of all, the one written first leads.
    pub(crate) tied: Vec<Entry<'a>>,
    /// All others, fastest first.
    pub(crate) slower: Vec<Entry<'a>>,
}

/// One contender.
pub(crate) struct Entry<'a> {
    pub(crate) name: String,
    /// Fastest run; of several that tie for the first place, the one with the least peak memory.
    pub(crate) run: &'a RunSummary,
    /// Speed of that run.
    pub(crate) value: f64,
}

impl<'a> Standing<'a> {
    /// Compares the contenders of `runs`, each of which runs for the contender that `name` says.
    pub(crate) fn of(runs: &[&'a RunSummary], speed: Speed, name: impl Fn(&RunSummary) -> String) -> Self {
        let entries = runs.iter().filter_map(|run| {
            let value = speed.value(run)?;
            Some(Entry { name: name(run), run, value })
        });
        let mut contenders: IndexMap<String, Vec<Entry<'a>>> = IndexMap::new();
        for entry in entries {
            contenders.entry(entry.name.clone()).or_default().push(entry);
        }
        let fastest = contenders.values().flatten().map(|entry| entry.value).fold(0.0, f64::max);
        let (mut ties, mut slower) = (Vec::new(), Vec::new());
        for entries in contenders.into_values() {
            let (first, others): (Vec<_>, Vec<_>) =
                entries.into_iter().partition(|entry| tied(fastest, entry.value));
            // Of equally fast slower runs the one written first.
            let faster = |a: Entry<'a>, b: Entry<'a>| if b.value > a.value { b } else { a };
            match least_memory_first(first).into_iter().next() {
                Some(entry) => ties.push(entry),
                None => slower.extend(others.into_iter().reduce(faster)),
            }
        }
        slower.sort_by(|a, b| b.value.total_cmp(&a.value));
        Standing { tied: least_memory_first(ties), slower }
    }

    /// The best; none if nothing runs.
    pub(crate) fn leader(&self) -> Option<&Entry<'a>> {
        self.tied.first()
    }

    /// The best, if none is as fast.
    pub(crate) fn winner(&self) -> Option<&Entry<'a>> {
        self.leader().filter(|_| self.tied.len() == 1)
    }
}

impl Entry<'_> {
    /// Peak memory of the device closest to its capacity.
    pub(crate) fn peak(&self) -> Option<u64> {
        self.run.worst_device().map(|device| device.peak_bytes)
    }

    /// Share of peak memory saved against another contender; above 0 if this one needs less.
    pub(crate) fn saves_against(&self, other: &Entry<'_>) -> Option<f64> {
        let (own, others) = (self.peak()?, other.peak().filter(|peak| *peak > 0)?);
        Some(1.0 - own as f64 / others as f64)
    }
}

/// Moves the first of those that need least memory to the front, if memory is known of all.
fn least_memory_first(mut entries: Vec<Entry<'_>>) -> Vec<Entry<'_>> {
    let peaks: Option<Vec<u64>> = entries.iter().map(Entry::peak).collect();
    let Some(peaks) = peaks else { return entries };
    let least = peaks.iter().copied().min().unwrap_or_default();
    let alike = |peak: &u64| *peak as f64 <= least as f64 * (1.0 + ALIKE);
    if let Some(place) = peaks.iter().position(alike) {
        entries[..=place].rotate_right(1);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::DevicePeak;

    fn run(variant: &str, step_time_s: f64, peak: Option<u64>) -> RunSummary {
        let device = |peak_bytes| DevicePeak { peak_bytes, ..DevicePeak::default() };
        RunSummary {
            variant: variant.to_owned(),
            fits: true,
            step_time_s: Some(step_time_s),
            peak_memory_bytes: peak.map(device).into_iter().collect(),
            ..RunSummary::default()
        }
    }

    fn order(runs: &[RunSummary]) -> (Vec<String>, Vec<String>) {
        let runs: Vec<&RunSummary> = runs.iter().collect();
        let standing = Standing::of(&runs, Speed::Steps, |run| run.variant.clone());
        let names = |entries: Vec<Entry<'_>>| entries.into_iter().map(|entry| entry.name).collect();
        (names(standing.tied), names(standing.slower))
    }

    #[test]
    fn of_equally_fast_ones_the_one_with_the_least_memory_leads() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let three = [run("a", 1.0, Some(1000)), run("b", 2.0, Some(10)), run("c", 1.0001, Some(600))];
        assert_eq!(order(&three), (names(&["c", "a"]), names(&["b"])));
        let alike = [run("a", 1.0, Some(1000)), run("b", 1.0, Some(995))];
        assert_eq!(order(&alike).0, ["a", "b"], "within two per cent the plainer one leads");
        let unknown = [run("a", 1.0, Some(1000)), run("b", 1.0, Some(10)), run("c", 1.0, None)];
        assert_eq!(order(&unknown).0, ["a", "b", "c"]);
    }

    #[test]
    fn a_contender_stands_with_its_best_run() {
        let runs = [run("a", 3.0, None), run("a", 1.0, None), run("b", 4.0, None), run("b", 2.0, None)];
        let runs: Vec<&RunSummary> = runs.iter().collect();
        let standing = Standing::of(&runs, Speed::Steps, |run| run.variant.clone());
        assert_eq!((standing.tied[0].value, standing.slower[0].value), (1.0, 0.5));
    }
}
