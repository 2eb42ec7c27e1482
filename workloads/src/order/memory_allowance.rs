//! Memory for activations, which an automatic schedule stays within.

use std::borrow::Cow;

use hw_models::settings::written::{Scalar, Written};
use hw_models::settings::{Bytes, Count};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::{Serialize, Serializer};

/// Micro-batches of one step.
pub type MicroBatches = Count<1, 65_536>;

/// Memory for the activations of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAllowance {
    /// Activations of this many micro-batches.
    MicroBatches(MicroBatches),
    /// Activations of this many micro-batches for each stage of the pipeline: `1p` is the peak of 1F1B.
    PerStage(MicroBatches),
    /// An amount of bytes.
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

hw_models::deserialize_written!(MemoryAllowance);

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
