//! A replay: lanes simulated, and what came of their steps.

use sim_core::outcome::{ByCause, End, Run, StreamUse};
use sim_core::program::{StartState, Stream};
use sim_core::time::Time;
use sim_core::{Options, simulate};
use thiserror::Error;

use super::traced::Traced;
use crate::lanes::{cause, lower};

/// Result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Steps in order; one, of all there is, where the trace has no steps.
    pub steps: Vec<Step>,
    /// Threads, then streams of devices.
    pub lanes: Vec<LaneUse>,
    /// The critical path of the steps by cause; adds up to them.
    pub critical: Vec<(String, Time)>,
}

/// A step as it was recorded, and as it was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Recorded.
    pub recorded: Time,
    /// Replayed.
    pub replayed: Time,
}

/// Time of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneUse {
    /// `thread[25738]`, or `gpu[0].stream[7]`.
    pub name: String,
    /// By cause, until its end.
    pub spent: Vec<(String, Time)>,
}

/// Lanes that cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// They wait for each other for ever: events of the trace contradict each other.
    #[error("lanes of the trace wait for each other: {0}; events may be missing or out of order")]
    Deadlock(String),
    /// A mistake of this crate.
    #[error("the lanes cannot be simulated: {0}")]
    Broken(String),
}

/// Replays lanes on devices that have at most `queue` launches waiting each.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(traced: &Traced, queue: u64) -> Result<Replayed, ReplayError> {
    let lowered = lower(&traced.lanes, queue);
    let (platform, program) = (&lowered.platform, &lowered.program);
    let path_from = (!traced.recorded_steps.is_empty()).then_some(0);
    // Each lane is executed once: stretches that repeat are not worth looking for.
    let options = Options { path_from, segments: false, ..Options::default() };
    let run = simulate(platform, program, &StartState::default(), &options);
    let run = run.map_err(|errors| {
        ReplayError::Broken(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    match &run.end {
        End::Completed => {}
        End::Deadlock(waiting) => {
            let names = waiting.iter().map(|it| {
                format!("{} waits for {}", program.streams[it.place.stream.index()].name, it.for_what)
            });
            return Err(ReplayError::Deadlock(names.collect::<Vec<_>>().join(", ")));
        }
        end => return Err(ReplayError::Broken(format!("{end:?}"))),
    }
    let named = |spent: &ByCause| {
        let causes = program.causes.iter().zip(spent).filter(|(_, time)| **time > Time::ZERO);
        causes.map(|(cause, &time)| (cause.clone(), time)).collect::<Vec<_>>()
    };
    let lane = |(stream, used): (&Stream, &StreamUse)| LaneUse {
        name: stream.name.clone(),
        spent: named(&used.spent),
    };
    // The thread of the steps; without any, the lane that ends last.
    let stepping = run.streams.iter().max_by_key(|used| (used.marks.len(), used.finished));
    Ok(Replayed {
        steps: steps(traced, &run, stepping),
        lanes: program.streams.iter().zip(&run.streams).map(lane).collect(),
        critical: stepping.map_or_else(Vec::new, |used| named(&used.critical)),
    })
}

fn steps(traced: &Traced, run: &Run, stepping: Option<&StreamUse>) -> Vec<Step> {
    let marks = stepping.map_or(&[][..], |used| &used.marks);
    if traced.recorded_steps.is_empty() {
        return vec![Step { recorded: traced.recorded, replayed: run.time }];
    }
    let replayed = marks.windows(2).map(|pair| pair[1] - pair[0]);
    let steps = traced.recorded_steps.iter().zip(replayed);
    steps.map(|(&recorded, replayed)| Step { recorded, replayed }).collect()
}

impl Replayed {
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
