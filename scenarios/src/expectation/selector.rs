//! Which runs a statement is about, and ranges of figures.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use hw_models::settings::written::{Scalar, Written};
use reports::wording::said;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess};

use crate::schema::Figure;

/// Runs of an experiment: a variant, or the best of several. Over a sweep, the feasible point of highest throughput.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// The variants.
    pub variants: Vec<String>,
    /// Swept paths and values, beside those of the expectation.
    pub at: BTreeMap<String, String>,
}

/// A least and a greatest value.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub low: Figure,
    /// The greatest.
    pub high: Figure,
}

/// A value of a swept path, as text.
#[derive(Debug)]
pub(super) struct PointValue(pub(super) String);

/// `{ best_of: [A, B], at: { path: value } }`
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BestOf {
    /// The variants; the feasible run of highest throughput counts.
    best_of: Vec<String>,
    /// Swept paths and the values they have there.
    #[serde(default)]
    at: BTreeMap<String, PointValue>,
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variants[..] {
            [only] => f.write_str(only)?,
            several => write!(f, "the best of {}", several.join(", "))?,
        }
        for (path, value) in &self.at {
            write!(f, " at {} {}", reports::summary::short_path(path), said(value))?;
        }
        Ok(())
    }
}

hw_models::deserialize_written!(Selector, Range, PointValue);

impl<'de> Written<'de> for Selector {
    fn expected() -> String {
        "the name of a variant, or `{ best_of: [A, B] }`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(name) => Ok(Self { variants: vec![name.to_owned()], at: BTreeMap::new() }),
            _ => scalar.refuse(),
        }
    }

    fn map<A: MapAccess<'de>>(entries: A) -> Result<Self, A::Error> {
        let BestOf { best_of, at } = BestOf::deserialize(MapAccessDeserializer::new(entries))?;
        if best_of.is_empty() {
            return Err(A::Error::custom("names no variant\nwrite `{ best_of: [A, B] }`"));
        }
        Ok(Self { variants: best_of, at: at.into_iter().map(|(path, value)| (path, value.0)).collect() })
    }
}

impl JsonSchema for Selector {
    fn schema_name() -> Cow<'static, str> {
        "Selector".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let best_of = generator.subschema_for::<BestOf>();
        json_schema!({
            "description": "A variant, or the best of several.",
            "anyOf": [{ "type": "string", "examples": ["VARIANT"] }, best_of],
        })
    }
}

impl<'de> Written<'de> for Range {
    fn expected() -> String {
        "a range such as `[1, 2]`".to_owned()
    }

    fn list<A: SeqAccess<'de>>(mut items: A) -> Result<Self, A::Error> {
        let mut bounds: Vec<Figure> = Vec::new();
        while let Some(bound) = items.next_element()? {
            bounds.push(bound);
        }
        let [low, high] = <[Figure; 2]>::try_from(bounds).map_err(|bounds| {
            A::Error::custom(format_args!(
                "must have 2 bounds, not {}\nwrite `[lowest, highest]`",
                bounds.len()
            ))
        })?;
        if low.kind != high.kind {
            return Err(A::Error::custom(format_args!(
                "mixes {} with {}",
                low.kind.noun(),
                high.kind.noun()
            )));
        }
        if low.value > high.value {
            return Err(A::Error::custom(format_args!(
                "is empty: {low} is above {high}\nwrite `[{high}, {low}]`"
            )));
        }
        Ok(Self { low, high })
    }
}

impl JsonSchema for Range {
    fn schema_name() -> Cow<'static, str> {
        "Range".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let bound = generator.subschema_for::<Figure>();
        json_schema!({
            "description": "Least and greatest value.",
            "type": "array",
            "items": bound,
            "minItems": 2,
            "maxItems": 2,
            "examples": [[1, 2]],
        })
    }
}

impl Written<'_> for PointValue {
    fn expected() -> String {
        "one value of the swept path".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        Ok(Self(scalar.to_string()))
    }
}

impl JsonSchema for PointValue {
    fn schema_name() -> Cow<'static, str> {
        "PointValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "One value of the swept path.", "type": ["string", "number", "boolean"] })
    }
}
