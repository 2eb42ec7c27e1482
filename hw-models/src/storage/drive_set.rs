//! Drives of a node that an array has.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess};
use serde::{Deserialize, Serialize};

use crate::settings::Count;
use crate::settings::written::{Scalar, Written};

/// Which drives of each node an array has: the first so many, or those of these names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum DriveSet {
    /// The first so many.
    First(DriveCount),
    /// Names within the node, `ssd[0]`, or as the machine spells them out.
    Named(Vec<String>),
}

/// Drives of a node.
type DriveCount = Count<1, 4_096>;

crate::deserialize_written!(DriveSet);

impl<'de> Written<'de> for DriveSet {
    fn expected() -> String {
        "a number of drives, or a list of their names such as `[\"ssd[0]\", \"ssd[1]\"]`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Integer(_) | Scalar::Float(_) => DriveCount::scalar(scalar).map(Self::First),
            Scalar::Bool(_) | Scalar::Text(_) => scalar.refuse(),
        }
    }

    fn list<A: SeqAccess<'de>>(items: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(Self::Named)
    }
}

impl JsonSchema for DriveSet {
    fn schema_name() -> Cow<'static, str> {
        "DriveSet".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let count = generator.subschema_for::<DriveCount>();
        json_schema!({
            "description": "Number of drives of each node, from the first on, or a list of names.",
            "anyOf": [count, { "type": "array", "items": { "type": "string" }, "minItems": 1 }],
            "examples": [4, ["ssd[0]", "ssd[1]"]],
        })
    }
}
