//! How the work is spread over devices.

use std::borrow::Cow;

use hw_models::settings::written::{self, Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::{Bytes, ContextExchange, Count, GatherLimit, MicroBatches, SendMode, Sharding, Stages};

/// How the work is spread over devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parallelism {
    /// Ranks that share each layer of a transformer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<Count<1, 131_072>>,
    /// Whether norms and residuals are split over the tensor ranks along the sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_parallel: Option<bool>,
    /// Pipeline stages; of a profiled pipeline its number of stages when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Stages>,
    /// Layers of each stage of a transformer, the first stage first, which add up to all. Where a schedule gives stages several
    /// chunks: of each chunk in the order of the model, so first of the first chunk of every stage. All have as many when absent.
    /// The first and the last, with the embedding and the head, often have fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [[15, 16, 16, 15]]))]
    pub stage_layers: Option<Vec<Count<1, 131_072>>>,
    /// Ranks that have parts of the same sequences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Count<1, 131_072>>,
    /// What those exchange for attention; `all-to-all` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_exchange: Option<ContextExchange>,
    /// Ranks that share the experts of each layer. They are taken from those that hold the same parameters otherwise:
    /// a divisor of `data` times `context`, next to each other; tensor ranks share each expert as they do any MLP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expert: Option<Count<1, 16_384>>,
    /// Copies of a transformer, each with micro-batches of its own; as many as the machine holds when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Count<1, 131_072>>,
    /// Whether the copies share the optimizer states among them (ZeRO-1): `sharding: optimizer` in other words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed_optimizer: Option<bool>,
    /// What the copies share among them; nothing when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharding: Option<Sharding>,
    /// Gradients are summed over the copies beside the backward pass, in buckets; always so where they are shared. When
    /// absent, gradients that are whole are summed at the end of the step, as by Megatron-LM's own data parallelism
    /// through 2022.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_gradient_reduce: Option<OverlapGradientReduce>,
    /// So many copies, next to each other, share what `sharding` says, and groups of them hold the same: hybrid sharding.
    /// Gradients are scattered within a group and then summed over groups. All share when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharding_group: Option<Count<2, 131_072>>,
    /// Parameters are gathered from the copies beside passes, a block of the model (embedding, layer, head) at a time;
    /// always so where they are shared. When absent, the others are gathered at the end of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_parameter_gather: Option<OverlapParameterGather>,
    /// Tensor ranks sum the gradient of a layer's input beside the product for that of its weight, as Megatron-LM does since
    /// September 2021; `false`: before it, as until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_tensor_reduce: Option<bool>,
    /// Products and what sequence parallelism gathers or scatters for them go in as many pieces as tensor ranks, one beside the
    /// other, by copy engines: asynchronous tensor parallelism as in PyTorch. Tensor ranks are in one node then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asynchronous_tensor: Option<bool>,
    /// Whether GPUs of the machine may be left over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// In which order ranks take GPUs; tensor ranks are next to each other, then those with parts of the same sequences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Order in which a stage works on its micro-batches.
    pub schedule: Schedule,
    /// How boundary tensors are sent; `latency` for a profiled pipeline and `eager` for a transformer when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<SendMode>,
    /// Whether each tensor rank sends a part of a boundary tensor that all of them hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scatter_gather: Option<bool>,
}

/// Sums of gradients beside the backward pass: a bucket leaves when the last of its gradients is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OverlapGradientReduce {
    /// Gradients that are summed together. When absent: those of a block of the model where gradients are shared;
    /// otherwise 40 million, or a million for each copy if that is more, as in Megatron-LM. PyTorch's DDP takes `25 MiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bytes>,
}

/// Gathers of parameters beside passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OverlapParameterGather {
    /// How many blocks ahead of the one that a forward pass is in; with 1, two blocks are whole at a time.
    pub forward_prefetch: Count<0, 4_096>,
    /// The same of backward passes, for which parameters that are shared are gathered again.
    pub backward_prefetch: Count<0, 4_096>,
    /// Whether parameters that are shared go after the forward pass.
    pub reshard_after_forward: bool,
    /// Whether each parameter is shared by itself, so that what is gathered is copied to each of them, as in PyTorch's FSDP2; in
    /// FSDP1 those of a block are one flat tensor.
    pub per_parameter: bool,
    /// What keeps gathers from taking memory long before it is needed.
    pub limit: GatherLimit,
}

