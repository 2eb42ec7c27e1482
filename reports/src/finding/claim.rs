//! Claims of a headline, as values.

use indexmap::IndexMap;

use crate::ranking::Speed;
use crate::summary::FailureKind;

/// One clause of a headline. Contenders are the variants, or the swept settings of the only
/// variant.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// There are no runs.
    NothingRan,
    /// Only the first runs of an experiment ended before it was interrupted.
    Interrupted {
        /// Runs that ended.
        ended: u64,
        /// Runs of the whole experiment.
        planned: u64,
    },
    /// The only run.
    Alone {
        /// Its variant.
        name: String,
        /// Its speed.
        rate: Rate,
    },
    /// Largest part of the only run's step.
    Mostly {
        /// A word of [`crate::state`].
        state: String,
        /// Share of the step.
        share: f64,
    },
    /// Peak memory of the only run.
    Peak {
        /// The device closest to its capacity.
        device: String,
        /// High-water mark of the device.
        bytes: u64,
        /// Capacity of the device.
        capacity: u64,
    },
    /// The only contender that runs, out of several.
    Only {
        /// Winner, at its best setting.
        best: Setting,
        /// Its speed there.
        rate: Rate,
        /// True if every failed run ran out of memory.
        fits: bool,
    },
    /// One of two contenders is faster.
    Faster {
        /// Winner, at its best setting.
        best: Setting,
        /// The other.
        over: String,
        /// Speed of the winner over that of the other.
        ratio: f64,
        /// Speeds of both.
        rates: [Rate; 2],
    },
    /// One of several contenders is the fastest.
    Fastest {
        /// Winner, at its best setting.
        best: Setting,
        /// Its speed there.
        rate: Rate,
        /// Contenders that run.
        of: usize,
        /// Next best and slowest contender, with the speed of the winner over theirs.
        over: Vec<(String, f64)>,
    },
    /// Several contenders are equally fast and none is faster.
    Tie {
        /// The one that needs least memory, or is written first.
        best: Setting,
        /// The others.
        with: Vec<String>,
        /// Number of others named; the rest are counted.
        named: usize,
        /// Its speed.
        rate: Rate,
        /// Speed of the fastest over that of the slowest, where only their errors make it a tie.
        apart: Option<f64>,
        /// Peak memory that it saves.
        saving: Option<Saving>,
    },
    /// Contenders that are slower wherever they run.
    Slower {
        /// Names of the contenders.
        names: Vec<String>,
        /// Speed of the leader over theirs.
        by: Range,
    },
    /// Contenders that run nowhere.
    Failed {
        /// Names of the contenders.
        names: Vec<String>,
        /// Reason, if it is the same for all of their runs.
        kind: Option<FailureKind>,
        /// True if they were tried at several points.
        everywhere: bool,
    },
    /// The only run has no result.
    Fails {
        /// Its variant.
        name: String,
        /// Reason.
        kind: Option<FailureKind>,
        /// Reason in words.
        reason: Option<String>,
    },
    /// No contender runs anywhere.
    NoneRuns {
        /// True if every run ran out of memory.
        fits: bool,
        /// Points tried.
        points: usize,
    },
    /// The run that comes closest to fitting.
    Closest {
        /// Name of the run.
        name: String,
        /// The memory that is too small.
        store: String,
        /// By how much.
        short: u64,
    },
    /// Holders of the memory that is too small, in words.
    Holders(String),
    /// Speeds of the only contender over cases, which are not ranked.
    Between {
        /// Its name.
        name: String,
        /// The lowest speed and the case it is of.
        low: (Rate, String),
        /// The highest speed and the case it is of.
        high: (Rate, String),
        /// Cases in which it runs.
        cases: usize,
    },
    /// Cases in which nothing runs.
    NotIn {
        /// Number of these cases.
        cases: usize,
        /// Number of all cases.
        of: usize,
    },
    /// One contender is the fastest in all cases in which any runs.
    WinsAll {
        /// Its name.
        name: String,
        /// Number of these cases.
        cases: usize,
        /// Number of all cases.
        of: usize,
        /// Speed over that of the next best, in cases with a next best. `None`: not said, or no
        /// rival.
        gain: Option<Range>,
    },
    /// One contender is the fastest or ties, in all cases in which any runs.
    Unbeaten {
        /// Its name.
        name: String,
        /// Number of these cases.
        cases: usize,
        /// Number of all cases.
        of: usize,
        /// Cases in which no other is as fast.
        alone: usize,
        /// Speed over that of the next best in these. `None`: not said, or no rival.
        gain: Option<Range>,
    },
    /// Several contenders are equally fast, and none is faster, in all cases in which any runs.
    TiesAll {
        /// The one that needs least memory, or is written first.
        name: String,
        /// The others.
        with: Vec<String>,
        /// Number of others named; the rest are counted.
        named: usize,
        /// Number of these cases.
        cases: usize,
        /// Number of all cases.
        of: usize,
        /// Speed of the fastest over that of the slowest, where only their errors make it a tie.
        apart: Option<f64>,
        /// Peak memory that it saves.
        saving: Option<Saving>,
    },
    /// The fastest contenders of some cases.
    Where {
        /// The contenders that nothing is faster than; empty if nothing runs there.
        fastest: Vec<String>,
        /// Speed of the fastest over that of the slowest, where only their errors make it a tie.
        apart: Option<f64>,
        /// Speed over that of the next best, if one contender wins.
        gain: Option<Range>,
        /// The cases, by paths and values.
        cases: Vec<IndexMap<String, String>>,
        /// The cases in words (`up to rate 50 GB/s`).
        place: String,
    },
    /// Number of cases won, by contender.
    Counts {
        /// Number of all cases.
        of: usize,
        /// Contenders by cases, most first.
        wins: Vec<Wins>,
        /// Cases that contenders win which are not named.
        others: usize,
        /// Cases in which several are equally fast and none is faster.
        ties: usize,
        /// Cases in which nothing runs.
        nothing: usize,
    },
    /// Recorded host time of a replayed run, which a replay repeats whatever its model.
    Recorded {
        /// Name of the run.
        name: String,
        /// Share of the step.
        share: f64,
    },
    /// Ties that a contender leads because it needs less memory than another.
    LeastMemory {
        /// Its name.
        name: String,
        /// Number of them.
        cases: usize,
    },
}

/// A contender, and the setting it is at its best with where there are several.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The contender.
    pub name: String,
    /// The swept settings in words, if they are said; empty where there is one.
    pub at: String,
    /// True if several settings were tried, each contender at its best.
    pub chosen: bool,
    /// The point of the sweep.
    pub point: IndexMap<String, String>,
}

/// A speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Unit of work.
    pub speed: Speed,
    /// Per second.
    pub value: f64,
    /// Time of the step.
    pub step_time_s: f64,
}

/// From the least to the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// Peak memory that a contender saves against another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// The first other contender that needs more.
    pub against: String,
    /// Share of the other one's peak.
    pub share: Range,
}

/// Cases that a contender wins.
#[derive(Clone, Debug, PartialEq)]
pub struct Wins {
    /// Its name.
    pub name: String,
    /// Number of cases.
    pub cases: usize,
    /// Speed over that of the next best in these cases. `None`: not said, or no rival.
    pub gain: Option<Range>,
}

impl Range {
    /// From the least to the most of some values; none of none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values.into_iter().fold(None, |range: Option<Range>, value| {
            let Range { low, high } = range.unwrap_or(Range { low: value, high: value });
            Some(Range { low: low.min(value), high: high.max(value) })
        })
    }
}
