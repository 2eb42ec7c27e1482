//! Ranking of contenders that do the same work: by speed, ties by peak memory.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::ranking::{ALIKE, Comparison, Speed, ratio_behind, tied};
use crate::summary::{Ratio, RunSummary};

/// The contenders that have a speed, each with its best run.
pub(crate) struct Standing<'a> {
    /// Contenders that nothing is faster than for certain. First the ones as fast as the fastest, least peak memory first, then
    /// the order of the file: if memory is alike, or not known of all, the one written first leads. Then the ones behind it by
    /// less than the errors that both do not share, fastest first.
    pub(crate) tied: Vec<Entry<'a>>,
    /// All others, fastest first.
    pub(crate) slower: Vec<Entry<'a>>,
}

/// One contender.
pub(crate) struct Entry<'a> {
    pub(crate) name: String,
    /// Fastest run; of several that are as fast as the fastest of all, the one with the least peak memory.
    pub(crate) run: &'a RunSummary,
    /// Speed of that run.
    pub(crate) value: f64,
    /// Speed of the fastest over it, where it is slower and the errors of both are known.
    pub(crate) behind: Option<Ratio>,
}

impl<'a> Standing<'a> {
    /// Compares the contenders of `runs`, each of which runs for the contender that `name` says.
    pub(crate) fn of(runs: &[&'a RunSummary], speed: Speed, name: impl Fn(&RunSummary) -> String) -> Self {
        let Some(fastest) = fastest(runs, speed) else {
            return Standing { tied: Vec::new(), slower: Vec::new() };
        };
        let mut contenders: IndexMap<String, Vec<Entry<'a>>> = IndexMap::new();
        for (run, value) in with_speed(runs, speed) {
            let name = name(run);
            contenders.entry(name.clone()).or_default().push(Entry { name, run, value, behind: None });
        }
        let (mut ties, mut behind) = (Vec::new(), Vec::new());
        for entries in contenders.into_values() {
            let (first, others): (Vec<_>, Vec<_>) =
                entries.into_iter().partition(|entry| tied(fastest.1, entry.value));
            // Of equally fast slower runs the one written first.
            let faster = |a: Entry<'a>, b: Entry<'a>| if b.value > a.value { b } else { a };
            match least_memory_first(first).into_iter().next() {
                Some(entry) => ties.push(entry),
                None => behind.extend(others.into_iter().reduce(faster)),
            }
        }
        behind.sort_by(|a, b| b.value.total_cmp(&a.value));
        behind.iter_mut().for_each(|entry| entry.behind = ratio_behind(fastest, (entry.run, entry.value)));
        let mut ties = least_memory_first(ties);
        let (close, slower): (Vec<_>, Vec<_>) = behind.into_iter().partition(Entry::is_close);
        ties.extend(close);
        Standing { tied: ties, slower }
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
    /// True if it is behind the fastest, but by less than the errors that the two do not share.
    pub(crate) fn is_close(&self) -> bool {
        self.behind.is_some_and(|behind| behind.is_tie())
    }

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

/// Runs that have a speed.
fn with_speed<'a>(runs: &[&'a RunSummary], speed: Speed) -> impl Iterator<Item = (&'a RunSummary, f64)> {
    runs.iter().filter_map(move |run| Some((*run, speed.value(run)?)))
}

/// The fastest of runs; of equal ones the first.
fn fastest<'a>(runs: &[&'a RunSummary], speed: Speed) -> Option<(&'a RunSummary, f64)> {
    with_speed(runs, speed).reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// Notes in every run that ties with the fastest of its case, without being as fast, by how much it is behind.
pub fn note_ties(runs: &mut [RunSummary], axes: &[String], cases: &[String]) {
    let comparison = Comparison::of(runs, axes, cases);
    let mut ties: BTreeMap<*const RunSummary, Ratio> = BTreeMap::new();
    for case in &comparison.cases {
        let Some(fastest) = fastest(&case.runs, comparison.speed) else { continue };
        let speeds = with_speed(&case.runs, comparison.speed);
        for (run, value) in speeds.filter(|(_, value)| !tied(fastest.1, *value)) {
            let behind = ratio_behind(fastest, (run, value)).filter(Ratio::is_tie);
            ties.extend(behind.map(|behind| (std::ptr::from_ref(run), behind)));
        }
    }
    for run in runs {
        run.tie_with_fastest = ties.get(&std::ptr::from_ref(run)).copied();
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
    use crate::summary::{CommonError, DevicePeak, Uncertainty};

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

    /// A run with a share of its time in copies, which are off by 20 %; the other errors are those of all runs.
    fn copying(variant: &str, step_time_s: f64, share: f64) -> RunSummary {
        let error = |weight, deviation| CommonError { weight, deviation };
        let errors = [("copies", error(share, 0.2)), ("products", error(0.5, 0.4))];
        let errors = errors.map(|(name, error)| (name.to_owned(), error)).into_iter().collect();
        let step_time_uncertainty = Some(Uncertainty { errors, ..Uncertainty::default() });
        RunSummary { step_time_uncertainty, ..run(variant, step_time_s, None) }
    }

    #[test]
    fn a_difference_below_the_errors_that_are_not_shared_is_a_tie() {
        // Of b a tenth more is copies, whose 20 % are 3.3 % of the ratio in nine of ten cases; of c nothing differs.
        let mut runs = [copying("a", 1.0, 0.2), copying("b", 1.03, 0.3), copying("c", 1.01, 0.2)];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(order(&runs), (names(&["a", "b"]), names(&["c"])));
        note_ties(&mut runs, &[], &[]);
        let behind = runs.each_ref().map(|run| run.tie_with_fastest.map(|tie| tie.ratio));
        assert_eq!(behind, [None, Some(1.03), None]);
        // As read back from results, without errors.
        runs.iter_mut().for_each(|run| run.step_time_uncertainty = None);
        assert_eq!(order(&runs), (names(&["a", "b"]), names(&["c"])));
        runs[1].tie_with_fastest = None;
        assert_eq!(order(&runs), (names(&["a"]), names(&["c", "b"])));
    }

    #[test]
    fn a_contender_stands_with_its_best_run() {
        let runs = [run("a", 3.0, None), run("a", 1.0, None), run("b", 4.0, None), run("b", 2.0, None)];
        let runs: Vec<&RunSummary> = runs.iter().collect();
        let standing = Standing::of(&runs, Speed::Steps, |run| run.variant.clone());
        assert_eq!((standing.tied[0].value, standing.slower[0].value), (1.0, 0.5));
    }
}
