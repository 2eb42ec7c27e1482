//! A replay: lanes simulated, and what came of their steps.

use sim_core::time::Time;

use super::traced::Traced;
use crate::lanes::{LaneUse, LanesError, Ran, Simulation, cause};

/// Result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Steps in order; one, of all there is, where the trace has no steps.
    pub steps: Vec<Step>,
    /// Begin of every step, and the end of the last.
    pub marks: Vec<Time>,
    /// Threads, then streams of devices.
    pub lanes: Vec<LaneUse>,
    /// Index of the lane that the critical path leads to.
    pub stepping: usize,
    /// The critical path of the steps by cause; adds up to them.
    pub critical: Vec<(String, Time)>,
    /// Activities of the engine.
    pub activities: u64,
}

/// A step as it was recorded, and as it was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Recorded. `None`: the file has no begins.
    pub recorded: Option<Time>,
    /// Replayed.
    pub replayed: Time,
}

/// Replays lanes on devices that have at most `queue` launches waiting each.
///
/// # Errors
/// See [`LanesError`].
pub fn replay(traced: &Traced, queue: u64) -> Result<Replayed, LanesError> {
    Ok(Replayed::of(traced, simulation(traced, queue, 0).run()?))
}

/// The lanes of a trace, ready to be replayed; the critical path is that of the steps from number
/// `first` on.
pub fn simulation(traced: &Traced, queue: u64, first: u32) -> Simulation<'_> {
    let path_from = (!traced.recorded_steps.is_empty()).then_some(first);
    Simulation::new(&traced.lanes, queue, path_from)
}

/// Steps between marks; one, of all there is, where the trace has none.
fn steps(traced: &Traced, marks: &[Time]) -> Vec<Step> {
    let recorded: Vec<Option<Time>> = match &traced.recorded_steps[..] {
        [] => vec![traced.recorded],
        steps => steps.iter().copied().map(Some).collect(),
    };
    let replayed = marks.windows(2).map(|pair| pair[1] - pair[0]);
    recorded.into_iter().zip(replayed).map(|(recorded, replayed)| Step { recorded, replayed }).collect()
}

impl Replayed {
    /// Findings of a run of the lanes of a trace.
    pub fn of(traced: &Traced, ran: Ran) -> Self {
        let steps = steps(traced, &ran.marks);
        let Ran { marks, lanes, stepping, critical, activities } = ran;
        Self { steps, marks, lanes, stepping, critical, activities }
    }

    /// Mean of the replayed steps (s).
    pub fn mean_s(&self) -> f64 {
        let total: f64 = self.steps.iter().map(|step| step.replayed.as_secs()).sum();
        total / self.steps.len().max(1) as f64
    }

    /// Share of the critical path that is recorded time of hosts, 0 to 1: a replay repeats it,
    /// whatever the device does.
    pub fn host_share(&self) -> f64 {
        let hosts = [cause::PYTHON, cause::DISPATCH, cause::CALLS, cause::LOADER];
        let total: u64 = self.critical.iter().map(|(_, time)| time.0).sum();
        let own = self.critical.iter().filter(|(cause, _)| hosts.contains(&cause.as_str()));
        own.map(|(_, time)| time.0).sum::<u64>() as f64 / total.max(1) as f64
    }
}
