//! ZeRO-Offload (Ren et al., ATC 2021): parameters stay on the GPU as its operators read them; gradients leave for the host as
//! soon as they are there, which has the states of the optimizer, updates, and sends the parameters back.
//!
//! Copies of the model share the states as ZeRO-2 does: a host updates what its rank has the sum of. Stages of a pipeline sum
//! gradients of their micro-batches on the GPU, which leave once a step, as with ZeRO-1.

use crate::limits::Invalid;
use crate::model::hosted::{HostedStates, ParametersAt};
use crate::model::transformer::{DataParallel, Sharding, Step};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "zero_offload";

/// How hosts update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroOffload {
    /// Parameters that are updated, and go back, together.
    pub group: u64,
    /// The host updates beside the passes of the next step (delayed parameter update).
    pub delayed: bool,
}

impl ZeroOffload {
    /// Where the states of a model of so many stages are.
    pub(crate) const fn hosted(self, stages: u32) -> HostedStates {
        HostedStates {
            group: self.group,
            buffers: 1,
            delayed: self.delayed,
            beside: stages == 1,
            parameters: ParametersAt::Gpu,
            states_on_drives: false,
        }
    }

    /// Reports what keeps hosts from updating a model of so many stages, of which `data` are copies.
    pub fn check(self, stages: u32, data: &DataParallel, step: Step, wrong: &mut impl FnMut(Invalid)) {
        let mut refuse = |problem: &str| wrong(Invalid { field: NAME, problem: problem.to_owned() });
        if step != Step::Whole {
            refuse("a step without an update has no use for states: let it be `full`, or remove it");
        }
        if data.ranks > 1 && data.sharding == Sharding::None {
            refuse(
                "copies that share nothing would each update all: let them share gradients (ZeRO-2), \
                 in a pipeline states of the optimizer (ZeRO-1)",
            );
        }
        if stages > 1 && data.sharding >= Sharding::Gradients {
            refuse(
                "stages of a pipeline sum gradients on the GPU until the end of the step: let copies share \
                 states of the optimizer (ZeRO-1)",
            );
        }
        if data.sharding == Sharding::Parameters {
            refuse("parameters stay whole on every GPU: let copies share gradients (ZeRO-2)");
        }
        if data.sharing < data.ranks {
            refuse("groups of copies that share would each update all: let all copies share");
        }
        if self.group == 0 {
            refuse("a group of no parameters is never updated: give it some, such as 128 Mi");
        }
    }
}
