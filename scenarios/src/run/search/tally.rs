//! Plans of a search by what became of them.

use std::cmp::Reverse;

use indexmap::IndexMap;
use reports::summary::{Broken, SearchProof};

use crate::experiment::Objective;
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
    reasons: IndexMap<String, u64>,
    broken: IndexMap<String, u64>,
}

impl Tally {
    /// Counts a plan that breaks these rules.
    pub(super) fn impossible(&mut self, rules: impl Iterator<Item = String>) {
        self.impossible += 1;
        rules.for_each(|rule| *self.reasons.entry(rule).or_default() += 1);
    }

    /// Counts a plan that breaks these limits.
    pub(super) fn broken<'a>(&mut self, limits: impl Iterator<Item = &'a str>) {
        limits.for_each(|limit| *self.broken.entry(limit.to_owned()).or_default() += 1);
    }

    pub(super) fn proof(self, minimise: Objective, gap: Option<f64>) -> SearchProof {
        let all = |rules: IndexMap<String, u64>| {
            let mut rules: Vec<Broken> =
                rules.into_iter().map(|(rule, plans)| Broken { rule, plans }).collect();
            rules.sort_by_key(|broken| Reverse(broken.plans));
            rules
        };
        let Self { short_of_memory, slower, equal, fit, did_not_fit, left, impossible, .. } = self;
        SearchProof {
            minimise: word(&minimise),
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
        }
    }
}
