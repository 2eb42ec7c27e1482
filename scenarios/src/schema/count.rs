//! Whole numbers with limits.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::text::node::shorten;

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The number, if it is within the limits.
    pub fn new(number: u64) -> Option<Self> {
        (MIN..=MAX).contains(&number).then_some(Self(number))
    }

    pub(crate) fn expected() -> String {
        if MAX == u64::MAX {
            format!("a whole number of at least {MIN}")
        } else {
            format!("a whole number from {MIN} to {MAX}")
        }
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Count<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> CountVisitor<MIN, MAX> {
    fn refuse<T, E: Error>(found: impl fmt::Display) -> Result<T, E> {
        Err(E::custom(format_args!("must be {}, not {found}", Count::<MIN, MAX>::expected())))
    }
}

impl<const MIN: u64, const MAX: u64> Visitor<'_> for CountVisitor<MIN, MAX> {
    type Value = Count<MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Count::<MIN, MAX>::expected())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Count::new(number).map_or_else(|| Self::refuse(number), Ok)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Self::refuse(number)
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Self::Value, E> {
        Self::refuse(number)
    }

    /// `2e9` is a whole number too.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if number.fract() == 0.0 && (0.0..=EXACT).contains(&number) {
            self.visit_u64(number as u64)
        } else {
            Self::refuse(number)
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Self::refuse(format_args!("the text `{}`", shorten(text)))
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
