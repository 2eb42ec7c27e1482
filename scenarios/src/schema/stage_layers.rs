//! Layers of each stage of a transformer.

use std::borrow::Cow;

use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::Count;

/// Layers of each stage of a transformer, by a rule or one by one.
#[derive(Clone, Debug, PartialEq)]
pub enum StageLayers {
    /// All stages have as many.
    Even,
    /// Stages take as long as each other, as far as their memory allows: by chunk, which the check of
    /// a scenario finds; none before.
    Balanced(Vec<LayerCount>),
    /// By chunk, in the order of the model.
    Listed(Vec<LayerCount>),
}

/// Layers of a chunk.
type LayerCount = Count<1, 131_072>;

const EVEN: &str = "even";
const BALANCED: &str = "balanced";

hw_models::deserialize_written!(StageLayers);

impl<'de> Written<'de> for StageLayers {
    fn expected() -> String {
        "`even`, `balanced`, or a list of layers such as `[15, 16, 16, 15]`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(EVEN) => Ok(Self::Even),
            Scalar::Text(BALANCED) => Ok(Self::Balanced(Vec::new())),
            _ => scalar.refuse(),
        }
    }

    fn list<A: SeqAccess<'de>>(items: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(Self::Listed)
    }
}

impl Serialize for StageLayers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Even => serializer.serialize_str(EVEN),
            Self::Balanced(layers) if layers.is_empty() => serializer.serialize_str(BALANCED),
            Self::Balanced(layers) | Self::Listed(layers) => layers.serialize(serializer),
        }
    }
}

impl JsonSchema for StageLayers {
    fn schema_name() -> Cow<'static, str> {
        "StageLayers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let count = generator.subschema_for::<LayerCount>();
        json_schema!({
            "description": "Layers of each stage: as many for all, as many as let all take as long, or a list.",
            "anyOf": [
                { "enum": [EVEN, BALANCED] },
                { "type": "array", "items": count, "minItems": 1 },
            ],
            "examples": [BALANCED, [15, 16, 16, 15]],
        })
    }
}
