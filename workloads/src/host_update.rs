//! Updates by hosts: of parameters whose states are in host memory or on drives, group after group; one realiser gives them lanes of
//! their own ([`crate::passes::realise::host_update`]).

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

/// What the host of each rank of a stage does once a step, between the sums of gradients and what follows the update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostUpdate {
    /// The stage.
    pub stage: u32,
    /// Gradients that go to drives before the update, in the order in which they come from the GPU.
    pub gradients: Vec<HostGradients>,
    /// Parameters that are updated together, in this order.
    pub groups: Vec<HostGroup>,
    /// Groups whose states are in host memory at a time, where they are on drives.
    pub buffers: u32,
    /// The GPU goes on with what the update before has made of the parameters.
    pub delayed: bool,
}

/// Gradients that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostGradients {
    /// Their copy from the GPU, the last operator of an [exchange](crate::exchange::Exchange).
    pub received: OpId,
    /// Their copy to a buffer, an operator of no visit.
    pub copied: OpId,
    /// Its way to the drives, another.
    pub written: OpId,
}

/// Parameters that are updated together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// Their states come from the drives, an operator of no visit, where they are kept there.
    pub read: Option<OpId>,
    /// Their update, an operator of the visit [`Update`](crate::graph::Phase::Update).
    pub update: OpId,
    /// What is kept on drives goes back there, states, then parameters: operators of no visit.
    pub written: Vec<OpId>,
    /// Their copy to the GPU, an operator of no visit, where they are kept there.
    pub back: Option<OpId>,
}
