//! Updates by hosts: tasks of a step beside its visits, for parameters whose states are in host memory or on drives. One realiser
//! gives them lanes of their own ([`crate::passes::realise::host_update`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::OpId;

/// States of the optimizer that are with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedStates {
    /// Parameters that are updated, and go back, together.
    pub group: u64,
    /// Groups that are in host memory at a time, where states are on drives.
    pub buffers: u32,
    /// The host updates while the next step computes, whose parameters are as old.
    pub delayed: bool,
    /// Gradients leave in every backward pass, as soon as they are there; else once a step, when
    /// they are summed.
    pub beside: bool,
    /// A backward pass goes on when they have left.
    pub waits: bool,
    /// Where parameters are between passes; those that are away from the GPUs come block by block
    /// for every pass.
    pub parameters: KeptParameters,
    /// Blocks whose parameters are in buffers of host memory at a time, where they are on drives.
    pub parameter_buffers: u32,
    /// States are on drives, where gradients go, too.
    pub states_on_drives: bool,
    /// Host memory has the gradients of all parameters; else as many as the buffers of states, on
    /// their way to the drives.
    pub all_gradients: bool,
    /// Billionths of the parameters that the host updates; the GPU has the states of the others.
    pub billionths: u64,
    /// The GPU updates them all: a group's states come for that, and leave again.
    pub pages: bool,
}

/// All of the parameters, in billionths.
pub(crate) const ALL: u64 = 1_000_000_000;

/// Where parameters are between passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeptParameters {
    /// On the GPUs.
    Gpu,
    /// In host memory.
    Host,
    /// On drives, from where those of each block are read ahead of every pass, and where an update
    /// writes them.
    Drives,
}

impl KeptParameters {
    /// True if they are away from the GPUs.
    pub const fn are_away(self) -> bool {
        !matches!(self, Self::Gpu)
    }

    /// True if they are on drives.
    pub const fn are_on_drives(self) -> bool {
        matches!(self, Self::Drives)
    }
}

/// Gradients in host memory whose states are on drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostGradients {
    /// As many as fit the buffers of states, through which they pass in fp32: DeepSpeed 0.3.15 to
    /// 0.5, with which ZeRO-Infinity was published. Sums over micro-batches are whole.
    #[default]
    Buffered,
    /// Gradients of all parameters, which threads copy to the buffers: DeepSpeed since 0.6
    /// (`grad_partitions_flat_buffer`).
    Whole,
}

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
    /// Tasks that have ended when the GPU goes on from where their operators stand in its update.
    pub needed: Vec<usize>,
    /// Tasks that have ended when the GPU goes on after its update.
    pub awaited: Vec<usize>,
    /// Copies of exchanges that need a buffer, and the tasks that have freed it.
    pub held_back: Vec<(OpId, usize)>,
}

impl HostUpdate {
    /// Operators that write gradients to drives as these come from the GPU.
    pub(crate) fn passing(&self) -> impl Iterator<Item = OpId> {
        let passes = |task: &&HostTask| {
            task.lane == HostLane::Write && matches!(task.after[..], [HostEvent::Exchanged(_)])
        };
        self.tasks.iter().filter(passes).flat_map(|task| &task.ops).copied()
    }
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
    /// Brings states, from drives or to the GPU.
    Read,
    /// Processors: copy gradients to buffers, and update.
    Process,
    /// Takes states away.
    Write,
    /// Copies parameters to the GPU.
    Return,
}

/// An event that a task waits for. Tasks are indices into [`HostUpdate::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The GPU has come to its update.
    Passes,
    /// The GPU has come to where an operator stands in its update that a task executes.
    Reached(OpId),
    /// An [exchange](crate::exchange::Exchange) has ended, of which this is the last operator.
    Exchanged(OpId),
    /// A task has ended.
    Ended(usize),
    /// A task has ended, which had the buffer that this one needs.
    Freed(usize),
    /// A task of the step before has ended.
    EndedBefore(usize),
}
