//! Lanes simulated: when steps began, and what each lane did meanwhile.

use sim_core::id::StreamId;
use sim_core::observe::{Observer, Unobserved};
use sim_core::outcome::{ByCause, End, PathStep, Run, StreamUse};
use sim_core::program::{StartState, Stream};
use sim_core::time::Time;
use sim_core::{Options, simulate_observed};
use thiserror::Error;

use super::watch::{LaneEvent, LaneSpan, Watch};
use super::{Lanes, Lowered, lower};

/// Lanes after a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// Begin of every step, and the end of the last: moments of the thread that marks most; of all
    /// there is, where none does.
    pub marks: Vec<Time>,
    /// Threads, then streams of devices.
    pub lanes: Vec<LaneUse>,
    /// Index of that thread in `lanes`; where none marks, of the lane that ends last.
    pub stepping: usize,
    /// The critical path of that lane by cause, from the mark that was asked for.
    pub critical: Vec<(String, Time)>,
    /// Activities of the engine.
    pub activities: u64,
}

/// A stretch of a critical path: time of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLeg {
    /// Index of the lane.
    pub lane: usize,
    /// Begin.
    pub start: Time,
    /// End.
    pub end: Time,
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
    /// They wait for each other for ever. Of a trace: its events contradict each other.
    #[error("lanes wait for each other: {0}; events of a trace may be missing or out of order")]
    Deadlock(String),
    /// A mistake of this crate.
    #[error("the lanes cannot be simulated: {0}")]
    Broken(String),
}

/// Lanes ready to be run, as often as somebody looks on.
pub struct Simulation<'a> {
    lanes: &'a Lanes,
    lowered: Lowered,
    path_from: Option<u32>,
}

impl<'a> Simulation<'a> {
    /// Lowers lanes for devices that have at most `queue` launches waiting each. The critical path
    /// counts from the mark numbered `path_from`.
    pub fn new(lanes: &'a Lanes, queue: u64, path_from: Option<u32>) -> Self {
        Self { lanes, lowered: lower(lanes, queue), path_from }
    }

    /// Runs the lanes.
    ///
    /// # Errors
    /// See [`LanesError`].
    pub fn run(&self) -> Result<Ran, LanesError> {
        let run = self.observed(None, &mut Unobserved)?;
        let program = &self.lowered.program;
        let named = |spent: &ByCause| {
            let causes = program.causes.iter().zip(spent).filter(|(_, time)| **time > Time::ZERO);
            causes.map(|(cause, &time)| (cause.clone(), time)).collect::<Vec<_>>()
        };
        let lane = |(stream, used): (&Stream, &StreamUse)| LaneUse {
            name: stream.name.clone(),
            spent: named(&used.spent),
        };
        // The thread of the steps; without any, the lane that ends last.
        let lanes = run.streams.iter().enumerate();
        let stepping = lanes.max_by_key(|(_, used)| (used.marks.len(), used.finished));
        let marks = match stepping.map_or(&[][..], |(_, used)| &used.marks) {
            [] | [_] => vec![Time::ZERO, run.time],
            marks => marks.to_vec(),
        };
        Ok(Ran {
            marks,
            lanes: program.streams.iter().zip(&run.streams).map(lane).collect(),
            stepping: stepping.map_or(0, |(index, _)| index),
            critical: stepping.map_or_else(Vec::new, |(_, used)| named(&used.critical)),
            activities: run.activities,
        })
    }

    /// Runs the lanes again, and hands what they do between two times to `each`, lane by lane in
    /// order of time.
    ///
    /// # Errors
    /// See [`LanesError`].
    pub fn watch<'s>(&'s self, window: [Time; 2], each: impl FnMut(LaneSpan<'s>)) -> Result<(), LanesError> {
        self.watched(window, None, each).map(|_| ())
    }

    /// Watches lanes as [`Simulation::watch`] does, and gives what the critical path of one of them
    /// is between these times: legs in order of time, from the mark that was asked for on.
    ///
    /// # Errors
    /// See [`LanesError`].
    pub fn watch_path<'s>(
        &'s self,
        [from, to]: [Time; 2],
        path_of: usize,
        each: impl FnMut(LaneSpan<'s>),
    ) -> Result<Vec<LaneLeg>, LanesError> {
        let run = self.watched([from, to], Some(StreamId::from(path_of)), each)?;
        let leg = |steps: &[PathStep]| {
            let end = steps.last().map_or(from, |last| last.begin + last.duration);
            let [start, end] = [steps[0].begin, end].map(|time| time.clamp(from, to));
            (start < end).then_some(LaneLeg { lane: steps[0].stream.index(), start, end })
        };
        Ok(run.path.chunk_by(|a, b| a.stream == b.stream).filter_map(leg).collect())
    }

    fn watched<'s>(
        &'s self,
        window: [Time; 2],
        path_of: Option<StreamId>,
        mut each: impl FnMut(LaneSpan<'s>),
    ) -> Result<Run, LanesError> {
        let spans = |event| {
            if let LaneEvent::Span(span) = event {
                each(span);
            }
        };
        let mut watch = Watch::new(self.lanes, &self.lowered.program, window, spans);
        self.observed(path_of, &mut watch)
    }

    /// Hands on spans within a window, and what lets each lane go on.
    ///
    /// # Errors
    /// See [`LanesError`].
    pub fn watch_all<'s>(
        &'s self,
        window: [Time; 2],
        each: impl FnMut(LaneEvent<'s>),
    ) -> Result<(), LanesError> {
        let mut watch = Watch::new(self.lanes, &self.lowered.program, window, each).with_arrows();
        self.observed(None, &mut watch).map(|_| ())
    }

    fn observed(&self, path_of: Option<StreamId>, observer: &mut dyn Observer) -> Result<Run, LanesError> {
        let (platform, program) = (&self.lowered.platform, &self.lowered.program);
        // Each lane is executed once: stretches that repeat are not worth looking for.
        let options = Options { path_from: self.path_from, path_of, segments: false, ..Options::default() };
        let run = simulate_observed(platform, program, &StartState::default(), &options, observer);
        let run = run.map_err(|errors| {
            LanesError::Broken(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        match &run.end {
            End::Completed => Ok(run),
            End::Deadlock(waiting) => {
                let names = waiting.iter().map(|it| {
                    format!("{} waits for {}", program.streams[it.place.stream.index()].name, it.for_what)
                });
                Err(LanesError::Deadlock(names.collect::<Vec<_>>().join(", ")))
            }
            end => Err(LanesError::Broken(format!("{end:?}"))),
        }
    }
}
