//! How the work is spread over devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bytes, ContextExchange, Count, Gather, Placement, Schedule, SendMode, SequenceParallel, Sharding,
    StageLayers, Stages,
};

/// How the work is spread over devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parallelism {
    /// Ranks that share each layer of a transformer.
    pub tensor: Option<Count<1, 131_072>>,
    /// Splits norms and residuals over the tensor ranks along the sequence; `auto`: where there are
    /// several.
    pub sequence_parallel: Option<SequenceParallel>,
    /// Pipeline stages; of a profiled pipeline its number of stages when absent.
    pub pipeline: Option<Stages>,
    /// Layers of each stage of a transformer: `even`, which is so when absent, `balanced`, or a list, the first stage first.
    /// `balanced` makes the slowest stage as fast as it can be, where stages have slower GPUs, less memory, the embedding
    /// or the head. A list adds up to all layers; where a schedule gives stages several chunks it is of chunks, in the order
    /// of the model.
    pub stage_layers: Option<StageLayers>,
    /// Ranks that share each sequence (context parallelism).
    pub context: Option<Count<1, 131_072>>,
    /// Exchange of context-parallel ranks for attention; `all-to-all` when absent.
    pub context_exchange: Option<ContextExchange>,
    /// Ranks that share the experts of each layer. They are taken from those that hold the same parameters otherwise:
    /// a divisor of `data` times `context`, next to each other; tensor ranks share each expert as they do any MLP.
    pub expert: Option<Count<1, 16_384>>,
    /// Copies of a transformer, each with micro-batches of its own; as many as the machine holds when absent.
    pub data: Option<Count<1, 131_072>>,
    /// Shards the optimizer states over the copies (ZeRO-1): `sharding: optimizer` in other words.
    pub distributed_optimizer: Option<bool>,
    /// States that data-parallel ranks share; `none` when absent.
    pub sharding: Option<Sharding>,
    /// Overlap of gradient sums over the copies with the backward pass, in buckets. Sharded
    /// gradients always overlap. When absent, whole gradients are summed at the end of the step, as
    /// in Megatron-LM's own data parallelism through 2022.
    pub overlap_gradient_reduce: Option<OverlapGradientReduce>,
    /// Size of a hybrid shard group: adjacent copies shard what `sharding` says, and groups
    /// replicate each other. Gradients are scattered within a group, then summed over groups. All
    /// copies when absent.
    pub sharding_group: Option<Count<2, 131_072>>,
    /// Overlap of parameter gathers with passes, a block of the model (embedding, layer, head) at a
    /// time. Sharded parameters always overlap. When absent, others are gathered at the end of the
    /// step.
    pub overlap_parameter_gather: Option<Gather>,
    /// Overlap of the tensor ranks' sum of an input gradient with the product of the weight
    /// gradient, as in Megatron-LM since September 2021. `false`: the sum comes first, as before.
    pub overlap_tensor_reduce: Option<bool>,
    /// Asynchronous tensor parallelism as in PyTorch: products overlap the gathers and scatters of
    /// sequence parallelism, in as many pieces as tensor ranks, by copy engines. Tensor ranks must
    /// be in one node.
    pub asynchronous_tensor: Option<bool>,
    /// Permission to leave GPUs of the machine idle.
    pub idle: Option<Idle>,
    /// Order in which ranks take GPUs; tensor ranks are adjacent, then context-parallel ranks.
    pub placement: Option<Placement>,
    /// Order in which a stage works on its micro-batches.
    pub schedule: Schedule,
    /// How boundary tensors are sent; `latency` for a profiled pipeline and `eager` for a transformer when absent.
    pub send: Option<SendMode>,
    /// Each tensor rank sends its part of a boundary tensor that all of them hold.
    pub scatter_gather: Option<bool>,
}

/// Sums of gradients beside the backward pass: a bucket leaves when the last of its gradients is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OverlapGradientReduce {
    /// Gradients that are summed together. When absent: those of a block of the model where gradients are shared;
    /// otherwise 40 million, or a million for each copy if that is more, as in Megatron-LM. PyTorch's DDP takes `25 MiB`.
    pub bucket: Option<Bytes>,
    /// Stages of a pipeline launch sums that happen once a step at the same time, those of a chunk
    /// together: after its last backward pass and as many more as stages come before
    /// (Megatron-LM's `align_grad_reduce`). The first stage, if it has one chunk, sums buckets as
    /// they are filled, as all do otherwise.
    pub align: bool,
}

impl Default for OverlapGradientReduce {
    fn default() -> Self {
        Self { bucket: None, align: true }
    }
}

/// Permission to leave GPUs of the machine idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// Every GPU of the machine must have a rank.
    #[default]
    Refuse,
    /// GPUs of the machine may be without a rank.
    Allow,
}
