//! A value for all stages, or one for each.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess};

use super::written::{self, Scalar, Written};

/// One value that all stages share, or a list with a value for each stage, the first stage first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PerStage<T> {
    /// The same for all.
    All(T),
    /// One for each stage.
    Each(Vec<T>),
}

impl<T: Copy> PerStage<T> {
    /// The value of `stage`, counted from 0. A list is as long as the pipeline once the scenario has been checked.
    pub fn at(&self, stage: usize) -> T {
        match self {
            Self::All(value) => *value,
            Self::Each(values) => values[stage],
        }
    }

    /// The values as written: one, or as many as there are stages.
    pub fn values(&self) -> &[T] {
        match self {
            Self::All(value) => std::slice::from_ref(value),
            Self::Each(values) => values,
        }
    }
}

impl<'de, T: Written<'de> + Deserialize<'de>> Deserialize<'de> for PerStage<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written::deserialize(deserializer)
    }
}

impl<'de, T: Written<'de> + Deserialize<'de>> Written<'de> for PerStage<T> {
    fn expected() -> String {
        "one value, or a list with one for each stage".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Bool(_) => scalar.refuse(),
            _ => T::scalar(scalar).map(Self::All),
        }
    }

    fn list<A: SeqAccess<'de>>(items: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(Self::Each)
    }
}

impl<T: JsonSchema> JsonSchema for PerStage<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("PerStage{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({
            "description": "One value for all stages, or a list with one for each.",
            "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }],
        })
    }
}
