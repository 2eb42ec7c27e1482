//! ZeRO-Infinity (Rajbhandari et al., SC 2021): states of the optimizer are on the drives of a node, or in its memory, and so are
//! parameters, of which every rank has its share.
//!
//! A block's parameters come from the drives to buffers of the host, some blocks ahead in the static order of passes, and over the links of all ranks, to each its share, and are gathered between them (bandwidth-centric
//! partitioning). Gradients leave as their sums are scattered, and go on to the drives. The host reads the states of a group,
//! updates and writes them.

use hw_models::settings::{Count, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::model::hosted::{HostedStates, INVOLVED, KeptParameters};
use crate::model::transformer::{DataParallel, Sharding, Step};
use crate::transfer::Outside;

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "zero_infinity";

/// Keep states of the optimizer on drives or in host memory, and parameters in host memory or on drives,
/// from where a block's come for every pass: to each rank its share, which ranks then gather. Gradients
/// go on to the drives; the host reads a group's states, updates and writes them. Copies of the model
/// share everything (`sharding: parameters`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroInfinity {
    /// Where parameters are between passes.
    pub parameters: KeptParameters,
    /// Blocks whose parameters are in host memory at a time where they are on drives, on their way to the
    /// GPU or read ahead for it; 2 when absent.
    pub parameter_buffers: Count<1, 1_024>,
    /// Where states of the optimizer are.
    pub states: Outside,
    /// Arrays of `storage` that states, or parameters, are on, of the GPUs of a node in turn; the only one
    /// when absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<String>,
    /// Parameters that are updated together; 10^9 when absent, as in DeepSpeed (`sub_group_size`).
    pub group: Count<1, 1_000_000_000_000>,
    /// Groups in host memory at a time: with one reading, updating and writing take turns, as in
    /// DeepSpeed without `pipeline_read` and `pipeline_write`.
    pub buffers: Count<1, 1_024>,
    /// Most that the threads of one rank's update get of the host's memory, reads and writes together;
    /// all of it when absent.
    pub rate: Option<Rate>,
    /// Most gradients that its threads copy to buffers of the drives in a second, in fp32; as much as
    /// memory allows when absent.
    pub gradient_rate: Option<Rate>,
}

impl Default for ZeroInfinity {
    fn default() -> Self {
        Self {
            parameters: KeptParameters::Host,
            parameter_buffers: Count::literal(2),
            states: Outside::Drives,
            arrays: Vec::new(),
            group: Count::literal(1_000_000_000),
            buffers: Count::literal(1),
            rate: None,
            gradient_rate: None,
        }
    }
}

impl ZeroInfinity {
    /// Tells that states or parameters are on drives.
    pub fn uses_drives(&self) -> bool {
        self.states == Outside::Drives || self.parameters == KeptParameters::Drives
    }

    pub(crate) fn hosted(&self) -> HostedStates {
        HostedStates {
            group: self.group.get(),
            buffers: self.buffers.get() as u32,
            delayed: false,
            beside: true,
            parameters: self.parameters,
            parameter_buffers: self.parameter_buffers.get() as u32,
            states_on_drives: self.states == Outside::Drives,
        }
    }

    /// Reports what keeps hosts from updating a model of so many stages, of which `data` are copies.
    pub fn check(&self, stages: u32, data: &DataParallel, step: Step, wrong: &mut impl FnMut(Diagnostic)) {
        let mut refuse = |problem: &str| wrong(refusal(problem));
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
    }
}

pub(crate) fn refusal(problem: &str) -> Diagnostic {
    Diagnostic::sentence("techniques.zero_infinity", problem).with_all(&INVOLVED)
}
