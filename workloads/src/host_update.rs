//! Updates by hosts: of parameters whose states are there, group after group; one realiser gives them lanes of their own
//! ([`crate::realise::host_update`]).

use crate::graph::OpId;

/// What the host of each rank of a stage does once a step, between the sums of gradients and what follows the update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostUpdate {
    /// The stage.
    pub stage: u32,
    /// Parameters that are updated together, in this order.
    pub groups: Vec<HostGroup>,
    /// The GPU goes on with what the update before has made of the parameters.
    pub delayed: bool,
}

/// Parameters that are updated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// Their update, an operator of the visit [`Update`](crate::graph::Phase::Update).
    pub update: OpId,
    /// Their copy to the GPU, an operator of no visit.
    pub back: OpId,
}