impl Default for OverlapParameterGather {
    /// As PyTorch's FSDP with its defaults: `limit_all_gathers`, `BACKWARD_PRE`, `FULL_SHARD`.
    fn default() -> Self {
        let one = Count::new(1).expect("within its limits");
        Self {
            forward_prefetch: one,
            backward_prefetch: one,
            reshard_after_forward: true,
            per_parameter: false,
            limit: GatherLimit::Device,
        }
    }
}

/// Whether GPUs of the machine may be left over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// They may not.
    #[default]
    Refuse,
    /// They may.
    Allow,
}

/// In which order ranks take GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All copies of a stage, then the next stage: Megatron-LM's `tp-cp-ep-dp-pp`.
    #[default]
    Sequential,
    /// The same, but the stages `x` and `p - 1 - x` next to each other, so that what BPipe moves stays in a node.
    PairAdjacent,
    /// All stages of a copy, then the next copy: Megatron-LM's `tp-cp-ep-pp-dp` (`use_tp_pp_dp_mapping`), so that boundary
    /// tensors stay in a node and gradients leave it.
    CopyAfterCopy,
    /// The GPU of every rank, in the order of `sequential`. GPUs are numbered node by node from 0.
    Gpus(Vec<Count<0, 1_048_575>>),
}

/// Order in which a stage works on its micro-batches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// One forward, one backward: each stage begins backwards as early as it can.
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// All forwards, then all backwards.
    Gpipe,
    /// 1F1B with several chunks of the model on each stage.
    Interleaved(Interleaved),
    /// Zero-bubble schedule with the peak memory of 1F1B.
    ZbH1,
    /// Zero-bubble schedule with about twice the peak memory of 1F1B.
    ZbH2,
    /// Zero-bubble schedule with two chunks per stage, placed in a V.
    ZbV,
    /// Zero-bubble schedule found by a heuristic under a memory limit.
    ZbAuto(ZbAuto),
}

/// Options of the interleaved schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interleaved {
    /// Chunks per stage; a stage's work is split evenly among them.
    pub chunks: Count<2, 64>,
}

/// Options of the automatic zero-bubble schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZbAuto {
    /// Memory that the activations of a stage may take.
    pub memory_limit: MemoryAllowance,
}

/// Memory for the activations of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAllowance {
    /// So many micro-batches' activations.
    MicroBatches(MicroBatches),
    /// So many micro-batches' activations for each stage of the pipeline: `1p` is what 1F1B needs at its peak.
    PerStage(MicroBatches),
    /// So many bytes.
    Bytes(Bytes),
}

impl Serialize for MemoryAllowance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::MicroBatches(count) => count.serialize(serializer),
            Self::PerStage(count) => serializer.collect_str(&format_args!("{}p", count.get())),
            Self::Bytes(bytes) => bytes.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MemoryAllowance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written::deserialize(deserializer)
    }
}

impl Written<'_> for MemoryAllowance {
    fn expected() -> String {
        "an amount of memory such as `30 GB`, a number of micro-batches, or `1p`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Integer(_) => Count::scalar(scalar).map(Self::MicroBatches),
            Scalar::Text(text) => match text.strip_suffix('p').map(str::parse::<u64>) {
                Some(Ok(count)) => Count::scalar(Scalar::Integer(count.into())).map(Self::PerStage),
                _ => Bytes::parse(text).map(Self::Bytes).map_err(E::custom),
            },
            Scalar::Bool(_) | Scalar::Float(_) => scalar.refuse(),
        }
    }
}

impl JsonSchema for MemoryAllowance {
    fn schema_name() -> Cow<'static, str> {
        "MemoryAllowance".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let count = generator.subschema_for::<MicroBatches>();
        let bytes = generator.subschema_for::<Bytes>();
        json_schema!({
            "description": "Memory for activations: bytes, a number of micro-batches, or `1p` for one per stage of the pipeline.",
            "anyOf": [count, { "type": "string", "pattern": "^[0-9]+p$" }, bytes],
        })
    }
}
