//! How far predictions are from measurements: what `validate` found, and the only thing its writers read.
//!
//! Times are in seconds, memory in bytes, errors and shares are fractions. An error is `ours / measured - 1`, above 0 where we are slow;
//! of a ratio it is `ours - measured`. A verdict on memory is wrong or right, so that its mean error is the share of wrong ones.

pub mod brief;
pub mod csv;
mod evidence;
mod intervals;
mod page;
mod pairs;
mod regret;
mod speedups;
mod statistics;
pub mod terminal;
pub mod tuned;

use indexmap::IndexMap;
use serde::Serialize;

use crate::quantity;
use crate::summary::{SCHEMA_VERSION, Uncertainty};

pub use evidence::{ByInput, ByShare};
pub use intervals::Intervals;
pub use page::write as html;
pub use pairs::{Pairs, pairs};
pub use regret::{MeanAndWorst, MeasuredPlan, PlanGroup, Regret, RegretSummary};
pub use speedups::Speedups;
pub use statistics::Statistics;

/// What every set of measurements says about the simulator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of foretrain that was judged.
    pub version: String,
    /// A command line that gives the same bytes again.
    pub reproduce: String,
    /// The sets, in the order in which they are listed.
    pub sets: Vec<SetResult>,
    /// Coverage of all rows of steps.
    pub intervals: Option<Intervals>,
    /// Coverage of all differences.
    pub pairs: Option<Pairs>,
}

/// One set of measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SetResult {
    /// Its name on the command line.
    pub name: String,
    /// What was measured.
    pub title: String,
    /// Where the measurements are from, with their licence.
    pub sources: Vec<String>,
    /// What was fitted on what.
    pub protocol: String,
    /// What others reached on it.
    pub best_known: Option<String>,
    /// Its rows, in parts that are judged apart (devices, models of time).
    pub parts: Vec<Part>,
    /// Coverage of all its rows, where predictions have an interval.
    pub intervals: Option<Intervals>,
    /// Coverage of differences between rows of one model on one machine.
    pub pairs: Option<Pairs>,
    /// Regret of picking plans by prediction, where rows say which of them do the same work.
    pub regret: Option<Regret>,
}

/// Rows that are judged together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Part {
    /// What they have in common; empty where the set is one part.
    pub name: String,
    /// How they are judged.
    pub tolerance: Tolerance,
    /// Whether they are within it.
    pub passed: bool,
    /// Mean error when it was committed last. `None`: nothing is committed of it, as of
    /// measurements of one's own.
    pub committed: Option<f64>,
    /// The error of the first run, mean or median as the tolerance is, where constants were looked for after it.
    pub first_reading: Option<f64>,
    /// Their errors.
    pub statistics: Statistics,
    /// How many were said to fit, of runs that are judged by that.
    pub verdicts: Option<Verdicts>,
    /// How many speed-ups are right, of rows that are judged by that.
    pub speedups: Option<Speedups>,
    /// Whether their intervals hold, where predictions have one.
    pub intervals: Option<Intervals>,
    /// The rows, in the order of the data.
    pub rows: Vec<Row>,
    /// The rows that were not judged.
    pub left_out: Vec<LeftOut>,
}

/// A measurement and its prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The data file and the line in it.
    pub place: String,
    /// What was measured, column by column.
    pub inputs: IndexMap<String, String>,
    /// What both are in.
    pub unit: Unit,
    /// The measurement.
    pub measured: f64,
    /// Our prediction.
    pub predicted: f64,
    /// Interval in which nine of ten measurements should lie, where the prediction says so.
    pub interval: Option<[f64; 2]>,
    /// The errors that it is made of.
    #[serde(skip)]
    pub uncertainty: Option<Uncertainty>,
    /// What the prediction is made of, in fractions that add up to 1.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub shares: IndexMap<String, f64>,
    /// Why the prediction is likely to be off, where that was looked into.
    pub explanation: Option<String>,
    /// Evidence of a verdict: memory needed and capacity.
    pub evidence: Option<String>,
}

