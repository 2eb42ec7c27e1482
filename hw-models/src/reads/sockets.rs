//! Sockets of a host whose memories hold rows.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Serialize, Serializer};

use crate::settings::Count;
use crate::settings::written::{Scalar, Written};

/// Sockets whose memories hold rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sockets {
    /// A copy of all rows on each socket that has GPUs of the job.
    #[default]
    Each,
    /// A part of the rows on each socket of a node, page by page (`numactl --interleave=all`).
    Interleaved,
    /// All rows on one socket, as memory is that a single process has touched first.
    One(u32),
}

/// Number of a socket.
type Number = Count<0, 15>;

const EACH: &str = "each";
const INTERLEAVED: &str = "interleaved";

crate::deserialize_written!(Sockets);

impl<'de> Written<'de> for Sockets {
    fn expected() -> String {
        format!("`{EACH}`, `{INTERLEAVED}`, or the number of a socket, from 0")
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(text) if text == EACH => Ok(Self::Each),
            Scalar::Text(text) if text == INTERLEAVED => Ok(Self::Interleaved),
            Scalar::Integer(_) | Scalar::Float(_) => {
                Number::scalar(scalar).map(|number| Self::One(number.get() as u32))
            }
            Scalar::Bool(_) | Scalar::Text(_) => scalar.refuse(),
        }
    }
}

impl Serialize for Sockets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Each => serializer.serialize_str(EACH),
            Self::Interleaved => serializer.serialize_str(INTERLEAVED),
            Self::One(number) => serializer.serialize_u32(*number),
        }
    }
}

impl JsonSchema for Sockets {
    fn schema_name() -> Cow<'static, str> {
        "Sockets".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let number = generator.subschema_for::<Number>();
        json_schema!({
            "description": "Sockets of a node whose memories hold rows: a copy on each, pages in turn, or all on one.",
            "anyOf": [{ "enum": [EACH, INTERLEAVED] }, number],
            "examples": [0, INTERLEAVED],
        })
    }
}
