//! The last step of a run, as a stretch of its time.

use sim_core::id::StreamId;
use sim_core::outcome::Run;
use sim_core::time::Time;
use workloads::lower::Lowered;

/// The stretch between the last two marks, which are when a measured step begins or ends on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The earliest mark but one of all ranks.
    pub(super) start: Time,
    /// The latest mark of all ranks, or the end of the run where no step ended.
    pub(super) end: Time,
    /// The compute lane with that mark; of several the first. `None`: no step ended.
    pub(super) last: Option<StreamId>,
    /// End of the run.
    pub(super) until: Time,
}

impl Window {
    /// The last step of a run.
    pub(super) fn of(lowered: &Lowered, run: &Run) -> Self {
        let marks = |nth_last: usize| {
            let ranks =
                lowered.stages.iter().map(|ids| (&run.streams[ids.compute.index()].marks, ids.compute));
            ranks.filter_map(move |(marks, stream)| Some((marks[marks.len().checked_sub(nth_last)?], stream)))
        };
        let last = marks(1).rev().max_by_key(|(mark, _)| *mark);
        Self {
            start: marks(2).map(|(mark, _)| mark).min().unwrap_or(Time::ZERO),
            end: last.map_or(run.time, |(mark, _)| mark),
            last: last.map(|(_, stream)| stream),
            until: run.time,
        }
    }
}