/// Verdicts on runs that ran, and on runs that ran out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// Runs that were said to fit.
    pub fit: usize,
    /// Runs that were said not to fit.
    pub do_not_fit: usize,
}

/// What a measurement is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A time (s).
    #[default]
    Seconds,
    /// Memory (B).
    Bytes,
    /// Power (W).
    Watts,
    /// One figure over another, off by a difference.
    Ratio,
    /// A part of a whole, off by a difference.
    Share,
    /// A number of things.
    Count,
    /// The time of one way over that of another, off by a share of itself.
    Speedup,
    /// Verdict on memory: 1 if the run fits, else 0. The mean error is the share of wrong verdicts, the bias above 0 where we let too
    /// much in.
    Verdict,
}

impl Unit {
    /// A value with its unit.
    pub(crate) fn words(self, value: f64) -> String {
        match self {
            Self::Seconds => quantity::seconds(value),
            Self::Bytes => quantity::bytes(value as u64),
            Self::Watts => quantity::watts(value),
            Self::Ratio | Self::Speedup => format!("{value:.3} times"),
            Self::Share => quantity::percent(value),
            Self::Count => quantity::count(value),
            Self::Verdict => if value > 0.0 { "fits" } else { "does not fit" }.to_owned(),
        }
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Watts => "watts",
            Self::Ratio => "ratio",
            Self::Share => "share",
            Self::Count => "count",
            Self::Speedup => "speed-up",
            Self::Verdict => "verdict",
        }
    }
}

/// A measurement that was not judged: there is no prediction, or it cannot be believed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LeftOut {
    /// The data file and the line in it.
    pub place: String,
    /// What was measured, column by column.
    pub inputs: IndexMap<String, String>,
    /// Why there is none.
    pub reason: String,
}

/// The largest errors that a part may have; what is absent is not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tolerance {
    /// Mean absolute error.
    pub mape: Option<f64>,
    /// Median absolute error.
    pub median: Option<f64>,
    /// 95th percentile of the absolute error.
    pub p95: Option<f64>,
    /// Mean error, either way.
    pub bias: Option<f64>,
    /// The least rank correlation.
    pub kendall_tau: Option<f64>,
    /// The most speed-ups on the wrong side of 1.
    pub wrong_sides: Option<usize>,
    /// The fewest largest gains in the right place.
    pub gains: Option<usize>,
}

/// Mean errors that differ by less are the same.
const ROUNDING: f64 = 5e-4;

impl Validation {
    /// Sets together.
    pub fn new(version: String, reproduce: String, sets: Vec<SetResult>) -> Self {
        let rows = sets.iter().flat_map(|set| &set.parts).flat_map(|part| &part.rows);
        let intervals = Intervals::of(rows.filter(|row| row.uncertainty.is_some()));
        let pairs = Pairs::together(sets.iter().filter_map(|set| set.pairs.as_ref()));
        Self { schema_version: SCHEMA_VERSION, version, reproduce, sets, intervals, pairs }
    }

    /// Whether every part is within its tolerance.
    pub fn passed(&self) -> bool {
        self.parts().all(|(_, part)| part.passed)
    }

    /// True if no part is worse than it was when it was committed.
    pub fn is_as_committed(&self) -> bool {
        !self.parts().any(|(_, part)| part.is_worse())
    }

    /// How many parts are within what is to be reached, and how many are worse than they were.
    fn verdict(&self) -> String {
        let rows: usize = self.parts().map(|(_, part)| part.rows.len()).sum();
        let (parts, within) = (self.parts().count(), self.parts().filter(|(_, part)| part.passed).count());
        let (measured, they) = match rows {
            0 => return "No measurement could be predicted.".to_owned(),
            1 => ("One measurement".to_owned(), "it is"),
            _ => (format!("{rows} measurements"), "they are"),
        };
        let of_parts = match parts {
            1 if within == 1 => format!("{they} within what is to be reached"),
            1 => format!("{they} beyond what is to be reached"),
            _ => format!("{within} of {parts} parts are within what is to be reached"),
        };
        let is_known = self.parts().any(|(_, part)| part.committed.is_some());
        let worse = match self.parts().filter(|(_, part)| part.is_worse()).count() {
            0 if is_known => ", none is worse than committed".to_owned(),
            0 => String::new(),
            1 => ", one is worse than committed".to_owned(),
            more => format!(", {more} are worse than committed"),
        };
        format!("{measured}: {of_parts}{worse}.")
    }

