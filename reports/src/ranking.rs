//! Which run is better: the measure of speed, sweep points, ties.

use indexmap::{IndexMap, IndexSet};

use crate::case::Case;
use crate::naming::Naming;
use crate::quantity;
use crate::standing::Standing;
use crate::summary::{Ratio, RunSummary};

/// Two speeds closer than this share are the same: the difference would not show in three digits.
pub(crate) const TIE: f64 = 0.0005;
/// Share of measurements from which on a difference is said without it.
const SURE: f64 = 0.995;
/// Two amounts of memory closer than this share are alike.
pub(crate) const ALIKE: f64 = 0.02;

/// What a run gets done per second; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// Tokens of training data.
    Tokens,
    /// Samples of training data.
    Samples,
    /// Micro-batches, of whatever size.
    MicroBatches,
    /// Steps, of whatever work.
    Steps,
}

impl Speed {
    /// The most meaningful measure that all runs with a step time have, so that it compares them all.
    pub(crate) fn of(runs: &[RunSummary]) -> Speed {
        [Speed::Tokens, Speed::Samples, Speed::MicroBatches]
            .into_iter()
            .find(|speed| {
                runs.iter().filter(|run| run.step_time().is_some()).all(|run| speed.value(run).is_some())
            })
            .unwrap_or(Speed::Steps)
    }

    /// True if equal speeds are equal work. Steps and micro-batches differ between points.
    pub(crate) fn is_of_work(self) -> bool {
        matches!(self, Speed::Tokens | Speed::Samples)
    }

    /// Per second; none for a run without step time.
    pub(crate) fn value(self, run: &RunSummary) -> Option<f64> {
        let step_time = run.step_time()?;
        let value = match self {
            Speed::Tokens => run.tokens_per_s?,
            Speed::Samples => run.samples_per_s?,
            Speed::MicroBatches => run.micro_batches? as f64 / step_time,
            Speed::Steps => step_time.recip(),
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }

    /// A speed with its unit; for steps, the time of one, which is what people compare.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Speed::Steps => format!("{} a step", quantity::seconds(value.recip())),
            _ => quantity::rate(value, self.thing()),
        }
    }

    /// The number alone, for where [`Speed::title`] says what it is.
    pub(crate) fn number(self, value: f64) -> String {
        match self {
            Speed::Steps => quantity::seconds(value.recip()),
            _ => quantity::count(value),
        }
    }

    /// What a table or an axis of [`Speed::number`]s shows.
    pub(crate) fn title(self) -> String {
        match self {
            Speed::Steps => "time of a step".to_owned(),
            _ => format!("{} per second", self.thing()),
        }
    }

    /// What is counted, in the plural.
    pub(crate) fn thing(self) -> &'static str {
        match self {
            Speed::Tokens => "tokens",
            Speed::Samples => "samples",
            Speed::MicroBatches => "micro-batches",
            Speed::Steps => "steps",
        }
    }
}

/// Index of the run that gets most done a second, in the measure of speed that all runs have.
/// `None`: no run has a step time.
pub fn fastest(runs: &[RunSummary]) -> Option<usize> {
    let speed = Speed::of(runs);
    let speeds = runs.iter().enumerate().filter_map(|(index, run)| Some((index, speed.value(run)?)));
    // Of equal ones the first.
    speeds.reduce(|best, other| if other.1 > best.1 { other } else { best }).map(|(index, _)| index)
}

/// Whether `slower` cannot be told from `faster`.
pub(crate) fn tied(faster: f64, slower: f64) -> bool {
    faster <= slower * (1.0 + TIE)
}

/// Speed of the fastest of some runs over that of a slower one, by the errors of both; of results that were read back, which
/// have none, as they say. `None`: not known, or no tie of such results.
pub(crate) fn ratio_behind(fastest: (&RunSummary, f64), slower: (&RunSummary, f64)) -> Option<Ratio> {
    match [fastest.0, slower.0].map(|run| run.step_time_uncertainty.as_ref()) {
        [Some(ours), Some(theirs)] => Some(theirs.ratio_to(ours, fastest.1 / slower.1)),
        _ => slower.0.tie_with_fastest,
    }
}

