//! The outcome of a simulation as a journal holds it.

use serde::{Deserialize, Serialize};

use super::{Failure, RunSummary, Uncertainty};

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A run, with or without a step time.
    Run(Box<JournaledRun>),
    /// A plan that was tried and does not fit; nobody asked why.
    DoesNotFit,
}

/// A run with the figures that results.json leaves out. Drawings are not kept: they are simulated
/// again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournaledRun {
    run: RunSummary,
    step_time_uncertainty: Option<Uncertainty>,
    unfragmented_bytes: Option<u64>,
}

impl JournaledRun {
    /// A run without its drawings.
    pub fn of(run: &RunSummary) -> Self {
        let undrawn = RunSummary {
            last_step: None,
            timeline: None,
            detail: None,
            not_drawn: None,
            memory_curves: Vec::new(),
            step_time_uncertainty: None,
            failure: run.failure.clone().map(|failure| Failure { unfragmented_bytes: None, ..failure }),
            ..run.clone()
        };
        Self {
            run: undrawn,
            step_time_uncertainty: run.step_time_uncertainty.clone(),
            unfragmented_bytes: run.failure.as_ref().and_then(|failure| failure.unfragmented_bytes),
        }
    }
}

impl From<JournaledRun> for RunSummary {
    fn from(JournaledRun { mut run, step_time_uncertainty, unfragmented_bytes }: JournaledRun) -> Self {
        run.failure.iter_mut().for_each(|failure| failure.unfragmented_bytes = unfragmented_bytes);
        RunSummary { step_time_uncertainty, ..run }
    }
}
