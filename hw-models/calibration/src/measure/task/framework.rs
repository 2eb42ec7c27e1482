//! What is timed of a framework, PyTorch: what its operators cost the host, its allocator, and the kernels that workloads run
//! through it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{in_words, worded};
use hw_models::host::OpClass;
use hw_models::kernels::{Dtype, Stream, StreamClass};

/// An operator on tensors so small that the GPU is never late; timed on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Which stands for its class: a transposed view, a sum, a linear layer, attention, a copy from pinned memory, an all-reduce
    /// among one.
    pub class: OpClass,
    /// Autograd records it.
    pub recorded: bool,
    /// Elements along a side of its tensors.
    pub side: u32,
}

/// The gradient of a chain of operators on small tensors, of a class each; timed on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backward {
    /// Products, linear layers with weights, or attention.
    pub class: OpClass,
    /// How many.
    pub operators: u32,
}

/// A fused step of Adam over small tensors, with all that the optimizer does for it; timed on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// How many.
    pub tensors: u32,
}

/// A tensor that the framework's allocator is asked for; timed on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// The allocator has the memory, rather than taking it from the driver.
    pub kept: bool,
    /// Its size (bytes).
    pub bytes: u64,
}

/// A pass over memory by a kernel of the framework, whose tensors the cache does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// What it computes.
    pub operation: Operation,
    /// Rows; of [Adam](Operation::Adam) tensors, of which each has a state of its own.
    pub rows: u64,
    /// Elements of a row.
    pub width: u64,
    /// Type of the elements.
    pub dtype: Dtype,
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A sum of two tensors.
    Add,
    /// GeLU in its tanh form.
    Gelu,
    /// Its gradient.
    GeluGradient,
    /// Dropout, with a mask of a byte an element.
    Dropout,
    /// Softmax over rows.
    Softmax,
    /// Its logarithm, the loss of logits without what picks the targets.
    LogSoftmax,
    /// The gradient of that.
    LogSoftmaxGradient,
    /// Layer normalisation.
    LayerNorm,
    /// The gradient of its input.
    LayerNormGradient,
    /// The gradients of its weights.
    LayerNormWeightGradient,
    /// Root-mean-square normalisation in one kernel, which PyTorch has from 2.9 on.
    RmsNorm,
    /// The gradient of its input.
    RmsNormGradient,
    /// The gradient of a bias.
    BiasGradient,
    /// A row each of a table for distinct indices.
    Embedding,
    /// A fused step of Adam on single-precision parameters.
    Adam,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Add,
        Self::Gelu,
        Self::GeluGradient,
        Self::Dropout,
        Self::Softmax,
        Self::LogSoftmax,
        Self::LogSoftmaxGradient,
        Self::LayerNorm,
        Self::LayerNormGradient,
        Self::LayerNormWeightGradient,
        Self::RmsNorm,
        Self::RmsNormGradient,
        Self::BiasGradient,
        Self::Embedding,
        Self::Adam,
    ];
}

impl Kernel {
    /// The pass that it is, of the tensors that operators of training steps have: fp32 moments of rows (a mean and a deviation,
    /// of RMSNorm the latter) are written forward and read backward; an index is 8 bytes; Adam reads parameter, gradient and two
    /// moments and writes all but the gradient.
    pub fn stream(&self) -> Stream {
        let Self { operation, rows, width, dtype } = *self;
        let elements = rows.saturating_mul(width);
        let tensor = elements.saturating_mul(dtype.bytes());
        let twice = tensor.saturating_mul(2);
        let (moments, deviations, indices) =
            (rows.saturating_mul(8), rows.saturating_mul(4), rows.saturating_mul(8));
        let (class, by_rows, bytes_read, bytes_written) = match operation {
            Operation::Add | Operation::GeluGradient => (StreamClass::Elementwise, false, twice, tensor),
            Operation::Gelu => (StreamClass::Elementwise, false, tensor, tensor),
            Operation::Dropout => (StreamClass::Elementwise, false, tensor, tensor.saturating_add(elements)),
            Operation::Softmax | Operation::LogSoftmax => (StreamClass::Softmax, true, tensor, tensor),
            Operation::LogSoftmaxGradient => (StreamClass::Softmax, true, twice, tensor),
            Operation::LayerNorm => (StreamClass::LayerNorm, true, tensor, tensor.saturating_add(moments)),
            Operation::LayerNormGradient => {
                (StreamClass::LayerNorm, true, twice.saturating_add(moments), tensor)
            }
            Operation::LayerNormWeightGradient => {
                (StreamClass::Reduction, false, twice.saturating_add(moments), 0)
            }
            Operation::RmsNorm => (StreamClass::RmsNorm, true, tensor, tensor.saturating_add(deviations)),
            Operation::RmsNormGradient => {
                (StreamClass::RmsNorm, true, twice.saturating_add(deviations), tensor)
            }
            Operation::BiasGradient => (StreamClass::Reduction, false, tensor, 0),
            Operation::Embedding => (StreamClass::Embedding, false, tensor.saturating_add(indices), tensor),
            Operation::Adam => {
                (StreamClass::Optimizer, false, tensor.saturating_mul(4), tensor.saturating_mul(3))
            }
        };
        let looked_up = if operation == Operation::Embedding { elements } else { 0 };
        let rows = by_rows.then_some(rows);
        Stream { class, bytes_read, bytes_written, bytes_cached: 0, rows, looked_up }
    }
}

in_words! {
    Operator as task => {
        let recorded = if task.recorded { ", recorded" } else { "" };
        format!("{} operator on {} x {}{recorded}", task.class, task.side, task.side)
    };
    Backward as task => format!("gradient of {} {} operators", task.operators, task.class);
    Update as task => format!("update of {} small tensors", task.tensors);
    Tensor as task => {
        let from = if task.kept { "the allocator" } else { "the driver" };
        format!("tensor of {} B from {from}", task.bytes)
    };
    Kernel as task => {
        let Kernel { operation, rows, width, dtype } = task;
        format!("{operation} of {rows} x {width} {dtype}")
    };
}

worded! {
    Operation {
        Add = "sum",
        Gelu = "gelu",
        GeluGradient = "gelu gradient",
        Dropout = "dropout",
        Softmax = "softmax",
        LogSoftmax = "log-softmax",
        LogSoftmaxGradient = "log-softmax gradient",
        LayerNorm = "layer norm",
        LayerNormGradient = "layer norm gradient",
        LayerNormWeightGradient = "layer norm weight gradient",
        RmsNorm = "rms norm",
        RmsNormGradient = "rms norm gradient",
        BiasGradient = "bias gradient",
        Embedding = "embedding",
        Adam = "adam",
    }
}
