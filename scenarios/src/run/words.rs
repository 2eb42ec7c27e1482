//! What streams, operations and kinds of bytes are called in results.

use indexmap::IndexMap;
use sim_core::outcome::{ByCause, Place};
use workloads::lower::Lowered;
use workloads::schedule::LaneKind;

/// Names for one run.
pub(super) struct Words<'a> {
    lowered: &'a Lowered,
    micro_batches: u32,
}

impl<'a> Words<'a> {
    pub(super) fn new(lowered: &'a Lowered, micro_batches: u32) -> Self {
        Self { lowered, micro_batches }
    }

    /// `stage 3`.
    pub(super) fn stage(stage: usize) -> String {
        format!("stage {stage}")
    }

    /// `stage 3`, or what a stream of it does besides computing.
    pub(super) fn stream(&self, stream: sim_core::id::StreamId) -> String {
        let role = self.lowered.streams[stream.index()];
        let stage = Self::stage(role.stage as usize);
        match role.kind {
            LaneKind::Compute => stage,
            LaneKind::Link { to } => format!("messages of {stage} to stage {to}"),
            LaneKind::Evict => format!("evictions of {stage}"),
            LaneKind::Load => format!("loads of {stage}"),
        }
    }

    /// `forward of micro-batch 7`, counted from 0 in every step.
    pub(super) fn operation(&self, place: &Place) -> String {
        let block = &self.lowered.program.blocks[place.block.index()].name;
        format!("{block} of micro-batch {}", self.micro_batch(place))
    }

    /// The micro-batch within its step.
    pub(super) fn micro_batch(&self, place: &Place) -> u32 {
        place.args[0].unsigned_abs() % self.micro_batches.max(1)
    }

    /// Durations that are not zero, by the words of the report.
    pub(super) fn by_cause(&self, durations: &ByCause) -> IndexMap<String, f64> {
        let causes = self.lowered.program.causes.iter().zip(durations);
        causes.filter(|(_, time)| time.0 > 0).map(|(cause, time)| (cause.clone(), time.as_secs())).collect()
    }

    /// Bytes that are not zero, by kind.
    pub(super) fn by_kind(&self, bytes: &[u64]) -> IndexMap<String, u64> {
        let kinds = self.lowered.program.kinds.iter().zip(bytes);
        kinds.filter(|(_, bytes)| **bytes > 0).map(|(kind, bytes)| (kind.clone(), *bytes)).collect()
    }
}
