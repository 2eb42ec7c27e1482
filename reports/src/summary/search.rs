//! The proof of a search: every plan of the space, by what became of it.

use serde::{Deserialize, Serialize};

/// Plans of a space, of which the best was looked for. All kinds add up to `plans`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchProof {
    /// Objective: `step_time`, `time_per_sample`.
    pub minimise: String,
    /// Plans of the space: points times variants.
    pub plans: u64,
    /// Plans whose settings do not go together.
    pub impossible: u64,
    /// Plans that hold more than a GPU has in whichever order they are executed.
    pub short_of_memory: u64,
    /// Plans that are not simulated, as even without any contention they are slower than the best is
    /// within the gap.
    pub slower: u64,
    /// Plans that come to the same scenario as another.
    pub equal: u64,
    /// Plans that were simulated and fit.
    pub fit: u64,
    /// Plans that were simulated and do not.
    pub did_not_fit: u64,
    /// Plans that nobody came to before the search was stopped.
    pub left: u64,
    /// Plans of those that fit, by the limit that they break.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Broken>,
    /// Rules that make plans impossible, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Broken>,
    /// Any plan of the space is at most this much better than the best, relative to it: 0 where it is proven to be the
    /// best. Absent where no plan fits within the limits.
    pub gap: Option<f64>,
}

/// A limit or a rule, and the plans that break it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// In words.
    pub rule: String,
    /// How many break it.
    pub plans: u64,
}
