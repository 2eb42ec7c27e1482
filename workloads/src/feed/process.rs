//! Processes that share a GPU: one that trains, and maybe one that reads rows for it.

use std::borrow::Cow;

use hw_models::settings::Share;
use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess};
use serde::{Deserialize, Serialize};

use crate::schedule::Multiprocessors;

/// Process that reads rows in the memory of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    /// The training process.
    #[default]
    Same,
    /// Another one; without MPS the GPU executes kernels of one process at a time.
    Separate,
    /// Another one, whose kernels run beside those of the training process (MPS).
    #[schemars(extend("examples" = [{ "mps": "10 %" }]))]
    Mps(MpsShares),
}

/// Shares of the multiprocessors that processes get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MpsShares {
    /// That of the process that reads rows.
    pub reading: Share,
    /// That of the process that trains. `None`: it gets all that are free.
    pub training: Option<Share>,
}

impl Process {
    /// Multiprocessors that kernels which read rows get, of `all` that the GPU has.
    pub(super) fn reading(self, all: u32) -> Multiprocessors {
        match self {
            Self::Same => Multiprocessors::Free,
            Self::Separate => Multiprocessors::Alone(all),
            Self::Mps(shares) => Multiprocessors::AtMost(part(shares.reading, all)),
        }
    }

    /// Multiprocessors that kernels of the training process get, of `all` that the GPU has.
    pub(super) fn training(self, all: u32) -> Multiprocessors {
        match self {
            Self::Same | Self::Mps(MpsShares { training: None, .. }) => Multiprocessors::Free,
            Self::Separate => Multiprocessors::Alone(all),
            Self::Mps(MpsShares { training: Some(share), .. }) => Multiprocessors::AtMost(part(share, all)),
        }
    }
}

fn part(share: Share, all: u32) -> u32 {
    ((f64::from(all) * share.as_f64()).round() as u32).max(1)
}

/// Both shares.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SharesOfBoth")]
struct Both {
    /// Share of the process that reads rows.
    #[schemars(extend("examples" = ["10 %"]))]
    reading: Share,
    /// Share of the process that trains; all that are free when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["90 %"]))]
    training: Option<Share>,
}

hw_models::deserialize_written!(MpsShares);

impl<'de> Written<'de> for MpsShares {
    fn expected() -> String {
        "the share of the process that reads rows, or a map with `reading` and `training`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        Ok(Self { reading: Share::scalar(scalar)?, training: None })
    }

    fn map<A: MapAccess<'de>>(entries: A) -> Result<Self, A::Error> {
        let Both { reading, training } = Both::deserialize(MapAccessDeserializer::new(entries))?;
        Ok(Self { reading, training })
    }
}

impl Serialize for MpsShares {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { reading, training } = *self;
        match training {
            None => reading.serialize(serializer),
            Some(_) => Both { reading, training }.serialize(serializer),
        }
    }
}

impl JsonSchema for MpsShares {
    fn schema_name() -> Cow<'static, str> {
        "MpsShares".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (one, both) = (generator.subschema_for::<Share>(), generator.subschema_for::<Both>());
        schemars::json_schema!({
            "description": "Share of the multiprocessors of the process that reads rows, or those of both processes.",
            "anyOf": [both, one],
        })
    }
}