    /// A line for each set whose rows have intervals, and one for all of them.
    fn intervals_in_words(&self) -> Vec<String> {
        let of = |name: &str, intervals: Intervals, pairs: Option<&Pairs>| {
            let pairs = pairs.map(|pairs| format!("; differences: {}", pairs.in_words())).unwrap_or_default();
            format!("{name}: {}{pairs}", intervals.in_words())
        };
        let sets = self.sets.iter();
        let mut lines: Vec<String> =
            sets.filter_map(|set| Some(of(&set.name, set.intervals?, set.pairs.as_ref()))).collect();
        if let Some(all) = self.intervals.filter(|_| lines.len() > 1) {
            let of_steps = |set: &&SetResult| set.rows().any(|row| row.uncertainty.is_some());
            let known = || self.sets.iter().filter(of_steps).filter_map(|set| set.intervals);
            let narrow = known().filter(|intervals| !intervals.is_too_wide()).count();
            let most = format!(
                "; at most four times as wide as their mean error in {narrow} of {} sets",
                known().count()
            );
            lines.push(of("all steps", all, self.pairs.as_ref()) + &most);
        }
        lines
    }

    /// A line for each set with plans to pick from, and one that names the sets with too few.
    fn regrets_in_words(&self) -> Vec<String> {
        let known = || self.sets.iter().filter_map(|set| Some((&set.name, set.regret.as_ref()?)));
        let line = |(name, regret): (&String, &Regret)| Some(format!("{name}: {}", regret.in_words()?));
        let few = |(name, regret): (&String, &Regret)| regret.too_few_in_words(name);
        let few: Vec<String> = known().filter_map(few).collect();
        let few = (!few.is_empty()).then(|| format!("too few plans do the same work in {}", few.join(", ")));
        known().filter_map(line).chain(few).collect()
    }

    /// Every part with its set.
    fn parts(&self) -> impl Iterator<Item = (&SetResult, &Part)> {
        self.sets.iter().flat_map(|set| set.parts.iter().map(move |part| (set, part)))
    }
}

impl SetResult {
    /// True where rows are of kernels or copies, whose predictions have no interval.
    fn is_of_kernels(&self) -> bool {
        self.intervals.is_none()
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.parts.iter().flat_map(|part| &part.rows)
    }
}

impl Part {
    /// Judges rows.
    pub fn new(name: String, tolerance: Tolerance, rows: Vec<Row>, left_out: Vec<LeftOut>) -> Self {
        let statistics = Statistics::of(&rows);
        let intervals = Intervals::of(&rows);
        let verdicts = Verdicts::of(&rows);
        let speedups = Speedups::of(&rows, &left_out);
        let passed = tolerance.holds(&statistics, speedups);
        Self {
            name,
            tolerance,
            passed,
            committed: None,
            first_reading: None,
            statistics,
            verdicts,
            speedups,
            intervals,
            rows,
            left_out,
        }
    }

    /// True if it is farther off than it was when it was committed, by more than rounding.
    fn is_worse(&self) -> bool {
        self.committed.is_some_and(|committed| self.statistics.mape > committed + ROUNDING)
    }

    /// The rows that are farthest off, the worst first; of verdicts all that are wrong.
    fn worst(&self, count: usize) -> Vec<&Row> {
        if self.verdicts.is_some() {
            return self.rows.iter().filter(|row| row.error() != 0.0).collect();
        }
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
        rows.truncate(count);
        rows
    }

    /// Why rows were left out, each reason once with its number of rows and the first of them, most frequent first.
    fn reasons(&self) -> Vec<(&str, usize, &LeftOut)> {
        let mut reasons: IndexMap<&str, (usize, &LeftOut)> = IndexMap::new();
        for row in &self.left_out {
            reasons.entry(&row.reason).or_insert((0, row)).0 += 1;
        }
        let mut reasons: Vec<_> =
            reasons.into_iter().map(|(reason, (count, row))| (reason, count, row)).collect();
        reasons.sort_by_key(|&(_, count, _)| std::cmp::Reverse(count));
        reasons
    }
}

