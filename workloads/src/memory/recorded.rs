//! What only a run tells of memory.

use super::Absences;

/// When memory of the first rank of a stage is given back and taken in a step, by a run.
///
/// A tensor beyond the end of a list finds all before it returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// By parameters that are gathered, in the order of the host: those lent before that the device had returned when they were
    /// allocated.
    pub gathers: Vec<u32>,
    /// The same of gradients that are summed or leave for the host.
    pub sums: Vec<u32>,
    /// Storages that are away for a while.
    pub absences: Absences,
}
