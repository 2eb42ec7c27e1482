//! The words for what a rank's compute lane does. At each moment it is in exactly one state, decided by what released
//! it next, so the states of a rank add up to its step. Every table and plot uses these words and no others.
//!
//! A word may carry a kind after a colon: `communication: all-reduce`, `compute: forward`.

use indexmap::IndexMap;

/// Useful work.
pub const COMPUTE: &str = "compute";
/// Work done again to save memory.
pub const RECOMPUTE: &str = "recompute";
/// Waiting for the host to launch the next kernel.
pub const LAUNCH_BOUND: &str = "launch-bound";
/// Waiting for room in a memory.
pub const WAITING_FOR_MEMORY: &str = "waiting for memory";
/// Waiting for bytes to come or go.
pub const WAITING_FOR_TRANSFER: &str = "waiting for a transfer";
/// In a collective or message whose peers have all arrived.
pub const COMMUNICATION: &str = "communication";
/// In a collective whose last peer has not arrived.
pub const SKEW: &str = "skew";
/// Waiting for a message whose producer had not started.
pub const PIPELINE_BUBBLE: &str = "pipeline bubble";
/// Nothing left to do in this step.
pub const IDLE: &str = "idle at the end";

/// All words, in the order of every legend and stack: work first, then what keeps from working.
pub const ALL: [&str; 9] = [
    COMPUTE,
    RECOMPUTE,
    LAUNCH_BOUND,
    WAITING_FOR_MEMORY,
    WAITING_FOR_TRANSFER,
    COMMUNICATION,
    SKEW,
    PIPELINE_BUBBLE,
    IDLE,
];

/// The word without its kind: `communication` of `communication: all-reduce`.
pub fn word(state: &str) -> &str {
    state.split_once(':').map_or(state, |(word, _)| word).trim()
}

/// The kind without its word, if it has one: `all-reduce` of `communication: all-reduce`.
pub fn kind(state: &str) -> Option<&str> {
    state.split_once(':').map(|(_, kind)| kind.trim()).filter(|kind| !kind.is_empty())
}

/// The entries of a breakdown in the order of [`ALL`], others last; within a word as they come.
pub(crate) fn in_order(breakdown: &IndexMap<String, f64>) -> impl Iterator<Item = (&str, f64)> {
    let entries = breakdown.iter().map(|(state, time)| (state.as_str(), *time)).collect();
    sorted(entries, |(state, _)| state).into_iter()
}

/// Anything that goes by a state, in the order of [`ALL`].
pub(crate) fn sorted<'a, T>(mut entries: Vec<T>, state: impl Fn(&T) -> &'a str) -> Vec<T> {
    entries
        .sort_by_key(|entry| ALL.iter().position(|known| *known == word(state(entry))).unwrap_or(ALL.len()));
    entries
}