impl Row {
    /// How far ours is off, above 0 where it is slow; of ratios by difference, so that 0.01 is a point.
    pub fn error(&self) -> f64 {
        match self.unit {
            Unit::Seconds | Unit::Bytes | Unit::Watts | Unit::Count | Unit::Speedup => {
                self.predicted / self.measured - 1.0
            }
            Unit::Ratio | Unit::Share | Unit::Verdict => self.predicted - self.measured,
        }
    }

    /// Its error in words; that of a ratio is a difference.
    fn off(&self) -> String {
        match self.unit {
            Unit::Seconds | Unit::Bytes | Unit::Watts | Unit::Count | Unit::Speedup => {
                quantity::change(self.error())
            }
            Unit::Ratio => format!("{:+.3}", self.error()),
            Unit::Share => quantity::points(self.error()),
            Unit::Verdict => if self.error() == 0.0 { "right" } else { "wrong" }.to_owned(),
        }
    }

    /// Its inputs in words: `num_gpus 64, micro_batch 2`.
    fn label(&self) -> String {
        label(&self.inputs)
    }
}

impl Verdicts {
    /// Counts verdicts among rows. `None`: the rows are no verdicts.
    fn of(rows: &[Row]) -> Option<Self> {
        if rows.is_empty() || rows.iter().any(|row| row.unit != Unit::Verdict) {
            return None;
        }
        let fit = rows.iter().filter(|row| row.predicted > 0.0).count();
        Some(Self { fit, do_not_fit: rows.len() - fit })
    }

    /// `247 runs, 244 said to fit, 3 said not to`.
    fn in_words(self) -> String {
        let Self { fit, do_not_fit } = self;
        format!("{} runs, {fit} said to fit, {do_not_fit} said not to", fit + do_not_fit)
    }
}

impl LeftOut {
    fn label(&self) -> String {
        label(&self.inputs)
    }
}

fn label(inputs: &IndexMap<String, String>) -> String {
    let told = inputs.iter().filter(|(_, value)| !value.is_empty());
    told.map(|(column, value)| format!("{column} {value}")).collect::<Vec<_>>().join(", ")
}

impl Tolerance {
    /// Whether errors are within it. Without any row nothing was shown.
    fn holds(&self, errors: &Statistics, right: Option<Speedups>) -> bool {
        let Speedups { measured, sides, gains, .. } = right.unwrap_or_default();
        let most = |limit: Option<f64>, value: f64| limit.is_none_or(|limit| value <= limit);
        errors.rows > 0
            && most(self.mape, errors.mape)
            && most(self.median, errors.median)
            && most(self.p95, errors.p95)
            && most(self.bias, errors.bias.abs())
            && self.kendall_tau.is_none_or(|least| errors.kendall_tau.is_some_and(|tau| tau >= least))
            && self.wrong_sides.is_none_or(|most| measured - sides <= most)
            && self.gains.is_none_or(|least| gains >= least)
    }

    /// In words: `MAPE 5 %, bias 3 %`.
    fn in_words(&self) -> String {
        // To the digit as written: 100 times a share is no round number in binary.
        let share = |value: f64| format!("{} %", (value * 1e9).round() / 1e7);
        let limits = [("MAPE", self.mape), ("median", self.median), ("p95", self.p95), ("bias", self.bias)];
        let limits =
            limits.into_iter().filter_map(|(name, limit)| Some(format!("{name} ≤ {}", share(limit?))));
        let rank = self.kendall_tau.map(|least| format!("τ ≥ {least}"));
        let sides = self.wrong_sides.map(|most| format!("wrong sides ≤ {most}"));
        let gains = self.gains.map(|least| format!("gains ≥ {least}"));
        limits.chain(rank).chain(sides).chain(gains).collect::<Vec<_>>().join(", ")
    }
}
