//! ZeRO-Infinity (Rajbhandari et al., SC 2021): states of the optimizer are on the drives of a
//! node, or in its memory, and so are parameters, of which every rank has its share.
//!
//! A block's parameters come from the drives to buffers of the host, some blocks ahead in the
//! static order of passes, and over the links of all ranks, to each its share, and are gathered
//! between them (bandwidth-centric partitioning). Gradients leave as their sums are scattered, and
//! go on to the drives. The host reads the states of a group, updates and writes them.
//!
//! Where parameters stay on GPUs a model may have tensor ranks and stages as well: what is too large
//! for all memories together trains with its states on drives alone, which is what BigCuts searched.
//!
//! The buffers of that update are empty during passes. DeepSpeed's `AsyncTensorSwapper` takes all
//! of them for gradients, and waits for their writes where none is free.

use hw_models::settings::{Count, Rate, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::host_update::{HostGradients, HostRates, HostedStates, KeptParameters};
use crate::model::transformer::Sharding;
use crate::transfer::Outside;

use super::technique::{billionths, check_ratio};
use super::{Around, Facts, OnDrives, Saving, Technique};

/// The name of this technique in scenarios and errors.
const NAME: &str = "zero_infinity";

const PATH: &str = "techniques.zero_infinity";
const RATIO: &str = "techniques.zero_infinity.ratio";
const GRADIENT_RATE: &str = "techniques.zero_infinity.gradient_rate";

/// Keep states of the optimizer on drives or in host memory, and parameters in host memory or on
/// drives. For every pass each rank loads its share of a block's parameters, and ranks gather them.
/// Gradients go on to the drives; the host reads the states of a group, updates and writes them.
/// Copies of the model shard everything (`sharding: parameters`). With `parameters: gpu` parameters
/// stay whole on GPUs, as tensor ranks and pipeline stages have them; copies shard the states,
/// which are on drives (after BigCuts, Seoul National University 2021).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroInfinity {
    /// Where parameters are between passes.
    pub parameters: KeptParameters,
    /// Blocks of parameters buffered in host memory between drives and GPU, prefetched ones
    /// included; 2 when absent.
    pub parameter_buffers: Count<1, 1_024>,
    /// Where states of the optimizer are.
    pub states: Outside,
    /// Gradients in host memory where states are on drives.
    pub gradients: HostGradients,
    /// Arrays of `storage` that states, or parameters, are on, of the GPUs of a node in turn; the
    /// only one when absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<String>,
    /// Parameters that are updated together; 10^9 when absent, as in DeepSpeed (`sub_group_size`).
    pub group: Count<1, 1_000_000_000_000>,
    /// Groups in host memory at a time: with one reading, updating and writing take turns, as in
    /// DeepSpeed without `pipeline_read` and `pipeline_write`.
    pub buffers: Count<1, 1_024>,
    /// Twin-Flow: part of the parameters that the host updates, where it has their states; the GPU
    /// keeps those of the others, and updates them meanwhile (DeepSpeed's `ratio`, which counts in
    /// whole groups). All when absent.
    pub ratio: Option<Share>,
    /// Limit on the host-memory rate of one rank's update, reads and writes together; none when
    /// absent.
    pub rate: Option<Rate>,
    /// Limit on the rate at which host threads copy fp32 gradients to buffers of the drives, where
    /// `gradients` are whole; that of the memory when absent.
    pub gradient_rate: Option<Rate>,
}

impl Default for ZeroInfinity {
    fn default() -> Self {
        Self {
            parameters: KeptParameters::Host,
            parameter_buffers: Count::literal(2),
            states: Outside::Drives,
            gradients: HostGradients::default(),
            arrays: Vec::new(),
            group: Count::literal(1_000_000_000),
            buffers: Count::literal(1),
            ratio: None,
            rate: None,
            gradient_rate: None,
        }
    }
}

impl Technique for ZeroInfinity {
    fn savings(_layers: u32) -> Vec<Saving> {
        const HOST: &str = "hosts hold parameters and the states of the optimizer, and update";
        const DRIVES: &str = "hosts hold parameters, drives the states of the optimizer";
        const STATES: &str = "drives hold the states of the optimizer";
        vec![
            Saving::new(NAME, "{ states: host }", HOST),
            Saving::new(NAME, "{ states: drives }", DRIVES),
            Saving::new(NAME, "{ states: drives, parameters: gpu }", STATES),
        ]
    }

    fn facts(&self, stages: u32) -> Facts<'_> {
        let states = self.states == Outside::Drives;
        // Stages of a pipeline sum gradients on the GPU, which leave once a step.
        let beside = stages == 1;
        let parameters = self.parameters == KeptParameters::Drives;
        let rate = |rate: Option<Rate>| rate.map(|rate| rate.bytes_per_second() as f64);
        Facts {
            path: PATH,
            hosted: Some((
                HostedStates {
                    waits: false,
                    group: self.group.get(),
                    buffers: self.buffers.get() as u32,
                    delayed: false,
                    beside,
                    parameters: self.parameters,
                    parameter_buffers: self.parameter_buffers.get() as u32,
                    states_on_drives: states,
                    all_gradients: !states || !beside || self.gradients == HostGradients::Whole,
                    billionths: billionths(self.ratio),
                    pages: false,
                },
                "techniques.zero_infinity.group",
            )),
            exchanged_pinned: Some(true),
            rates: HostRates { update: rate(self.rate), gradients: rate(self.gradient_rate) },
            drives: Some(OnDrives {
                what: if states { "states" } else { "parameters" },
                from_gpus: false,
                kept: if parameters && !states {
                    "techniques.zero_infinity.parameters"
                } else {
                    "techniques.zero_infinity.states"
                },
                there: states || parameters,
                names: &self.arrays,
                arrays: "techniques.zero_infinity.arrays",
            }),
            ..Facts::default()
        }
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        let &Around { stages, data, .. } = around;
        check_ratio(RATIO, self.ratio, wrong);
        if self.ratio.is_some() && self.states == Outside::Drives {
            let message = "a GPU keeps a part of the states only beside those in host memory";
            let refused =
                Diagnostic::new(RATIO, message, "remove it, or keep states with the hosts: `states: host`");
            wrong(refused.with("techniques.zero_infinity.states", "keeps them on drives"));
        }
        let pass = self.states == Outside::Drives && self.gradients == HostGradients::Buffered;
        if self.gradient_rate.is_some() && pass {
            let message = "threads copy gradients only where host memory has those of all parameters";
            let refused = Diagnostic::new(GRADIENT_RATE, message, "remove it, or add `gradients: whole`");
            wrong(refused.with("techniques.zero_infinity.gradients", ""));
        }
        around.check_hosted(PATH, wrong, |refuse| {
            let is_away = self.parameters.are_away();
            let shares_parameters = data.sharding == Sharding::Parameters;
            if stages > 1 && (is_away || shares_parameters) {
                refuse(
                    "what is shared is gathered for every micro-batch of a pipeline anew, which no framework does: \
                     use 1 stage, or keep parameters whole: `parameters: gpu` with `sharding: optimizer`",
                );
            } else if is_away && data.ranks > 1 && !shares_parameters {
                refuse(
                    "every rank has its share of all: let copies share parameters (ZeRO-3), or keep them whole: \
                     `parameters: gpu`",
                );
            } else if !is_away {
                around.check_shared_states(refuse);
            }
        });
    }
}
