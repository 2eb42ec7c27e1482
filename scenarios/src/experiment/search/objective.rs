//! Objectives of a search: one, or several whose front is looked for.

use std::borrow::Cow;

use hw_models::deserialize_written;
use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{Deserialize, Error, SeqAccess};
use serde::{Deserialize as Reads, Serialize};

/// Objective of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Reads, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SearchObjective")]
pub enum Objective {
    /// Time of a step; plans must have the same batch.
    #[default]
    StepTime,
    /// Time of a step over its samples.
    TimePerSample,
    /// Cost of a token of the campaign, or of a sample where samples have no tokens: price times GPUs
    /// times step over goodput.
    Cost,
    /// Energy of the boards of all GPUs over the samples of a step.
    Energy,
    /// Most memory that a stage holds.
    PeakMemory,
}

/// Objectives that one search has.
pub(crate) const OBJECTIVES_MAX: usize = 4;

/// One objective, or a list of them: then plans are looked for that no other beats in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objectives(Vec<Objective>);

impl Objectives {
    pub(crate) fn one(objective: Objective) -> Self {
        Self(vec![objective])
    }

    /// In the order of the file.
    pub(crate) fn all(&self) -> &[Objective] {
        &self.0
    }

    /// True if plans are looked for that no other beats in all objectives.
    pub(crate) fn is_front(&self) -> bool {
        self.0.len() > 1
    }
}

impl Default for Objectives {
    fn default() -> Self {
        Self(vec![Objective::default()])
    }
}

impl<'de> Written<'de> for Objectives {
    fn expected() -> String {
        format!("an objective, or a list of at most {OBJECTIVES_MAX} that differ")
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(text) => {
                Objective::deserialize(StrDeserializer::new(text)).map(|one| Self(vec![one]))
            }
            other => other.refuse(),
        }
    }

    fn list<A: SeqAccess<'de>>(items: A) -> Result<Self, A::Error> {
        let all: Vec<Objective> = Vec::deserialize(SeqAccessDeserializer::new(items))?;
        let differ = all.iter().enumerate().all(|(place, one)| !all[..place].contains(one));
        match (1..=OBJECTIVES_MAX).contains(&all.len()) && differ {
            true => Ok(Self(all)),
            false => Err(A::Error::custom(format_args!("must be {}", Self::expected()))),
        }
    }
}

deserialize_written!(Objectives);

impl JsonSchema for Objectives {
    fn schema_name() -> Cow<'static, str> {
        "SearchObjectives".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Objective>();
        json_schema!({
            "description": "One objective, or a list: then plans are looked for that no other beats in all.",
            "anyOf": [one, {
                "type": "array", "items": one, "minItems": 1, "maxItems": OBJECTIVES_MAX, "uniqueItems": true
            }],
        })
    }
}
