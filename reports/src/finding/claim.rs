//! Claims of a headline, as values and in words.

use std::fmt;

use indexmap::IndexMap;

use super::{NAMED, failure, list};
use crate::quantity;
use crate::ranking::{ALIKE, Speed};
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
        /// True if the two cases are named.
        named: bool,
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
        /// Peak memory that it saves.
        saving: Option<Saving>,
    },
    /// The fastest contenders of some cases.
    Where {
        /// The contenders as fast as the fastest; empty if nothing runs there.
        fastest: Vec<String>,
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

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::NothingRan => write!(f, "Nothing was run"),
            Claim::Interrupted { ended, planned } => {
                write!(f, "{ended} of {planned} runs ended before the interrupt")
            }
            Claim::Alone { name, rate } => write!(f, "{name} runs at {}", rate.with_step()),
            Claim::Mostly { state, share } => write!(f, "{} of it is {state}", quantity::percent(*share)),
            Claim::Peak { device, bytes, capacity } => {
                let [bytes, capacity] = [*bytes, *capacity].map(quantity::bytes);
                write!(f, "it needs {bytes} of the {capacity} of {device}")
            }
            Claim::Only { best, rate, fits } => {
                let verb = if *fits { "fits" } else { "runs" };
                write!(f, "Only {} {verb}, with {}{}", best.name, rate.with_step(), best.place())
            }
            Claim::Faster { best, over, ratio, rates } => write!(
                f,
                "{}{} is {} faster than {over}{} ({})",
                best.name,
                best.place(),
                quantity::gain(*ratio),
                best.others_too(),
                against(rates, *ratio)
            ),
            Claim::Fastest { best, rate, of, over } => {
                let each = if best.chosen { ", each at its best" } else { "" };
                write!(f, "{}{} is fastest of {of}{each} ({rate})", best.name, best.place())?;
                over.iter().enumerate().try_for_each(|(number, (name, ratio))| {
                    let sign = if number == 0 { ":" } else { "," };
                    write!(f, "{sign} {} faster than {name}", quantity::gain(*ratio))
                })
            }
            Claim::Tie { best, with, named, rate, saving } => match saving {
                None => {
                    let names = [std::slice::from_ref(&best.name), with].concat();
                    write!(f, "{} are equally fast ({rate}{})", list(&names, *named), best.place())
                }
                Some(saving) => {
                    let with = list(with, *named);
                    write!(
                        f,
                        "{}{} is as fast as {with} ({rate}), {}",
                        best.name,
                        best.place(),
                        saving.words(&with)
                    )
                }
            },
            Claim::Slower { names, by } => {
                let be = if names.len() == 1 { "is" } else { "are" };
                write!(f, "{} {be} {} slower", list(names, NAMED), by.gain())
            }
            Claim::Failed { names, kind, everywhere } => {
                write!(f, "{} {}", list(names, NAMED), failure::fails(*kind, names.len() == 1, *everywhere))
            }
            Claim::Fails { name, kind, reason } => {
                write!(f, "{name} {}", failure::fails(*kind, true, false))?;
                reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
            }
            Claim::NoneRuns { fits, points } => {
                let verb = if *fits { "fits" } else { "runs" };
                match points {
                    1 => write!(f, "No variant {verb}"),
                    _ => write!(f, "No variant {verb} at any of the {points} settings"),
                }
            }
            Claim::Closest { name, store, short } => {
                write!(f, "{name} comes closest: {store} is {} short", quantity::bytes(*short))
            }
            Claim::Holders(words) => write!(f, "{words}"),
            Claim::Between { name, low, high, cases, named } => {
                let [slowest, fastest] = [low.0.to_string(), high.0.to_string()];
                match (slowest == fastest, *named) {
                    (true, _) => write!(f, "{name} runs at {fastest} in {cases} cases"),
                    (false, true) => {
                        write!(f, "{name} runs at {slowest} ({}) to {fastest} ({})", low.1, high.1)
                    }
                    (false, false) => write!(f, "{name} runs at {slowest} to {fastest} in {cases} cases"),
                }
            }
            Claim::NotIn { cases, of } => write!(f, "nothing runs in {cases} of {of} cases"),
            Claim::WinsAll { name, cases, of, gain } => {
                write!(f, "{name} is fastest in {}", all_cases(*cases, *of))?;
                gain.iter().try_for_each(|gain| write!(f, ", by {} over the next best", gain.gain()))
            }
            Claim::TiesAll { name, with, named, cases, of, saving } => {
                let cases = all_cases(*cases, *of);
                match saving {
                    None => {
                        let names = [std::slice::from_ref(name), with].concat();
                        write!(f, "{} are equally fast in {cases}", list(&names, *named))
                    }
                    Some(saving) => {
                        let with = list(with, *named);
                        write!(f, "{name} is as fast as {with} in {cases}, {}", saving.words(&with))
                    }
                }
            }
            Claim::Where { fastest, gain, place, .. } => match fastest.as_slice() {
                [] => write!(f, "nothing runs {place}"),
                [one] => {
                    write!(f, "{one} is fastest {place}")?;
                    gain.iter().try_for_each(|gain| write!(f, " (by {})", gain.gain()))
                }
                several => write!(f, "{} are equally fast {place}", list(several, NAMED)),
            },
            Claim::Counts { of, wins, others, ties, nothing } => {
                let mut parts: Vec<String> = Vec::new();
                let single = wins.is_empty() && *others > 0;
                for (number, Wins { name, cases, gain }) in wins.iter().enumerate() {
                    let verb = if number == 0 { " is fastest" } else { "" };
                    let gain = gain.map_or(String::new(), |gain| format!(" (by {})", gain.gain()));
                    parts.push(format!("{name}{verb} in {cases}{gain}"));
                }
                parts.extend(single.then(|| format!("{others} have a single winner")));
                parts.extend((!single && *others > 0).then(|| format!("others in {others}")));
                parts.extend((*ties > 0).then(|| format!("{ties} tie")));
                parts.extend((*nothing > 0).then(|| format!("nothing runs in {nothing}")));
                write!(f, "Of {of} cases {}", parts.join(", "))
            }
            Claim::LeastMemory { name, cases } => {
                write!(f, "{name} needs least memory in {cases} of the ties")
            }
        }
    }
}

