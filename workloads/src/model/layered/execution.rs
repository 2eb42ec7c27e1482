//! How a list of layers is executed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::operator::Dtype;
use crate::model::transformer::{AttentionKernel, Sharding, StateBytes, States, Step};

use super::shape::Shape;

/// How a list of layers is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayeredExecution {
    /// Samples of a micro-batch.
    pub micro_batch: u32,
    /// Type of activations and of the parameters that operators read.
    pub dtype: Dtype,
    /// How attention is computed where distances do not enter it; with them scores are in memory.
    pub attention: AttentionKernel,
    /// Types of gradients and optimizer states.
    pub states: States,
    /// What updates the parameters.
    pub optimizer: Optimizer,
    /// What a step does; forward alone nothing is dropped.
    pub step: Step,
    /// RMSNorm, and what finds biases for distances, are operators, as Hugging Face Transformers
    /// write T5; else a kernel each.
    pub in_operators: bool,
    /// GeLU is one kernel; else the tanh form in eight operators (`NewGELUActivation`).
    pub gelu: bool,
    /// Largest values are found again by comparison, and gradients of ReLU overwrite what they are
    /// made of, as in frameworks on cuDNN; else PyTorch's operators.
    pub cudnn: bool,
}

/// Rule that updates parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "UpdateRule")]
pub enum Optimizer {
    /// Adam: two moments of each parameter.
    #[default]
    Adam,
    /// Stochastic gradient descent with momentum: one moment, 4 bytes a parameter less.
    #[serde(rename = "sgd-momentum")]
    Momentum,
}

impl Optimizer {
    /// Moments of a parameter, of 4 bytes each.
    pub const fn moments(self) -> u64 {
        match self {
            Self::Adam => 2,
            Self::Momentum => 1,
        }
    }
}

impl LayeredExecution {
    /// Bytes of `parameters` parameters on each of `data` ranks that hold the same ones.
    pub fn state_bytes(&self, parameters: u64, sharding: Sharding, data: u32) -> StateBytes {
        let bytes = self.states.bytes(parameters, sharding, data);
        let held = bytes.optimizer / self.states.optimizer_bytes();
        StateBytes { optimizer: held * self.optimizer_bytes(), ..bytes }.of_step(self.step)
    }

    /// Whether the model is in training, not in evaluation.
    pub(super) fn trains(&self) -> bool {
        self.step != Step::Forward
    }

    /// Bytes of optimizer state of a parameter.
    pub const fn optimizer_bytes(&self) -> u64 {
        self.states.optimizer_bytes() - 4 * (Optimizer::Adam.moments() - self.optimizer.moments())
    }

    /// Elements of a value of `shape`, of all samples.
    pub(super) fn elements(&self, shape: Shape) -> u64 {
        u64::from(self.micro_batch).saturating_mul(shape.elements())
    }

    /// Bytes of a value of `shape`, of all samples.
    pub(super) fn bytes(&self, shape: Shape) -> u64 {
        self.elements(shape).saturating_mul(self.dtype.bytes())
    }

    /// Places of all samples.
    pub(super) fn rows(&self, shape: Shape) -> u64 {
        u64::from(self.micro_batch).saturating_mul(shape.places())
    }
}
