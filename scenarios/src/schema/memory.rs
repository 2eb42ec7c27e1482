//! What limits memory.

use std::borrow::Cow;

use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::{Allocator, Bytes, Placeholder, Share};

/// Limits of memory, and bytes held throughout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryLimit {
    /// Parameter, gradient and optimizer state together: 16 with gradients as short as the parameters, 18 with gradients
    /// summed in fp32 (the default in mixed precision), 20 with a copy of the gradients; always 16 in fp32.
    pub bytes_per_parameter: Option<BytesPerParameter>,
    /// Memory of each GPU that is kept back beyond what the catalogue says: communicators, fragments.
    pub reserved: Option<Bytes>,
    /// Memory of each GPU that a plan may use; of a profiled pipeline that of each stage, in place of `device.memory`
    /// less `device.reserved`.
    pub limit: Option<Bytes>,
    /// Oversubscription, instead of a limit: what the allocator takes with nothing offloaded, over
    /// the memory of each GPU. `1.33` leaves three quarters of it.
    pub footprint_ratio: Option<Share>,
    /// Page-locked memory of hosts, for copies between a GPU and its host; as much as they have
    /// when absent.
    pub pinned: Option<Pinned>,
    /// How PyTorch's caching allocator is set.
    pub allocator: Option<Allocator>,
    /// Placeholder that autograd gets for a weight gradient that was added to its sum.
    pub gradient_placeholders: Option<Placeholder>,
}

/// Page-locked memory of hosts: buffers of what is offloaded and swapped, and of gradients and parameters that hosts exchange with their
/// GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pinned {
    /// Memory that the process of each rank locks at its start.
    #[schemars(extend("examples" = ["64 GiB"]))]
    pub size: Bytes,
    /// Fate of a copy that finds no room in the pool.
    #[serde(default)]
    pub when_full: WhenFull,
}

/// Fate of a copy that finds no page-locked buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// It waits until one is free. A job that would wait for ever is refused.
    #[default]
    Wait,
    /// It goes to memory that is not page-locked: slower, and three times the traffic there.
    Pageable,
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

hw_models::deserialize_written!(BytesPerParameter);

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
