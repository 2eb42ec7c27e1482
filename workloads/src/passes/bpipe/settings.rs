//! Settings of BPipe, and what it refuses. The rate of a profiled pipeline's transfers is a fact of its devices, which the
//! decision does not see.

use hw_models::settings::{Count, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::order::PipelineSchedule;
use crate::passes::{Around, Facts, ModelKind, Saving, Technique};

use super::NAME;

const PATH: &str = "techniques.bpipe";
/// Setting of a fact of the devices of a profiled pipeline.
pub const TRANSFER: &str = "techniques.bpipe.transfer";

/// Balance activation memory between the stages `x` and `p - 1 - x`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "BPipe")]
pub struct Bpipe {
    /// Choice of the micro-batches that leave a stage over its bound.
    pub policy: EvictionPolicy,
    /// Rate of transfers within a pair of stages of a profiled pipeline; `hidden` when absent. Those of
    /// a transformer go over the links of the machine.
    pub transfer: Option<PairTransfer>,
    /// Micro-batches that a stage may hold, one of which is computed and one fetched;
    /// `ceil((p + 2) / 2)` when absent.
    pub bound: Option<Count<2, 65_536>>,
}

/// Rate of transfers within a pair of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairTransfer {
    /// At once: the gain of the technique if transfers cost nothing.
    #[default]
    Hidden,
    /// At this rate in each direction.
    Rate(Rate),
}

/// Choice of the micro-batches that leave a stage over its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvictionPolicy {
    /// The newest, and only as many as the bound demands.
    #[default]
    // Needed last: of `N = p - s` micro-batches in flight `N - bound` are away at any time. One is being
    // computed and one fetched, so those are always among the other `N - 2`, and no policy gets by with
    // fewer evictions than `N - bound` for every `N - 2` micro-batches.
    EvictNewest,
    /// Every micro-batch leaves after its forward pass and returns before its backward pass.
    EveryMicroBatch,
}

impl Bpipe {
    /// Fills in settings that hold for a kind of model where nothing is written.
    pub(crate) fn fill(&mut self, model: ModelKind) {
        if model == ModelKind::Profile {
            self.transfer.get_or_insert_default();
        }
    }

    /// Most micro-batches resident on an evictor of a pipeline of `stages` stages.
    pub fn bound(&self, stages: u32) -> u32 {
        self.bound.map_or((stages + 2).div_ceil(2), |bound| bound.get() as u32)
    }
}

impl Technique for Bpipe {
    fn savings(_layers: u32) -> Vec<Saving> {
        const EFFECT: &str = "stages that hold many micro-batches lend some to those that hold few";
        vec![Saving::new(NAME, "{}", EFFECT)]
    }

    fn facts(&self, _stages: u32) -> Facts<'_> {
        Facts {
            path: PATH,
            activations: Some("lends them to another stage"),
            partner_rate: match self.transfer {
                None | Some(PairTransfer::Hidden) => None,
                Some(PairTransfer::Rate(rate)) => Some(rate.bytes_per_second() as f64),
            },
            ..Facts::default()
        }
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        if around.model == ModelKind::Layers {
            wrong(around.foreign(PATH, "it lends activations of stages that are alike; remove it"));
        } else if around.model == ModelKind::Transformer && self.transfer.is_some() {
            wrong(around.foreign(TRANSFER, "activations move over the links of the machine; remove it"));
        }
        if around.schedule != PipelineSchedule::OneFOneB {
            let message = "BPipe balances the 1F1B schedule and no other";
            let refused = Diagnostic::new(PATH, message, "use `schedule: 1f1b`, or remove `bpipe`");
            wrong(
                refused.with("parallelism.schedule", "holds equally much on all stages, or moves its peaks"),
            );
        }
        if let Some(rate) = self.facts(around.stages).partner_rate.filter(|rate| !(1e5..=1e15).contains(rate))
        {
            let message = format!("`{TRANSFER}`: {rate} B/s is not between 100 KB/s and 1 PB/s");
            wrong(Diagnostic::new(TRANSFER, message, "write another value"));
        }
    }

    /// Those with more in flight than the bound.
    fn lenders(&self, stages: u32, micro_batches: u32) -> Vec<u32> {
        let bound = self.bound(stages);
        (0..stages / 2).filter(|stage| micro_batches.min(stages - stage) > bound).collect()
    }
}
