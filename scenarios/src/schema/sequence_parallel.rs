//! Norms and residuals of tensor ranks, split along the sequence or not.

use std::borrow::Cow;

use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::{Serialize, Serializer};

/// A split of norms and residuals along the sequence, over the tensor ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceParallel {
    /// They are.
    On,
    /// Every rank has all of them.
    Off,
    /// They are where there are several tensor ranks, as Megatron-LM leaves its
    /// `--sequence-parallel` out for one.
    Auto,
}

const AUTO: &str = "auto";

impl SequenceParallel {
    /// On or off, for a number of tensor ranks.
    pub(crate) fn of_ranks(self, tensor: u64) -> Self {
        match self {
            Self::Auto if tensor > 1 => Self::On,
            Self::Auto => Self::Off,
            said => said,
        }
    }
}

hw_models::deserialize_written!(SequenceParallel);

impl Written<'_> for SequenceParallel {
    fn expected() -> String {
        "`true`, `false` or `auto`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Bool(true) => Ok(Self::On),
            Scalar::Bool(false) => Ok(Self::Off),
            Scalar::Text(AUTO) => Ok(Self::Auto),
            _ => scalar.refuse(),
        }
    }
}

impl Serialize for SequenceParallel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(AUTO),
            said => serializer.serialize_bool(*said == Self::On),
        }
    }
}

impl JsonSchema for SequenceParallel {
    fn schema_name() -> Cow<'static, str> {
        "SequenceParallel".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [true, false, AUTO] })
    }
}
