//! Lanes simulated: when steps began, and what each lane did meanwhile.

use sim_core::outcome::{ByCause, End, StreamUse};
use sim_core::program::{StartState, Stream};
use sim_core::time::Time;
use sim_core::{Options, simulate};
use thiserror::Error;

use super::{Lanes, lower};

/// Lanes after a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// When it ended.
    pub time: Time,
    /// Moments of the marks of the thread that has most.
    pub marks: Vec<Time>,
    /// Threads, then streams of devices.
    pub lanes: Vec<LaneUse>,
    /// The critical path of that thread by cause, from the mark that was asked for.
    pub critical: Vec<(String, Time)>,
}

/// Time of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneUse {
    /// `thread[25738]`, or `gpu[0].stream[7]`.
    pub name: String,
    /// By cause, until its end.
    pub spent: Vec<(String, Time)>,
}

/// Lanes that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LanesError {
    /// They wait for each other for ever.
    #[error("lanes wait for each other: {0}")]
    Deadlock(String),
    /// A mistake of this crate.
    #[error("the lanes cannot be simulated: {0}")]
    Broken(String),
}

/// Simulates lanes on devices that have at most `queue` launches waiting each. The critical path
/// counts from the mark numbered `path_from`.
///
/// # Errors
/// See [`LanesError`].
pub fn run(lanes: &Lanes, queue: u64, path_from: Option<u32>) -> Result<Ran, LanesError> {
    let lowered = lower(lanes, queue);
    let (platform, program) = (&lowered.platform, &lowered.program);
    // Each lane is executed once: stretches that repeat are not worth looking for.
    let options = Options { path_from, segments: false, ..Options::default() };
    let run = simulate(platform, program, &StartState::default(), &options);
    let run = run.map_err(|errors| {
        LanesError::Broken(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    match &run.end {
        End::Completed => {}
        End::Deadlock(waiting) => {
            let names = waiting.iter().map(|it| {
                format!("{} waits for {}", program.streams[it.place.stream.index()].name, it.for_what)
            });
            return Err(LanesError::Deadlock(names.collect::<Vec<_>>().join(", ")));
        }
        end => return Err(LanesError::Broken(format!("{end:?}"))),
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
    Ok(Ran {
        time: run.time,
        marks: stepping.map_or_else(Vec::new, |used| used.marks.clone()),
        lanes: program.streams.iter().zip(&run.streams).map(lane).collect(),
        critical: stepping.map_or_else(Vec::new, |used| named(&used.critical)),
    })
}
