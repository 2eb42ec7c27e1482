//! Exchanges: collectives, and copies between GPUs and hosts, that belong to no visit. They run on lanes of their own, ahead of
//! the operators that read what they fill or behind those that write what they sum; one realiser ties them to the compute lane
//! ([`crate::passes::realise::exchanges`]).
//!
//! An exchange whose operators are of phase [`Update`](crate::graph::Phase::Update) happens once a step, any other once for
//! every micro-batch.

use crate::graph::{OpGraph, OpId, Phase};

/// What goes on beside the visits of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Operators of no visit, at least one, which its lane executes in turn: a collective, and copies before or after it. What a
    /// gather fills its first one writes.
    pub ops: Vec<OpId>,
    /// What brings from drives what the first of them sends, where it is kept there.
    pub read: Option<ReadAhead>,
    /// How it hangs on the operators of visits.
    pub tie: Tie,
    /// True if it happens once a step, and stages of a pipeline launch it at the same time, with
    /// the others of its chunk.
    pub aligned: bool,
}

/// A read from drives into a buffer of host memory, on a lane that runs ahead of that of the exchanges, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// An operator of no visit.
    pub op: OpId,
    /// What so many have read is in host memory at a time.
    pub buffers: u32,
}

impl Exchange {
    /// What it is done for. Its last operator happens whenever it does.
    pub fn phase(&self, graph: &OpGraph) -> Phase {
        self.ops.last().map_or(Phase::Update, |&op| graph.get(op).phase)
    }
}

/// Who launches a gather, and takes memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchedBy {
    /// The device, when it comes to the reader `prefetch` before.
    Device,
    /// The host, before it issues the reader so many gathers `ahead`; if it `waits`, not before the device has come to the
    /// reader `prefetch` before that one.
    Host {
        /// How many gathers ahead, within the visit.
        ahead: u32,
        /// Whether it waits.
        waits: bool,
    },
}

/// How an exchange hangs on the operators of visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// It fills what `reader` and operators after it read; once a step: before the first micro-batch.
    Gather {
        /// The operator that waits for it.
        reader: OpId,
        /// It is launched when the reader of so many gathers before it begins; 0: when its own would.
        prefetch: u32,
        /// Who launches it.
        launched: LaunchedBy,
    },
    /// It sums what `writer` completes; once a step: after the last micro-batch. The update waits for it.
    Reduce {
        /// The operator that launches it.
        writer: OpId,
        /// Operators after the writer wait until it is done.
        waits: bool,
    },
}
