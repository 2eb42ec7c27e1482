//! How the work of a plan gets onto a machine, whatever the model is.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::time::Time;

use crate::graph::OpId;
use crate::lanes::QUEUE;
use crate::order::PipelineSchedule;
use crate::passes::host_buffers::HostBuffers;
use crate::passes::realise::launches::LaunchWaits;
use crate::passes::realise::messages::SendMode;
use crate::placement::Placement;
use crate::site::Drives;

use super::launch::Launch;
use super::{Pipelining, Techniques};

/// How stages run on the GPUs of a machine, and what of these they may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// On which GPUs the stages are.
    pub placement: Placement,
    /// How the host issues the work.
    pub launch: Launch,
    /// True if a compiler made the kernels of passes over memory, and the code that calls them.
    pub compiled: bool,
    /// Time of the host for an operator beyond that of its framework: layers above the operators.
    pub host_overhead: Time,
    /// What of the memory of hosts is for what GPUs copy there and back.
    pub buffers: HostBuffers,
    /// Arrays of drives, and what is kept on which.
    pub drives: Drives,
    /// How the stages work together.
    pub pipelining: Pipelining,
    /// Bytes of each GPU that are kept back beyond what the catalogue says.
    pub reserved: u64,
    /// Bytes of each GPU that may be used, reserved ones included; none: all.
    pub limit: Option<u64>,
    /// By stage, bytes of those that the allocator of the framework cannot use for tensors; 0 of a stage beyond the end.
    pub fragments: Vec<u64>,
    /// Time of the host in each visit for calls of the driver, by the operator that asks for
    /// memory.
    pub driver: BTreeMap<OpId, Time>,
}

impl Deployment {
    /// One step of so many micro-batches, one forward and one backward in turn, on GPU after GPU, with nothing that waits
    /// for a host or a send, and all of the memory.
    pub fn new(micro_batches: u32) -> Self {
        Self {
            placement: Placement::Sequential,
            launch: Launch::Free,
            compiled: false,
            host_overhead: Time::ZERO,
            buffers: HostBuffers::ENOUGH,
            drives: Drives::NONE,
            pipelining: Pipelining {
                micro_batches,
                schedule: PipelineSchedule::OneFOneB,
                send: SendMode::Eager,
                steps: 1,
                no_sums: false,
                compiled: false,
                prices: None,
                launch_queue: QUEUE,
                launch_waits: LaunchWaits::default(),
                drained: BTreeSet::new(),
                techniques: Techniques::default(),
            },
            reserved: 0,
            limit: None,
            fragments: Vec::new(),
            driver: BTreeMap::new(),
        }
    }

    /// Whether a stage of so many ends the backward pass of a micro-batch before it begins the forward pass of the next.
    pub fn one_at_a_time(&self, stages: u32) -> bool {
        let &Pipelining { micro_batches, schedule, .. } = &self.pipelining;
        (stages == 1 && schedule == PipelineSchedule::OneFOneB) || micro_batches == 1
    }
}
