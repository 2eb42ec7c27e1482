//! What limits memory.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::Bytes;
use super::written::{self, Scalar, Written};

/// What limits memory, and what is held all the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryLimit {
    /// Parameter, gradient and optimizer state together: 16 with gradients as short as the parameters, 18 with gradients
    /// summed in fp32 (the default in mixed precision), 20 with a copy of the gradients; always 16 in fp32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_parameter: Option<BytesPerParameter>,
    /// Memory of each GPU that is kept back beyond what the catalogue says: communicators, fragments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    /// Memory of each GPU that a plan may use; of a profiled pipeline that of each stage, in place of `device.memory`
    /// less `device.reserved`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
}

/// Bytes of a parameter, its gradient and its optimizer state together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesPerParameter {
    /// 16.
    Sixteen,
    /// 18.
    Eighteen,
    /// 20.
    Twenty,
}

impl BytesPerParameter {
    const ALL: [Self; 3] = [Self::Sixteen, Self::Eighteen, Self::Twenty];

    /// The number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Sixteen => 16,
            Self::Eighteen => 18,
            Self::Twenty => 20,
        }
    }
}

impl Serialize for BytesPerParameter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.bytes())
    }
}

impl<'de> Deserialize<'de> for BytesPerParameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written::deserialize(deserializer)
    }
}

impl Written<'_> for BytesPerParameter {
    fn expected() -> String {
        "16, 18 or 20".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        let Scalar::Integer(number) = scalar else { return scalar.refuse() };
        let known = Self::ALL.into_iter().find(|known| i128::from(known.bytes()) == number);
        known.map_or_else(|| scalar.refuse(), Ok)
    }
}

impl JsonSchema for BytesPerParameter {
    fn schema_name() -> Cow<'static, str> {
        "BytesPerParameter".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": Self::ALL.map(Self::bytes) })
    }
}
