//! Compares a sentence with its claims: every number and every name in it is of a claim.

use std::collections::BTreeSet;

use reports::finding::{Claim, Range, Rate, Saving, Setting, Speed};
use reports::quantity;

use super::table::Table;

/// Numbers and names that a claim may say.
#[derive(Default)]
struct Said {
    numbers: BTreeSet<String>,
    names: Vec<String>,
}

/// Checks that `clause` says `claim` and nothing else.
pub(super) fn check(clause: &str, claim: &Claim, table: &Table) -> Result<(), String> {
    let said = Said::by(claim);
    let of_names: BTreeSet<String> = said.names.iter().flat_map(|name| numbers(name)).collect();
    for number in numbers(clause) {
        if !said.numbers.contains(&number) && !of_names.contains(&number) {
            return Err(format!("{number} is no number of {claim:?}"));
        }
    }
    let known = table.contenders();
    let listed = said.names.iter().filter(|name| known.contains(name)).count();
    let found: Vec<&String> = known.iter().filter(|name| mentions(clause, name)).collect();
    if let Some(stranger) = found.iter().find(|name| !said.names.iter().any(|said| mentions(said, name))) {
        return Err(format!("{stranger} is not in {claim:?}"));
    }
    // Of long lists the first are named and the others counted.
    if found.len() < listed && !clause.contains(" others") {
        return Err(format!("{found:?} are not all of {claim:?}"));
    }
    Ok(())
}

/// True if a name stands in a text as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    let apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_');
    text.match_indices(name)
        .any(|(at, _)| apart(text[..at].chars().next_back()) && apart(text[at + name.len()..].chars().next()))
}

/// The numbers of a text, without units and signs around them.
fn numbers(text: &str) -> Vec<String> {
    let words =
        text.split(|c: char| c.is_whitespace() || matches!(c, '–' | '(' | ')' | ',' | ';' | ':' | '×'));
    let words = words.map(|word| word.trim_end_matches('.').to_owned());
    words.filter(|word| word.chars().any(|c| c.is_ascii_digit())).collect()
}

impl Said {
    fn by(claim: &Claim) -> Self {
        let mut said = Said::default();
        match claim {
            Claim::NothingRan => {}
            Claim::Interrupted { ended, planned } => said.count([*ended, *planned]),
            Claim::Alone { name, rate } => said.names([name]).rate(rate),
            Claim::Mostly { state, share } => said.names([state]).text(&quantity::percent(*share)),
            Claim::Peak { device, bytes, capacity } => {
                said.names([device]).text(&quantity::bytes(*bytes));
                said.text(&quantity::bytes(*capacity));
            }
            Claim::Only { best, rate, .. } => said.setting(best).rate(rate),
            Claim::Faster { best, over, ratio, rates } => {
                said.setting(best).names([over]).ratio(*ratio);
                rates.iter().for_each(|rate| said.rate(rate));
            }
            Claim::Fastest { best, rate, of, over } => {
                said.setting(best).rate(rate);
                said.count([*of as u64]);
                for (name, ratio) in over {
                    said.names([name]).ratio(*ratio);
                }
            }
            Claim::Tie { best, with, named, rate, apart, saving } => {
                said.setting(best).names(with).rate(rate);
                apart.iter().for_each(|apart| said.ratio(*apart));
                said.unnamed(with.len(), *named, saving.is_some());
                said.shares(saving.as_ref());
            }
            Claim::Slower { names, by } => {
                said.names(names).ratios(Some(*by));
                said.count([names.len().saturating_sub(3) as u64]);
            }
            Claim::Failed { names, .. } => {
                said.names(names).count([names.len().saturating_sub(3) as u64]);
            }
            Claim::Fails { name, reason, .. } => {
                said.names([name]).names(reason);
            }
            Claim::NoneRuns { points, .. } => said.count([*points as u64]),
            Claim::Closest { name, store, short } => said.names([name, store]).text(&quantity::bytes(*short)),
            Claim::Holders(words) => {
                said.names([words]);
            }
            Claim::Between { name, low, high, cases, .. } => {
                said.names([name, &low.1, &high.1]).rate(&low.0);
                said.rate(&high.0);
                said.count([*cases as u64]);
            }
            Claim::NotIn { cases, of } => said.count([*cases as u64, *of as u64]),
            Claim::WinsAll { name, cases, of, gain } => {
                said.names([name]).ratios(*gain);
                said.count([*cases as u64, *of as u64]);
            }
            Claim::Unbeaten { name, cases, of, alone, gain } => {
                said.names([name]).ratios(*gain);
                said.count([*cases as u64, *of as u64, *alone as u64]);
            }
            Claim::TiesAll { name, with, named, cases, of, apart, saving } => {
                said.names([name]).names(with).shares(saving.as_ref());
                apart.iter().for_each(|apart| said.ratio(*apart));
                said.count([*cases as u64, *of as u64]);
                said.unnamed(with.len(), *named, saving.is_some());
            }
            Claim::Where { fastest, gain, place, cases, .. } => {
                said.names(fastest).ratios(*gain);
                said.count([fastest.len().saturating_sub(3) as u64]);
                // The place is in the words of its cases.
                said.names(cases.iter().flat_map(|case| case.values()));
                debug_assert!(!place.is_empty());
            }
            Claim::Counts { of, wins, others, ties, nothing } => {
                for wins in wins {
                    said.names([&wins.name]).ratios(wins.gain);
                    said.count([wins.cases as u64]);
                }
                said.count([*of as u64, *others as u64, *ties as u64, *nothing as u64]);
            }
            Claim::Recorded { name, share } => said.names([name]).text(&quantity::percent(*share)),
            Claim::LeastMemory { name, cases } => said.names([name]).count([*cases as u64]),
        }
        said
    }

    fn names<'s>(&mut self, names: impl IntoIterator<Item = &'s String>) -> &mut Self {
        self.names.extend(names.into_iter().cloned());
        self
    }

    fn setting(&mut self, setting: &Setting) -> &mut Self {
        self.names([&setting.name, &setting.at])
    }

    fn count(&mut self, counts: impl IntoIterator<Item = u64>) {
        self.numbers.extend(counts.into_iter().map(|count| count.to_string()));
    }

    fn text(&mut self, text: &str) {
        self.numbers.extend(numbers(text));
    }

    fn rate(&mut self, rate: &Rate) {
        let speed = match rate.speed {
            Speed::Tokens | Speed::Samples => quantity::count(rate.value),
            Speed::MicroBatches | Speed::Steps => String::new(),
        };
        self.text(&speed);
        self.text(&quantity::seconds(rate.step_time_s));
    }

    /// `1.31×` or `4.20 %`
    fn ratio(&mut self, ratio: f64) {
        self.text(&quantity::times(ratio));
        self.text(&quantity::percent(ratio - 1.0));
    }

    fn ratios(&mut self, range: Option<Range>) {
        range.iter().flat_map(|range| [range.low, range.high]).for_each(|ratio| self.ratio(ratio));
    }

    /// Number of tied contenders that are not named: without the best one, or with it.
    fn unnamed(&mut self, with: usize, named: usize, apart: bool) {
        let all = if apart { with } else { with + 1 };
        self.count([all.saturating_sub(named) as u64]);
    }

    fn shares(&mut self, saving: Option<&Saving>) {
        let ends = saving.iter().flat_map(|saving| [saving.share.low, saving.share.high]);
        ends.for_each(|share| self.text(&quantity::percent(share)));
    }
}
