//! The cost book: how long operators, messages and copies take. The only place beside the profile that knows time;
//! schedules and techniques never see it.

use sim_core::time::Time;

use crate::chain::Hop;
use crate::graph::OpId;

/// Durations for lowering.
#[derive(Clone, Debug, PartialEq)]
pub struct CostBook {
    /// Duration of each operator, indexed by [`OpId`].
    pub ops: Vec<Time>,
    /// Duration of a message across the boundary after each stage, see [`CostBook::message`].
    pub transfers: Vec<Time>,
    /// What copies between partner stages run over.
    pub partner_link: PartnerLink,
}

/// The connection between a stage and its partner, in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartnerLink {
    /// So fast that a copy takes no time.
    Hidden,
    /// Bytes per second, from 10^5 to 10^15.
    Rate(f64),
}

impl CostBook {
    /// Duration of an operator.
    pub fn op(&self, op: OpId) -> Time {
        self.ops[op.0 as usize]
    }

    /// Duration of a message between two stages.
    pub fn message(&self, hop: Hop) -> Time {
        self.transfers[boundary(hop)]
    }
}

/// The stage whose `transfer` entry holds for a message in either direction: neighbours use the entry of the lower
/// stage, the hop from the last stage to the first that of the last.
pub fn boundary(hop: Hop) -> usize {
    let (low, high) = (hop.from.min(hop.to), hop.from.max(hop.to));
    (if high - low == 1 { low } else { high }) as usize
}