/// `all 6 cases`, or `the 4 of 6 cases where any runs`.
fn all_cases(cases: usize, of: usize) -> String {
    match of {
        _ if cases < of => format!("the {cases} of {of} cases where any runs"),
        2 => "both cases".to_owned(),
        _ => format!("all {of} cases"),
    }
}

/// `12.1 s against 15.9 s`, or the two speeds where the steps do different amounts of work.
fn against(rates: &[Rate; 2], ratio: f64) -> String {
    let [first, other] = rates;
    let same_work = ((other.step_time_s / first.step_time_s) / ratio - 1.0).abs() < 1e-3;
    match same_work {
        true => format!(
            "{} against {}",
            quantity::seconds(first.step_time_s),
            quantity::seconds(other.step_time_s)
        ),
        false => format!("{first} against {other}"),
    }
}

impl Setting {
    /// ` at micro-batch 2`, or nothing.
    fn place(&self) -> String {
        if self.at.is_empty() { String::new() } else { format!(" at {}", self.at) }
    }

    /// ` at its best`, if every contender has its own setting.
    fn others_too(&self) -> &'static str {
        if self.chosen { " at its best" } else { "" }
    }
}

impl Saving {
    /// `with 41.2 % less peak memory than keep`; `keep` is not repeated if only it was named.
    fn words(&self, with: &str) -> String {
        let than = if with == self.against { String::new() } else { format!(" than {}", self.against) };
        format!("with {} less peak memory{than}", self.share.percent())
    }
}

impl Rate {
    /// `98.6 samples/s (1.46 s a step)`, or the step time alone.
    fn with_step(&self) -> String {
        match self.speed.is_of_work() {
            true => format!("{self} ({} a step)", quantity::seconds(self.step_time_s)),
            false => self.to_string(),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.speed.is_of_work() {
            true => write!(f, "{}", self.speed.text(self.value)),
            false => write!(f, "{} a step", quantity::seconds(self.step_time_s)),
        }
    }
}

impl Range {
    /// From the least to the most of some values; none of none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values.into_iter().fold(None, |range: Option<Range>, value| {
            let Range { low, high } = range.unwrap_or(Range { low: value, high: value });
            Some(Range { low: low.min(value), high: high.max(value) })
        })
    }

    /// Ratios above 1: `1.70–5.33 %`, `1.20–1.57×`, `up to 1.57×`; both ends in one unit.
    fn gain(self) -> String {
        let [low, high] = [self.low, self.high].map(quantity::gain);
        match (low == high, self.high >= 1.1, quantity::times(self.low)) {
            (true, ..) => high,
            (false, false, _) => between(&quantity::significant((self.low - 1.0) * 100.0), &high),
            (false, true, low) if low == "1.00×" => format!("up to {high}"),
            (false, true, low) => between(low.trim_end_matches('×'), &high),
        }
    }

    /// Shares: `30.1–41.2 %`, or `up to 41.2 %` where the least is nothing worth a word.
    fn percent(self) -> String {
        let [low, high] = [self.low, self.high].map(quantity::percent);
        match self.low {
            _ if low == high => high,
            least if least < ALIKE => format!("up to {high}"),
            least => between(&quantity::significant(least * 100.0), &high),
        }
    }
}

/// `1.20–1.57×`
fn between(low: &str, high: &str) -> String {
    format!("{low}–{high}")
}