/// Verdict on a run that is behind the fastest: `3.80 % slower (97 % sure)`, `tie, 1.20 % slower`.
pub(crate) fn slower(ratio: f64, behind: Option<Ratio>) -> String {
    let slower = format!("{} slower", quantity::gain(ratio));
    match behind {
        Some(behind) if behind.is_tie() => format!("tie, {slower}"),
        Some(behind) if behind.certainty < SURE => {
            format!("{slower} ({:.0} % sure)", behind.certainty * 100.0)
        }
        _ => slower,
    }
}

/// The runs of one experiment, ready to be compared.
pub(crate) struct Comparison<'a> {
    /// In order of first appearance.
    pub(crate) points: Vec<Point<'a>>,
    /// Problems, each solved in every way tried; winners are named within one only.
    pub(crate) cases: Vec<Case<'a>>,
    /// By what all of them are compared.
    pub(crate) speed: Speed,
    /// How points and runs are called.
    pub(crate) naming: Naming,
    /// Names of cases.
    pub(crate) case_naming: Naming,
    /// Names of settings: the swept paths that are no cases.
    pub(crate) setting_naming: Naming,
    /// True if variants are the contenders; settings are if there is one variant.
    pub(crate) is_of_variants: bool,
}

/// The variants at one point of the sweep.
pub(crate) struct Point<'a> {
    /// Swept path to value; empty without sweep.
    pub(crate) values: &'a IndexMap<String, String>,
    /// In the order of the file.
    pub(crate) runs: Vec<&'a RunSummary>,
}

impl<'a> Comparison<'a> {
    /// Groups `runs` over the swept `axes` by point and by case; `cases` are the axes that are
    /// given.
    pub(crate) fn of(runs: &'a [RunSummary], axes: &[String], cases: &[String]) -> Self {
        let mut points: IndexMap<Vec<(&str, &str)>, Point<'a>> = IndexMap::new();
        for run in runs {
            let key = run.point.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
            let point = points.entry(key).or_insert_with(|| Point { values: &run.point, runs: Vec::new() });
            point.runs.push(run);
        }
        let speed = Speed::of(runs);
        let (cases, settings): (Vec<String>, Vec<String>) =
            axes.iter().cloned().partition(|path| !speed.is_of_work() || cases.contains(path));
        let points: Vec<Point<'a>> = points.into_values().collect();
        let first = runs.first().map(|run| &run.variant);
        Comparison {
            is_of_variants: runs.iter().any(|run| Some(&run.variant) != first),
            cases: Case::group(&points, &cases),
            points,
            speed,
            naming: Naming::of(runs, axes),
            case_naming: Naming::of(runs, &cases),
            setting_naming: Naming::of(runs, &settings),
        }
    }

