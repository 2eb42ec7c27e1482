//! Operators of a model with their shapes: what a kernel or a collective works on, which tensors it reads and leaves.
//! Nothing here says how long anything takes.

use crate::graph::Phase;

/// A kernel or a collective of one rank.
///
/// Which tensors live from the forward to the backward pass is nobody's to declare: a tensor lives from the operator
/// that writes it to the last one that reads it ([`Block`](super::Block)).
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// What it does, unique within its list but for what is recomputed: `qkv weight gradient`.
    pub name: &'static str,
    /// Part of the step it belongs to; in a backward pass those on the way to the gradient of the input and those only
    /// for gradients of weights are told apart.
    pub phase: Phase,
    /// Its shape.
    pub work: Work,
    /// Tensors it reads. What it changes in place is read, not written; a collective that writes nothing works in place.
    pub reads: Vec<&'static str>,
    /// Tensors it allocates and fills.
    pub writes: Vec<Tensor>,
    /// Bytes it needs only while it runs.
    pub workspace: u64,
    /// Why this kernel, where a predicate chose it.
    pub choice: Option<String>,
}

/// A tensor of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, unique within a [`Block`](super::Block).
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
}

/// The shape of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// A matrix product.
    Gemm(Gemm),
    /// Flash attention.
    Attention(Attention),
    /// A pass over memory.
    Stream(Stream),
    /// Communication within a group.
    Collective(Collective),
}

/// `batch` products of `m x k` with `k x n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Independent products of the same shape.
    pub batch: u64,
    /// Rows of the output.
    pub m: u64,
    /// Columns of the output.
    pub n: u64,
    /// Contraction.
    pub k: u64,
    /// Type of both operands.
    pub dtype: Dtype,
    /// Which operand is transposed.
    pub layout: Layout,
    /// The product is added to an fp32 output rather than stored.
    pub accumulate: bool,
}

/// Which operand of `A B` is transposed in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// `A B^T`: activations times a weight stored (out, in); queries times keys.
    Forward,
    /// `A B`: output gradients times the weight; probabilities times values.
    InputGradient,
    /// `A^T B`: output gradients, transposed, times activations.
    WeightGradient,
}

/// Flash attention over `batch` sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Forward or backward.
    pub pass: Pass,
    /// Sequences.
    pub batch: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Queries of a sequence.
    pub queries: u64,
    /// Keys of a sequence; the last query sees the last key.
    pub keys: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Queries see no later keys.
    pub causal: bool,
    /// Type of the operands.
    pub dtype: Dtype,
}

/// Direction of flash attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Outputs from inputs.
    Forward,
    /// Gradients of the inputs from gradients of the outputs.
    Backward,
}

/// A pass over memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What kind of kernel.
    pub class: StreamClass,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// Kinds of streaming kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamClass {
    /// Element by element: activations, residuals, dropout, casts, copies.
    Elementwise,
    /// Softmax over rows.
    Softmax,
    /// LayerNorm.
    LayerNorm,
    /// RMSNorm.
    RmsNorm,
    /// Sums over rows or columns: gradients of biases and of norm weights, norms of gradients.
    Reduction,
    /// Softmax and loss over a vocabulary.
    CrossEntropy,
    /// Gather and scatter of rows of an embedding.
    Embedding,
    /// Optimizer update.
    Optimizer,
}

/// Communication among the ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// What is exchanged.
    pub kind: CollectiveKind,
    /// Among whom.
    pub group: Group,
    /// Bytes of the whole tensor: what every rank holds after an all-gather, before a reduce-scatter.
    pub bytes: u64,
    /// It runs beside the operators that follow, until one of them reads what it fills.
    pub overlaps_next: bool,
}

/// Kinds of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CollectiveKind {
    /// Every rank ends with the sum.
    AllReduce,
    /// Every rank ends with all parts.
    AllGather,
    /// Every rank ends with a part of the sum.
    ReduceScatter,
}

/// Groups of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Ranks that share each layer.
    Tensor,
    /// Ranks that hold the same parameters.
    Data,
    /// The first and the last stage, which hold the same word embedding.
    Embedding,
    /// All ranks of one copy of the model: tensor ranks of all stages.
    Model,
}

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dtype {
    /// IEEE single precision.
    Fp32,
    /// IEEE half precision.
    Fp16,
    /// bfloat16.
    Bf16,
}

impl Work {
    /// Multiplications and additions of matrix products and attention; the rest is bound by bytes and counts none.
    pub fn flops(&self) -> f64 {
        match self {
            Self::Gemm(gemm) => gemm.flops(),
            Self::Attention(attention) => attention.flops(),
            Self::Stream(_) | Self::Collective(_) => 0.0,
        }
    }
}

impl Gemm {
    /// `2 batch m n k`.
    pub fn flops(&self) -> f64 {
        2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

impl Attention {
    /// Two products forward, five backward (the scores are recomputed), over the pairs a causal mask leaves.
    pub fn flops(&self) -> f64 {
        let products = match self.pass {
            Pass::Forward => 2.0,
            Pass::Backward => 5.0,
        };
        let (queries, keys) = (self.queries as f64, self.keys as f64);
        let hidden = if self.causal { queries * (queries - 1.0) / 2.0 } else { 0.0 };
        2.0 * products
            * self.batch as f64
            * self.heads as f64
            * (queries * keys - hidden)
            * self.head_dim as f64
    }
}

impl Dtype {
    /// Bytes of an element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
        }
    }

    /// Its name, `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
        }
    }
}
