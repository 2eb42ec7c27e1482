//! The last step of a run, as a stretch of its time.

use reports::summary::LastStep;
use sim_core::id::StreamId;
use sim_core::outcome::Run;
use sim_core::time::Time;

use super::measure::first_mark;
use super::one::Simulation;

/// The stretch between the last two marks, which are when a measured step begins or ends on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The earliest mark but one of all ranks.
    pub(super) start: Time,
    /// The latest mark of all ranks, or the end of the run where no step ended.
    pub(super) end: Time,
    /// The compute lane with that mark; of several the first. `None`: no step ended.
    pub(super) last: Option<StreamId>,
    /// The compute lane whose measured steps take longest; of several the first.
    pub(super) longest: Option<StreamId>,
    /// End of the run.
    pub(super) until: Time,
}

impl Window {
    /// The last step of a run.
    pub(super) fn of(simulation: &Simulation<'_>, run: &Run) -> Self {
        let lowered = &simulation.built.lowered;
        let marks = |nth_last: usize| {
            let ranks =
                lowered.stages.iter().map(|ids| (&run.streams[ids.compute.index()].marks, ids.compute));
            ranks.filter_map(move |(marks, stream)| Some((marks[marks.len().checked_sub(nth_last)?], stream)))
        };
        let last = marks(1).rev().max_by_key(|(mark, _)| *mark);
        let first = first_mark(simulation.scenario) as usize;
        let measured = |stream: StreamId| {
            let marks = &run.streams[stream.index()].marks;
            Some((*marks.last()? - *marks.get(first)?, stream))
        };
        let measured = lowered.ranks.iter().rev().filter_map(|ids| measured(ids.compute));
        Self {
            start: marks(2).map(|(mark, _)| mark).min().unwrap_or(Time::ZERO),
            end: last.map_or(run.time, |(mark, _)| mark),
            last: last.map(|(_, stream)| stream),
            longest: measured.max_by_key(|(time, _)| *time).map(|(_, stream)| stream),
            until: run.time,
        }
    }
}

impl From<Window> for LastStep {
    fn from(window: Window) -> Self {
        let [last, longest] = [window.last, window.longest].map(|stream| stream.map(|it| it.0));
        let [start, end, until] = [window.start, window.end, window.until].map(|time| time.0);
        Self { start, end, until, last, longest }
    }
}

impl From<LastStep> for Window {
    fn from(step: LastStep) -> Self {
        let [last, longest] = [step.last, step.longest].map(|stream| stream.map(StreamId));
        let [start, end, until] = [step.start, step.end, step.until].map(Time);
        Self { start, end, last, longest, until }
    }
}
