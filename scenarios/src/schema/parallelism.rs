//! How the work is spread over devices.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::written::{self, Scalar, Written};
use super::{Bytes, Count, MicroBatches, Stages};

/// How the work is spread over devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parallelism {
    /// Pipeline stages; the model's number of stages when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Stages>,
    /// Order in which a stage works on its micro-batches.
    pub schedule: Schedule,
    /// How boundary tensors are sent.
    pub send: Send,
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

/// How boundary tensors are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Send {
    /// A message arrives the transfer time after its producer ends; the sender goes on at once.
    #[default]
    Latency,
    /// Messages of one boundary and direction go one after the other; the sender goes on at once.
    Eager,
    /// Sender and receiver meet, and both are busy for the transfer time.
    Rendezvous,
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
