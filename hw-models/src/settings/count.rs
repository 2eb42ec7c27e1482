//! Whole numbers with limits.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error};

use super::written::{self, Scalar, Written};

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Count<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// A number that stands in code.
    ///
    /// # Panics
    /// If it is beyond the limits, at compile time where it is a constant.
    pub const fn literal(number: u64) -> Self {
        assert!(MIN <= number && number <= MAX, "a number within its limits");
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number, if it is within the limits.
    pub fn new(number: u64) -> Option<Self> {
        (MIN..=MAX).contains(&number).then_some(Self(number))
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written::deserialize(deserializer)
    }
}

impl<const MIN: u64, const MAX: u64> Written<'_> for Count<MIN, MAX> {
    fn expected() -> String {
        if MAX == u64::MAX {
            format!("a whole number of at least {MIN}")
        } else {
            format!("a whole number from {MIN} to {MAX}")
        }
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let number = match scalar {
            Scalar::Integer(number) => u64::try_from(number).ok(),
            // `2e9` is a whole number too.
            Scalar::Float(number) if number.fract() == 0.0 && (0.0..=EXACT).contains(&number) => {
                Some(number as u64)
            }
            Scalar::Float(_) => None,
            Scalar::Bool(_) | Scalar::Text(_) => return scalar.refuse(),
        };
        let refusal = || E::custom(format_args!("must be {}, not {scalar}", Self::expected()));
        number.and_then(Self::new).ok_or_else(refusal)
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Count<MIN, MAX> {
    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "integer", "minimum": MIN, "examples": [MIN.max(1)] });
        if MAX < u64::MAX {
            schema.insert("maximum".to_owned(), MAX.into());
        }
        schema
    }
}
