//! A program that was executed: its mode, its iterations, and what its threads did.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::LaneTime;

/// Execution of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutedProgram {
    /// How it was executed, as a file says it: `co-execution`.
    pub execution: String,
    /// Its framework.
    pub framework: String,
    /// Iterations of the run.
    pub iterations: u64,
    /// Iterations that were simulated; the others repeat the last ones.
    pub simulated: u64,
    /// Mean time of all iterations, with what is captured, compiled or traced once. The step is that of the second half.
    pub mean_iteration_s: f64,
    /// Of all seeds the least and the most of the mean.
    pub mean_iteration_spread_s: Option<[f64; 2]>,
    /// Share of the iterations that ran from a graph, 0 to 1.
    pub coverage: f64,
    /// Number of iterations by how they were executed.
    pub ran: IndexMap<String, u64>,
    /// Iterations from which on they were executed otherwise, counted from 1, and how.
    pub phases: Vec<Phase>,
    /// Times of the first iterations.
    pub iteration_s: Vec<f64>,
    /// Threads of the host, then the GPU: time of an iteration by cause, mean over all that were simulated.
    pub lanes: Vec<LaneTime>,
}

/// Iterations that follow each other and were executed alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The first of them, counted from 1.
    pub from: u64,
    /// How they were executed.
    pub ran: String,
}
