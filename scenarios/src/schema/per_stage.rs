//! A value for all stages, or one for each.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, SeqAccess, Visitor};

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

/// Written by hand: serde's untagged form would forget where a wrong item stands.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for PerStage<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PerStageVisitor(PhantomData))
    }
}

struct PerStageVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PerStageVisitor<T> {
    type Value = PerStage<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value, or a list with one for each stage")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(PerStage::Each)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(PerStage::All)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(PerStage::All)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(PerStage::All)
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(PerStage::All)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(PerStage::All)
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