    /// All runs, point by point.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &'a RunSummary> {
        self.points.iter().flat_map(|point| &point.runs).copied()
    }

    /// The names of the variants, in order of first appearance.
    pub(crate) fn variants(&self) -> Vec<&'a str> {
        self.runs().map(|run| run.variant.as_str()).collect::<IndexSet<_>>().into_iter().collect()
    }

    /// Contender of a run: its variant, or its setting if there is one variant.
    pub(crate) fn contender(&self, run: &RunSummary) -> String {
        let setting = if self.is_of_variants { String::new() } else { self.setting_naming.point(&run.point) };
        if setting.is_empty() { run.variant.clone() } else { setting }
    }

    /// The contenders with all their runs, in order of first appearance.
    pub(crate) fn contenders(&self) -> IndexMap<String, Vec<&'a RunSummary>> {
        let mut contenders: IndexMap<String, Vec<&'a RunSummary>> = IndexMap::new();
        for run in self.runs() {
            contenders.entry(self.contender(run)).or_default().push(run);
        }
        contenders
    }

    /// Ranks the contenders of one case.
    pub(crate) fn standing(&self, case: &Case<'a>) -> Standing<'a> {
        Standing::of(&case.runs, self.speed, |run| self.contender(run))
    }

    /// Run shown in detail: the best one at the point of the highest speed.
    /// It is no winner over cases.
    pub(crate) fn shown(&self) -> Option<(&Point<'a>, &'a RunSummary)> {
        let firsts = self.points.iter().filter_map(|point| Some((point, *point.ranked(self.speed).first()?)));
        let (point, _) = firsts.reduce(|best, next| if next.1.1 > best.1.1 { next } else { best })?;
        Some((point, self.leader_at(point)?))
    }

    /// The best run at a point.
    pub(crate) fn leader_at(&self, point: &Point<'a>) -> Option<&'a RunSummary> {
        Some(Standing::of(&point.runs, self.speed, |run| run.variant.clone()).leader()?.run)
    }

    /// The case of a point.
    pub(crate) fn case_of(&self, point: &Point<'a>) -> Option<&Case<'a>> {
        let first = *point.runs.first()?;
        self.cases.iter().find(|case| case.runs.iter().any(|run| std::ptr::eq(*run, first)))
    }

    /// Whether the runs of every point hold the same but for activations and workspaces, and of these not all the same: how
    /// activations are kept is what is compared.
    pub(crate) fn is_of_activations(&self) -> bool {
        let parts = |run: &RunSummary| {
            let (all, passing) = (run.worst_device()?.peak_bytes, run.peak_activation_bytes?);
            Some([all.saturating_sub(passing), passing])
        };
        let alike = |part: usize, point: &Point<'_>| {
            let bytes = || point.runs.iter().copied().filter_map(parts).map(|parts| parts[part] as f64);
            bytes().fold(0.0, f64::max) <= bytes().fold(f64::INFINITY, f64::min) * (1.0 + ALIKE)
        };
        self.points.iter().all(|point| alike(0, point)) && !self.points.iter().all(|point| alike(1, point))
    }

    /// `micro-batches 4, rate 200 GB/s`.
    pub(crate) fn label(&self, point: &Point<'_>) -> String {
        self.naming.point(point.values)
    }
}

impl<'a> Point<'a> {
    /// The runs with a speed, fastest first. Those tied with the fastest stand in the order of the file, so that of two
    /// equals the plainer one, written first, leads.
    pub(crate) fn ranked(&self, speed: Speed) -> Vec<(&'a RunSummary, f64)> {
        let mut ranked: Vec<_> = self.runs.iter().filter_map(|run| Some((*run, speed.value(run)?))).collect();
        let fastest = ranked.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let order = |value: f64| if tied(fastest, value) { fastest } else { value };
        ranked.sort_by(|a, b| order(b.1).total_cmp(&order(a.1)));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::DevicePeak;

    /// Runs of one point, each by bytes that it holds throughout and bytes of activations.
    fn are_of_activations(runs: &[[u64; 2]]) -> bool {
        let run = |&[held, activations]: &[u64; 2]| RunSummary {
            peak_memory_bytes: vec![DevicePeak { peak_bytes: held + activations, ..DevicePeak::default() }],
            peak_activation_bytes: Some(activations),
            ..RunSummary::default()
        };
        let runs: Vec<RunSummary> = runs.iter().map(run).collect();
        Comparison::of(&runs, &[], &[]).is_of_activations()
    }

    #[test]
    fn the_fastest_run_gets_most_done() {
        let run = |step_time_s, tokens_per_s| RunSummary {
            fits: true,
            step_time_s: Some(step_time_s),
            tokens_per_s,
            ..RunSummary::default()
        };
        let longer_and_larger = [run(1.0, Some(10.0)), run(2.0, Some(30.0)), run(2.0, Some(30.0))];
        assert_eq!(fastest(&longer_and_larger), Some(1));
        assert_eq!(fastest(&[run(2.0, None), run(1.0, Some(1.0))]), Some(1), "by what both have");
        assert_eq!(fastest(&[RunSummary::default()]), None);
    }

    #[test]
    fn activations_are_compared_where_nothing_else_differs() {
        assert!(are_of_activations(&[[1000, 500], [1000, 100]]));
        assert!(!are_of_activations(&[[1000, 500], [800, 100]]), "states are shared, too");
        assert!(!are_of_activations(&[[1000, 500], [1000, 505]]), "all keep as much");
        assert!(!are_of_activations(&[[1000, 500]]));
    }
}
