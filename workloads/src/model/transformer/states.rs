//! Bytes of parameters, gradients and optimizer states, and how data-parallel ranks share them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Step;

/// Types in which parameters, gradients and states of Adam are held; bytes per parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum States {
    /// All in fp32: 4 + 4 + 8 = 16.
    Full,
    /// Half precision with half-precision gradients; fp32 copy and moments: 2 + 2 + 12 = 16.
    HalfGradients,
    /// Half precision with gradients summed in fp32 (Megatron-LM with bf16): 2 + 4 + 12 = 18.
    FullGradients,
    /// Half precision with half-precision gradients and an fp32 copy of them (Megatron-LM with fp16): 2 + 2 + 16 = 20.
    CopiedGradients,
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// States that the copies of a model shard, each level those of the one before and more
/// (Rajbhandari et al., SC 2020).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharding {
    /// Nothing.
    #[default]
    None,
    /// Optimizer states: ZeRO-1, Megatron-LM's distributed optimizer.
    Optimizer,
    /// Gradients, too, which are summed for every micro-batch: ZeRO-2.
    Gradients,
    /// Parameters, too, which are gathered for every pass: ZeRO-3, PyTorch's FSDP.
    Parameters,
}

/// Bytes that a rank holds throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBytes {
    /// Parameters as operators read them.
    pub parameters: u64,
    /// Gradients as the backward pass leaves them.
    pub gradients: u64,
    /// Moments, fp32 copies of parameters and gradients.
    pub optimizer: u64,
}

impl StateBytes {
    /// All of it.
    pub(crate) const fn all(self) -> u64 {
        self.parameters + self.gradients + self.optimizer
    }
}

impl States {
    /// Bytes of `parameters` parameters on each of `data` ranks that hold the same ones.
    pub fn bytes(self, parameters: u64, sharding: Sharding, data: u32) -> StateBytes {
        let share = parameters.div_ceil(u64::from(data.max(1)));
        let from = |stage| if sharding >= stage { share } else { parameters };
        StateBytes {
            parameters: from(Sharding::Parameters) * self.parameter_bytes(),
            gradients: from(Sharding::Gradients) * self.gradient_bytes(),
            optimizer: from(Sharding::Optimizer) * self.optimizer_bytes(),
        }
    }

    /// Bytes of a parameter.
    pub const fn parameter_bytes(self) -> u64 {
        match self {
            Self::Full => 4,
            Self::HalfGradients | Self::FullGradients | Self::CopiedGradients => 2,
        }
    }

    /// Bytes of a gradient summed over micro-batches.
    pub const fn gradient_bytes(self) -> u64 {
        match self {
            Self::Full | Self::FullGradients => 4,
            Self::HalfGradients | Self::CopiedGradients => 2,
        }
    }

    /// Bytes of the copy of a parameter that the optimizer updates, where it is not the parameter itself.
    pub const fn copy_bytes(self) -> u64 {
        match self {
            Self::Full => 0,
            Self::HalfGradients | Self::FullGradients | Self::CopiedGradients => 4,
        }
    }

    /// Bytes of optimizer state of a parameter.
    pub const fn optimizer_bytes(self) -> u64 {
        match self {
            Self::Full => 8,
            Self::HalfGradients | Self::FullGradients => 12,
            Self::CopiedGradients => 16,
        }
    }
}

impl StateBytes {
    /// Those of a step: what it has no use for is not there.
    pub(crate) const fn of_step(mut self, step: Step) -> Self {
        if !matches!(step, Step::Whole) {
            self.optimizer = 0;
        }
        if matches!(step, Step::Forward) {
            self.gradients = 0;
        }
        self
    }

    /// All together.
    pub const fn total(&self) -> u64 {
        self.parameters + self.gradients + self.optimizer
    }
}
