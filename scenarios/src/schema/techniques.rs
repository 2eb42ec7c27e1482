//! Techniques: what they are given; what they do is the business of the workloads.

use std::borrow::Cow;

use hw_models::settings::written::{self, Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::{
    Bytes, Coordination, Count, Duration, Engine, EvictionPolicy, Layers, Outside, PerStage, Rate, Store,
};

/// Techniques that change what is executed, where and in which order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Techniques {
    /// Recompute activations before the backward pass instead of keeping them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Recompute>,
    /// Balance activation memory between the stages `x` and `p - 1 - x` (Kim et al., ICML 2023).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpipe: Option<BPipe>,
    /// Move what the forward pass saves to host memory or drives, and back before the backward pass needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_offload: Option<ActivationOffload>,
    /// Keep the states of the optimizer with the hosts, which update: gradients leave, parameters come back (Ren et al., ATC 2021).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_offload: Option<ZeroOffload>,
    /// Move as much of what the forward pass saves to host memory, and back, as must be for the GPU's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
    /// Keep the states of the optimizer on drives, and parameters in host memory or on drives (Rajbhandari et al., SC 2021).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_infinity: Option<ZeroInfinity>,
}

/// Keep states of the optimizer on drives or in host memory, and parameters in host memory or on drives, from where a block's come
/// for every pass: to each rank its share, which ranks then gather. Gradients go on to the drives; the host reads a group's states,
/// updates and writes them. Copies of the model share everything (`sharding: parameters`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroInfinity {
    /// Where parameters are between passes.
    pub parameters: KeptParameters,
    /// Blocks whose parameters are in host memory at a time where they are on drives, on their way to the GPU or read ahead for it; 2 when
    /// absent.
    pub parameter_buffers: Count<1, 1_024>,
    /// Where states of the optimizer are.
    pub states: Outside,
    /// Arrays of `storage` that states, or parameters, are on, of the GPUs of a node in turn; the only one when absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<String>,
    /// So many parameters are updated together; 10^9 when absent, as in DeepSpeed (`sub_group_size`).
    pub group: Count<1, 1_000_000_000_000>,
    /// Groups in host memory at a time: with one reading, updating and writing take turns, as in DeepSpeed without `pipeline_read` and
    /// `pipeline_write`.
    pub buffers: Count<1, 1_024>,
    /// Most that the threads of one rank's update get of the host's memory, reads and writes together; all of it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Most gradients that its threads copy to buffers of the drives in a second, in fp32; as much as memory allows when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_rate: Option<Rate>,
}

impl Default for ZeroInfinity {
    fn default() -> Self {
        Self {
            parameters: KeptParameters::Host,
            parameter_buffers: Count::new(2).expect("within the limits"),
            states: Outside::Drives,
            arrays: Vec::new(),
            group: Count::new(1_000_000_000).expect("within the limits"),
            buffers: Count::new(1).expect("within the limits"),
            rate: None,
            gradient_rate: None,
        }
    }
}

impl ZeroInfinity {
    /// Whether anything is on drives.
    pub(crate) fn uses_drives(&self) -> bool {
        self.states == Outside::Drives || self.parameters == KeptParameters::Drives
    }
}

/// Where parameters are between passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeptParameters {
    /// On the GPUs.
    Gpu,
    /// In host memory.
    Host,
    /// On drives, from where those of each block are read ahead of every pass, and where an update writes them.
    Drives,
}

/// Keep the states of the optimizer in host memory. Gradients go there as soon as they are summed, in buckets of
/// `overlap_gradient_reduce` or block by block; the host updates, at the speed of its memory, which copies share; parameters come
/// back. Copies of the model share states and gradients (ZeRO-2), in a pipeline states (ZeRO-1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroOffload {
    /// The host updates beside the passes of the next step, which has the parameters of the one before.
    pub delayed_update: bool,
    /// So many parameters are updated, and go back, together; 128 Mi when absent, as in DeepSpeed's CPU Adam.
    pub group: Count<1, 1_000_000_000_000>,
    /// Most that the threads of one rank's update get of the host's memory, reads and writes together; all of it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Whether gradients and parameters are page-locked there (`pin_memory` of DeepSpeed). If not, a thread of the host copies them once
    /// more in each direction, as fast as one does, and they pass its memory three times.
    pub pinned: bool,
}

impl Default for ZeroOffload {
    fn default() -> Self {
        Self {
            delayed_update: false,
            group: Count::new(128 << 20).expect("within the limits"),
            rate: None,
            pinned: true,
        }
    }
}

/// Move what the forward pass saves to host memory or drives, tensor by tensor, and back before the backward pass needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ActivationOffload {
    /// Smaller tensors stay; 16 MiB when absent, 8 Mi elements of two bytes as in SSDTrain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest: Option<Bytes>,
    /// What stays of each micro-batch on every GPU, for each chunk of its stage.
    pub keep: Keep,
    /// Where tensors go.
    pub to: Outside,
    /// Arrays of `storage` that they go to, of the GPUs of a node in turn; the only one when absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["left", "right"]]))]
    pub arrays: Vec<String>,
    /// A tensor is asked for when the backward pass needs the one so many before it, whether that has left or not.
    pub prefetch: Count<0, 65_536>,
    /// When the copy of a tensor begins.
    pub store: Store,
    /// A tensor that is asked for before its copy has ended stays, as in SSDTrain: a copy that has not begun is left out, and nothing is
    /// loaded.
    pub forwarding: bool,
    /// Whether what is copied to host memory is page-locked there. If not, a thread of the host copies it once more in each direction, as
    /// fast as one does, and it passes that memory three times.
    pub pinned: bool,
}

