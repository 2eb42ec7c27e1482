//! All stages, or some of them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Error, SeqAccess};
use serde::ser::{Serialize, Serializer};

use super::Count;
use super::written::{Scalar, Written};

/// Stages that a technique applies to: `all`, or a list of stages counted from 0.
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
    /// Tells whether `stage`, counted from 0, is among them.
    pub fn contains(&self, stage: u32) -> bool {
        match self {
            Self::All => true,
            Self::Listed(stages) => stages.iter().any(|listed| listed.get() == u64::from(stage)),
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

crate::deserialize_written!(StageSet);

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
