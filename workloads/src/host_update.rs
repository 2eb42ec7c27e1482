//! Updates by hosts: tasks of a step beside its visits, for parameters whose states are in host memory or on drives. One realiser
//! gives them lanes of their own ([`crate::passes::realise::host_update`]).

use crate::graph::OpId;

/// Limits of the processors of a host, for each of its ranks (byte/s). `None`: all that its memory
/// allows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostRates {
    /// Bytes of memory that they read and write while they update.
    pub update: Option<f64>,
    /// Bytes of gradients that they copy to buffers of drives.
    pub gradients: Option<f64>,
}

/// Tasks of the host of each rank of a stage, once a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostUpdate {
    /// The stage.
    pub stage: u32,
    /// Tasks; those of one lane follow each other.
    pub tasks: Vec<HostTask>,
    /// Tasks that have ended when the GPU goes on after its update.
    pub awaited: Vec<usize>,
}

/// A task of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTask {
    /// Lane that executes it.
    pub lane: HostLane,
    /// Operators, one after the other: of no visit, or of the visit [`Update`](crate::graph::Phase::Update), which leave it.
    pub ops: Vec<OpId>,
    /// Events that it waits for, in turn.
    pub after: Vec<HostEvent>,
}

/// A lane of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLane {
    /// Reads states from drives.
    Read,
    /// Processors: copy gradients to buffers, and update.
    Process,
    /// Writes to drives.
    Write,
    /// Copies parameters to the GPU.
    Return,
}

/// An event that a task waits for. Tasks are indices into [`HostUpdate::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The GPU has come to its update.
    Passes,
    /// An [exchange](crate::exchange::Exchange) has ended, of which this is the last operator.
    Exchanged(OpId),
    /// A task has ended.
    Ended(usize),
    /// A task has ended, which had the buffer that this one needs.
    Freed(usize),
    /// A task of the step before has ended.
    EndedBefore(usize),
}
