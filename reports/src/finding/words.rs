//! Claims of a headline in words.

use std::fmt;

use super::claim::{Claim, Range, Rate, Saving, Setting, Wins};
use super::{NAMED, failure, list};
use crate::quantity;
use crate::ranking::ALIKE;
use crate::wording::capitalised;

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
                write!(f, "It needs {bytes} of the {capacity} of {device}")
            }
            Claim::Only { best, rate, fits } => {
                let verb = if *fits { "fits" } else { "runs" };
                write!(f, "Only {} {verb}, with {}{}", best.name, rate.with_step(), best.place())
            }
            Claim::Faster { best, over, ratio, .. } => write!(
                f,
                "{}{} is {} faster than {over}{}",
                best.name,
                best.place(),
                quantity::gain(*ratio),
                best.others_too(),
            ),
            Claim::Fastest { best, of, over, .. } => {
                write!(f, "{}{} is fastest of {of}", best.name, best.place())?;
                over.first()
                    .map_or(Ok(()), |(name, ratio)| write!(f, ", by {} over {name}", quantity::gain(*ratio)))
            }
            Claim::Tie { best, with, named, apart, saving, .. } => match saving {
                None => {
                    let names = [std::slice::from_ref(&best.name), with].concat();
                    write!(f, "{} {}{}", list(&names, *named), tie(*apart), best.place())
                }
                Some(_) => {
                    write!(f, "{}{} {} {}", best.name, best.place(), ties_with(*apart), list(with, *named))
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
            Claim::Holders(words) => write!(f, "{}", capitalised(words)),
            Claim::Between { name, low, high, cases } => {
                let [slowest, fastest] = [low.0.to_string(), high.0.to_string()];
                let to = if slowest == fastest { String::new() } else { format!(" to {fastest}") };
                write!(f, "{name} runs at {slowest}{to} in {cases} cases")
            }
            Claim::Recorded { name, share } => {
                write!(f, "{name} is {} recorded host time", quantity::percent(*share))
            }
            Claim::NotIn { cases, of } => write!(f, "Nothing runs in {cases} of {of} cases"),
            Claim::WinsAll { name, cases, of, gain } => {
                write!(f, "{name} is fastest in {}", all_cases(*cases, *of))?;
                gain.iter().try_for_each(|gain| write!(f, ", by {} over the next best", gain.gain()))
            }
            Claim::Unbeaten { name, cases, of, alone, gain } => {
                write!(f, "{name} leads or ties in {}, leading in {alone}", all_cases(*cases, *of))?;
                gain.iter().try_for_each(|gain| write!(f, " (by {})", gain.gain()))
            }
            Claim::TiesAll { name, with, named, cases, of, apart, saving } => {
                let cases = all_cases(*cases, *of);
                match saving {
                    None => {
                        let names = [std::slice::from_ref(name), with].concat();
                        write!(f, "{} {} in {cases}", list(&names, *named), tie(*apart))
                    }
                    Some(_) => {
                        write!(f, "{name} {} {} in {cases}", ties_with(*apart), list(with, *named))
                    }
                }
            }
            Claim::Where { fastest, apart, gain, place, .. } => match fastest.as_slice() {
                [] => write!(f, "Nothing runs {place}"),
                [one] => {
                    write!(f, "{one} is fastest {place}")?;
                    gain.iter().try_for_each(|gain| write!(f, " (by {})", gain.gain()))
                }
                several => write!(f, "{} {} {place}", list(several, NAMED), tie(*apart)),
            },
            Claim::Counts { of, wins, others, ties, nothing } => {
                let mut parts: Vec<String> = Vec::new();
                let single = wins.is_empty() && *others > 0;
                for (number, Wins { name, cases, .. }) in wins.iter().enumerate() {
                    let verb = if number == 0 { " is fastest" } else { "" };
                    parts.push(format!("{name}{verb} in {cases}"));
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

impl Claim {
    /// Figures of a claim for which its sentence has no room, as another sentence.
    pub fn detail(&self) -> Option<String> {
        match self {
            Claim::Faster { rates, ratio, .. } => Some(against(rates, *ratio)),
            Claim::Fastest { best, rate, over, .. } => {
                let slowest = over
                    .get(1)
                    .map(|(name, ratio)| format!(", {} faster than {name}", quantity::gain(*ratio)));
                let each = if best.chosen { ", each at its best" } else { "" };
                Some(format!("It runs at {rate}{}{each}", slowest.unwrap_or_default()))
            }
            Claim::Tie { best, rate, apart, saving, .. } => {
                let saving = saving.as_ref().map(|saving| format!(", {}", saving.words()));
                let it = match (&saving, apart) {
                    (Some(_), _) => "It runs",
                    (None, None) => "They run",
                    (None, Some(_)) => &format!("{} runs", best.name),
                };
                let within = apart.map(|apart| format!("; {}", within(apart)));
                Some(format!("{it} at {rate}{}{}", saving.unwrap_or_default(), within.unwrap_or_default()))
            }
            Claim::TiesAll { apart, saving, .. } => {
                let saving = saving.as_ref().map(|saving| format!("It runs {}", saving.words()));
                let within = apart.map(within).map(|within| match saving {
                    Some(_) => format!("; {within}"),
                    None => capitalised(&within),
                });
                let parts: Vec<String> = saving.into_iter().chain(within).collect();
                (!parts.is_empty()).then(|| parts.concat())
            }
            Claim::Between { low, high, .. } if low.0 != high.0 => {
                Some(format!("It is slowest at {}, fastest at {}", low.1, high.1))
            }
            Claim::Counts { wins, .. } => {
                let gain = |wins: &Wins| Some(format!("{} leads by {}", wins.name, wins.gain?.gain()));
                let gains: Vec<String> = wins.iter().filter_map(gain).collect();
                (!gains.is_empty()).then(|| gains.join(", "))
            }
            _ => None,
        }
    }
}

/// Verb for contenders that are as fast as each other, or apart by less than their errors.
fn tie(apart: Option<f64>) -> &'static str {
    if apart.is_some() { "tie" } else { "are equally fast" }
}

/// How the first of such contenders relates to the others.
fn ties_with(apart: Option<f64>) -> &'static str {
    if apart.is_some() { "ties with" } else { "is as fast as" }
}

/// `speeds differ by up to 3.80 %, within their error`
fn within(apart: f64) -> String {
    format!("speeds differ by up to {}, within their error", quantity::gain(apart))
}

/// `all 6 cases`, or `the 4 of 6 cases where any runs`.
fn all_cases(cases: usize, of: usize) -> String {
    match of {
        _ if cases < of => format!("the {cases} of {of} cases where any runs"),
        2 => "both cases".to_owned(),
        _ => format!("all {of} cases"),
    }
}

/// `A step takes 12.1 s against 15.9 s`, or the two speeds where the steps do different amounts of
/// work.
fn against(rates: &[Rate; 2], ratio: f64) -> String {
    let [first, other] = rates;
    let same_work = ((other.step_time_s / first.step_time_s) / ratio - 1.0).abs() < 1e-3;
    match same_work {
        true => format!(
            "A step takes {} against {}",
            quantity::seconds(first.step_time_s),
            quantity::seconds(other.step_time_s)
        ),
        false => format!("It runs at {first} against {other}"),
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
    /// `with 41.2 % less peak memory than keep`.
    fn words(&self) -> String {
        format!("with {} less peak memory than {}", self.share.percent(), self.against)
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
