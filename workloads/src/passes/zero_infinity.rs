//! ZeRO-Infinity (Rajbhandari et al., SC 2021): states of the optimizer are on the drives of a node, or in its memory, and so are
//! parameters, of which every rank has its share.
//!
//! A block's parameters come from the drives to buffers of the host, some blocks ahead in the static order of passes, and over the links of all ranks, to each its share, and are gathered between them (bandwidth-centric
//! partitioning). Gradients leave as their sums are scattered, and go on to the drives. The host reads the states of a group,
//! updates and writes them.

use crate::limits::Invalid;
use crate::model::hosted::{HostedStates, ParametersAt};
use crate::model::transformer::{DataParallel, Sharding, Step};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "zero_infinity";

/// What is kept where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroInfinity {
    /// Where parameters are.
    pub parameters: ParametersAt,
    /// States are on drives; else in host memory.
    pub states_on_drives: bool,
    /// Parameters that are updated together.
    pub group: u64,
    /// Groups that are in host memory at a time, where states are on drives.
    pub buffers: u32,
}

impl ZeroInfinity {
    pub(crate) const fn hosted(self) -> HostedStates {
        let Self { parameters, states_on_drives, group, buffers } = self;
        HostedStates { group, buffers, delayed: false, beside: true, parameters, states_on_drives }
    }

    /// Reports what keeps hosts from updating a model of so many stages, of which `data` are copies.
    pub fn check(self, stages: u32, data: &DataParallel, step: Step, wrong: &mut impl FnMut(Invalid)) {
        let mut refuse = |problem: &str| wrong(Invalid { field: NAME, problem: problem.to_owned() });
        if step != Step::Whole {
            refuse("a step without an update has no use for states: let it be `full`, or remove it");
        }
        if stages > 1 {
            refuse(
                "what is shared is gathered for every micro-batch of a pipeline anew, which no framework does: use 1 stage",
            );
        }
        if data.ranks > 1 && data.sharding != Sharding::Parameters {
            refuse("every rank has its share of all: let copies share parameters (ZeRO-3)");
        }
        if data.sharing < data.ranks {
            refuse("groups of copies that share would each update all: let all copies share");
        }
        if self.group == 0 {
            refuse("a group of no parameters is never updated: give it some, such as 1 billion");
        }
        if self.buffers == 0 || self.parameters == (ParametersAt::Drives { buffers: 0 }) {
            refuse("without a buffer nothing is read: give it at least one");
        }
    }
}