/// What stays of each micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// What the head and the loss save, and the last layer where each micro-batch's backward pass follows its forward pass at once (SSDTrain).
    #[default]
    LastLayer,
    /// What the head and the loss save, and as much of what the last layers save, by halves of layers, as cannot be away and back in time: each
    /// rank goes by the forward pass of a third micro-batch of which all leaves, and by the rate at which that left (SSDTrain). The rule has
    /// loads follow each other from the beginning of the backward pass on: `prefetch: 65536`.
    Adaptive,
    /// What the head and the loss save, and the last so many layers of each chunk.
    Layers(Count<0, 4_096>),
    /// So many bytes: of all tensors those that the backward pass needs first.
    Bytes(Bytes),
}

impl Default for ActivationOffload {
    fn default() -> Self {
        Self {
            smallest: None,
            keep: Keep::LastLayer,
            to: Outside::Host,
            arrays: Vec::new(),
            prefetch: Count::new(4).expect("within the limits"),
            store: Store::Produced,
            forwarding: true,
            pinned: true,
        }
    }
}

/// Move as much of what the forward pass saves to host memory, tensor by tensor, as must be for the GPU's memory, and back before
/// the backward pass needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Swap {
    /// Who decides which tensors leave.
    pub engine: Engine,
    /// What copies of the model that share a link to their host do about each other.
    pub coordination: Coordination,
    /// So many tensors are asked for before the backward pass needs them, where there is room for them.
    pub prefetch: Count<0, 65_536>,
    /// Whether the backward pass produces a tensor again, by the operator that filled it and from what is there, where that is
    /// expected to take less time than its copies (Capuchin, ASPLOS 2020).
    pub recompute: bool,
    /// When copies out begin. Memory is given back after the last use in the forward pass in any case.
    pub store: Store,
    /// Whether what is copied to host memory is page-locked there. If not, a thread of the host copies it once more in each direction, as
    /// fast as one does, and it passes that memory three times.
    pub pinned: bool,
}

impl Default for Swap {
    fn default() -> Self {
        Self {
            engine: Engine::default(),
            coordination: Coordination::default(),
            prefetch: Count::new(2).expect("within the limits"),
            recompute: false,
            store: Store::LastUse,
            pinned: true,
        }
    }
}

/// Recompute activations before the backward pass instead of keeping them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recompute {
    /// What layers of a transformer recompute; `full` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RecomputeMode>,
    /// Whether `full` ends with the last tensor that the backward pass needs, as PyTorch's checkpoints without reentrance do
    /// from 2.1 on, rather than with the layer, as Megatron-LM's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<bool>,
    /// The first so many layers of each chunk of a stage do; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Layers>,
    /// What the other layers recompute; nothing when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<RecomputeMode>,
    /// Time of the extra forward pass of a profiled pipeline; the stage's forward time when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<PerStage<Duration>>,
    /// The stages of a profiled pipeline that recompute; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageSet>,
    /// What a stage of a profiled pipeline keeps of each micro-batch (its checkpoint); nothing when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeps: Option<PerStage<Bytes>>,
}

/// What layers recompute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecomputeMode {
    /// Nothing.
    None,
    /// Scores, softmax, dropout and context of the attention: large, and cheap to compute again.
    Selective,
    /// Everything but the input of the layer.
    Full,
    /// Everything but the input of the layer and the results of attention, of every second product beginning with the first, and
    /// of reduce-scatters: torchtitan's `selective` with option `op`.
    Operators,
}

/// Balance activation memory between the stages `x` and `p - 1 - x`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BPipe {
    /// Which micro-batches leave a stage that is over its bound.
    pub policy: EvictionPolicy,
    /// How fast activations move within a pair of stages of a profiled pipeline; `hidden` when absent. Those of a
    /// transformer go over the links of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<PairTransfer>,
    /// Micro-batches that a stage may hold, one of which is computed and one fetched; `ceil((p + 2) / 2)` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Count<2, 65_536>>,
}

/// How fast activations move within a pair of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairTransfer {
    /// At once: what the technique could give if transfers cost nothing.
    #[default]
    Hidden,
    /// At this rate in each direction.
    Rate(Rate),
}

/// The stages that a technique applies to: `all`, or a list of stages counted from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StageSet {
    /// All of them.
    #[default]
    All,
    /// These, counted from 0.
    Listed(Vec<StageIndex>),
}

/// A stage, counted from 0.
type StageIndex = Count<0, 4095>;

impl StageSet {
    /// Whether `stage`, counted from 0, is among them.
    pub fn contains(&self, stage: usize) -> bool {
        match self {
            Self::All => true,
            Self::Listed(stages) => stages.iter().any(|listed| listed.get() == stage as u64),
        }
    }
}

impl Serialize for StageSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Listed(stages) => stages.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for StageSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written::deserialize(deserializer)
    }
}

impl<'de> Written<'de> for StageSet {
    fn expected() -> String {
        "`all` or a list of stages such as `[0, 1]`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text("all") => Ok(Self::All),
            _ => scalar.refuse(),
        }
    }

    fn list<A: SeqAccess<'de>>(items: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(Self::Listed)
    }
}

impl JsonSchema for StageSet {
    fn schema_name() -> Cow<'static, str> {
        "StageSet".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let stage = generator.subschema_for::<StageIndex>();
        json_schema!({
            "description": "`all`, or a list of stages counted from 0.",
            "anyOf": [{ "const": "all" }, { "type": "array", "items": stage }],
        })
    }
}
