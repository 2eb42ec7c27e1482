//! Arrays of drives that tensors and states are kept on, and how they are reached.

use std::borrow::Cow;

use hw_models::settings::written::{self, Scalar, Written};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess};
use serde::{Deserialize, Serialize};

use super::{Bytes, Count, Duration, Share};

/// Arrays of drives by name. Every node has each of them.
pub type Storage = IndexMap<String, DriveArray>;

/// Drives of a node that are one array (RAID 0), and the software before them. Techniques that use it share what its drives move and
/// hold, and wear them together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DriveArray {
    /// Its drives: the first so many of each node, or those of these names; all when absent. A drive is in one array at most.
    pub drives: Option<DriveSet>,
    /// The path: `direct` past the page cache into page-locked memory, `buffered` through the cache, `bounce` to and from a GPU
    /// through small buffers of the host, `gpu-direct` without any. When absent `direct` for what is in host memory and `gpu-direct` for
    /// what is on GPUs.
    #[schemars(extend("examples" = ["direct", "buffered", "bounce", "gpu-direct"]))]
    pub path: Option<String>,
    /// Bytes of a request; those of the path when absent.
    pub block: Option<Bytes>,
    /// Requests that are outstanding at a time; those of the path when absent.
    pub depth: Option<Count<1, 65_536>>,
    /// What the host spends on a request before it can issue the next; that of the path when absent.
    pub issue: Option<Duration>,
    /// What its drives write for each byte of the workload that they are rated for; 1 when absent, 2.5 in SSDTrain's account.
    pub rated_amplification: Option<Share>,
    /// What they write for each byte that is written here; 1 when absent.
    pub amplification: Option<Share>,
    /// Times the cycles that they last longer as they need not keep what is written for long; 1 when absent, 86 in SSDTrain's account
    /// (a day rather than three years).
    pub retention: Option<Share>,
}

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

impl<'de> Deserialize<'de> for DriveSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written::deserialize(deserializer)
    }
}

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
            "description": "The first so many drives of each node, or a list of their names.",
            "anyOf": [count, { "type": "array", "items": { "type": "string" }, "minItems": 1 }],
            "examples": [4, ["ssd[0]", "ssd[1]"]],
        })
    }
}
