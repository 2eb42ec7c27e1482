//! Lanes simulated: when steps began, and what each lane did meanwhile.

use sim_core::observe::{Observer, Unobserved};
use sim_core::outcome::{ByCause, End, Run, StreamUse};
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
    /// The critical path of that thread by cause, from the mark that was asked for.
    pub critical: Vec<(String, Time)>,
    /// Activities of the engine.
    pub activities: u64,
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
        let run = self.observed(&mut Unobserved)?;
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
        let stepping = run.streams.iter().max_by_key(|used| (used.marks.len(), used.finished));
        let marks = match stepping.map_or(&[][..], |used| &used.marks) {
            [] | [_] => vec![Time::ZERO, run.time],
            marks => marks.to_vec(),
        };
        Ok(Ran {
            marks,
            lanes: program.streams.iter().zip(&run.streams).map(lane).collect(),
            critical: stepping.map_or_else(Vec::new, |used| named(&used.critical)),
            activities: run.activities,
        })
    }

    /// Runs the lanes again, and hands what they do between two times to `each`, lane by lane in
    /// order of time.
    ///
    /// # Errors
    /// See [`LanesError`].
    pub fn watch<'s>(
        &'s self,
        window: [Time; 2],
        mut each: impl FnMut(LaneSpan<'s>),
    ) -> Result<(), LanesError> {
        let spans = |event| {
            if let LaneEvent::Span(span) = event {
                each(span);
            }
        };
        let mut watch = Watch::new(self.lanes, &self.lowered.program, window, spans);
        self.observed(&mut watch).map(|_| ())
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
        self.observed(&mut watch).map(|_| ())
    }

    fn observed(&self, observer: &mut dyn Observer) -> Result<Run, LanesError> {
        let (platform, program) = (&self.lowered.platform, &self.lowered.program);
        // Each lane is executed once: stretches that repeat are not worth looking for.
        let options = Options { path_from: self.path_from, segments: false, ..Options::default() };
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
