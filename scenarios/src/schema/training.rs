//! How much work one training step is.

use hw_models::kernels::Dtype;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Adapters, Count, Fp8, MicroBatches, Sequence, Step, UpdateRule};

/// How much work one training step is. Two of the batch sizes give the third: `global_batch = micro_batch x accumulate x
/// data`, or `micro_batch x micro_batches` for a profiled pipeline, where `micro_batches` alone is enough when samples do
/// not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "micro_batches": 8 }]))]
pub struct Training {
    /// Samples of one step.
    pub global_batch: Option<Count<1, 1_000_000_000>>,
    /// Samples of one micro-batch; of a profiled pipeline needed for samples per second only.
    pub micro_batch: Option<Count<1, 1_000_000>>,
    /// Micro-batches of one step of a profiled pipeline.
    pub micro_batches: Option<MicroBatches>,
    /// Micro-batches that each copy of a transformer accumulates in one step.
    pub accumulate: Option<MicroBatches>,
    /// Tokens of a sample; transformers need it.
    #[schemars(extend("examples" = [2048]))]
    pub sequence: Option<Sequence>,
    /// Number formats of a transformer; `bf16-mixed` when absent.
    pub precision: Option<Precision>,
    /// Linear layers of a transformer multiply in 8 bits; the head, attention and everything between stay in 16.
    pub fp8: Option<Fp8>,
    /// Low-rank adapters of a transformer (LoRA), which are trained while the model is frozen.
    pub adapters: Option<Adapters>,
    /// Optimizer of a list of layers; `adam` when absent.
    pub optimizer: Option<UpdateRule>,
    /// Extent of a step of a transformer or a list of layers; `full` when absent.
    pub step: Option<Step>,
    /// True: simulate the mini-batches of a graph network's epoch from the first one on, at most
    /// 1,000. False: a few after the first ones.
    pub epoch: Option<bool>,
    /// Pipeline flush: a step ends before the next one begins on the same stage.
    #[serde(default = "yes")]
    pub flush: bool,
}

/// Number formats of activations and of the parameters that kernels read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// fp16, with optimizer states in fp32.
    Fp16Mixed,
    /// bf16, with optimizer states in fp32.
    Bf16Mixed,
    /// Everything in fp32.
    Fp32,
    /// fp16 without a copy in fp32: weights and activations of inference (`step: forward`).
    Fp16,
    /// bf16, likewise.
    Bf16,
}

impl Precision {
    /// Type of activations and of the parameters that kernels read.
    pub(crate) const fn dtype(self) -> Dtype {
        match self {
            Self::Fp16Mixed | Self::Fp16 => Dtype::Fp16,
            Self::Bf16Mixed | Self::Bf16 => Dtype::Bf16,
            Self::Fp32 => Dtype::Fp32,
        }
    }

    /// True if it keeps nothing to update parameters with.
    pub(crate) const fn is_of_inference(self) -> bool {
        matches!(self, Self::Fp16 | Self::Bf16)
    }
}

fn yes() -> bool {
    true
}

impl Training {
    /// True if nothing is said, as of a trace.
    pub(crate) fn is_empty(&self) -> bool {
        let sizes = [self.global_batch.is_none(), self.micro_batch.is_none(), self.accumulate.is_none()];
        let numbers = [self.precision.is_none(), self.fp8.is_none(), self.optimizer.is_none()];
        let others = [
            self.adapters.is_none(),
            self.micro_batches.is_none(),
            self.sequence.is_none(),
            self.step.is_none(),
            self.epoch.is_none(),
            self.flush,
        ];
        [&sizes[..], &numbers, &others].concat().into_iter().all(|absent| absent)
    }

    /// Micro-batches that a stage works through in one step; always there once the scenario has been checked.
    pub fn micro_batches(&self) -> u64 {
        self.micro_batches.or(self.accumulate).map_or(0, Count::get)
    }
}
