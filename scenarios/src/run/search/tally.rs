//! Plans of a search by what became of them.

use std::cmp::Reverse;

use indexmap::IndexMap;
use reports::summary::{Broken, SearchProof};

use crate::experiment::Objective;
use crate::run::plan::rule;
use crate::schema::word;

/// Counts of plans.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) short_of_memory: u64,
    pub(super) slower: u64,
    pub(super) equal: u64,
    pub(super) fit: u64,
    pub(super) did_not_fit: u64,
    pub(super) left: u64,
    impossible: u64,
    /// By rule, in the words of the first plan that breaks it.
    reasons: IndexMap<String, Broken>,
    broken: IndexMap<String, Broken>,
}

impl Tally {
    /// Counts a plan that cannot be built, for these reasons.
    pub(super) fn impossible(&mut self, reasons: &[String]) {
        self.impossible += 1;
        reasons.iter().for_each(|reason| count(&mut self.reasons, rule(reason), reason));
    }

    /// Counts a plan that breaks these limits.
    pub(super) fn broken(&mut self, limits: &[&str]) {
        limits.iter().for_each(|limit| count(&mut self.broken, (*limit).to_owned(), limit));
    }

    pub(super) fn proof(self, minimise: &[Objective], gap: Option<f64>) -> SearchProof {
        let all = |rules: IndexMap<String, Broken>| {
            let mut rules: Vec<Broken> = rules.into_values().collect();
            rules.sort_by_key(|broken| Reverse(broken.plans));
            rules
        };
        let Self { short_of_memory, slower, equal, fit, did_not_fit, left, impossible, .. } = self;
        SearchProof {
            minimise: minimise.iter().map(word).collect(),
            plans: impossible + short_of_memory + slower + equal + fit + did_not_fit + left,
            impossible,
            short_of_memory,
            slower,
            equal,
            fit,
            did_not_fit,
            left,
            broken: all(self.broken),
            reasons: all(self.reasons),
            gap,
            ..SearchProof::default()
        }
    }
}

fn count(rules: &mut IndexMap<String, Broken>, rule: String, words: &str) {
    rules.entry(rule).or_insert_with(|| Broken { rule: words.to_owned(), plans: 0 }).plans += 1;
}
