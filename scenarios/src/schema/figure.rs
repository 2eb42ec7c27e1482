//! Numbers whose meaning depends on what they are compared with: bounds, conditions, points of a sweep.

use std::borrow::Cow;
use std::fmt;

use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;

use super::{Bytes, Duration, Rate, Share};

/// A number, bare or with any unit of the language, and its text as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The number in the base of its kind: seconds, bytes, bytes per second, or as it is.
    pub value: f64,
    /// What it measures.
    pub kind: FigureKind,
    /// As written.
    pub text: String,
}

/// What a figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// A count, a ratio or a share.
    Number,
    /// Time in seconds.
    Seconds,
    /// Memory in bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
}

impl Figure {
    /// Reads `8`, `0.25`, `24.3 %`, `18.5 ms`, `3.5 GB` or `200 GB/s`; `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let figure = |value, kind| Some(Self { value, kind, text: text.to_owned() });
        if let Ok(duration) = Duration::parse(text) {
            return figure(duration.picoseconds() as f64 / 1e12, FigureKind::Seconds);
        }
        if let Ok(bytes) = Bytes::parse(text) {
            return figure(bytes.bytes() as f64, FigureKind::Bytes);
        }
        if let Ok(rate) = Rate::parse(text) {
            return figure(rate.bytes_per_second() as f64, FigureKind::BytesPerSecond);
        }
        if let (Ok(share), true) = (Share::parse(text), text.ends_with('%')) {
            return figure(share.as_f64(), FigureKind::Number);
        }
        text.parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .and_then(|number| figure(number, FigureKind::Number))
    }

    /// Digits after the point, as written.
    pub(crate) fn decimals(&self) -> usize {
        let number = super::split_quantity(&self.text).0;
        number.split_once('.').map_or(0, |(_, fraction)| fraction.len())
    }
}

/// What a scalar means, whatever its unit: equal for `1000 MB` and `1 GB`.
pub(crate) fn meaning(text: &str) -> String {
    match Figure::parse(text) {
        Some(figure) => format!("{} {}", figure.value, figure.kind.noun()),
        None => text.to_owned(),
    }
}

/// Whether two texts of scalars mean the same.
pub(crate) fn same_meaning(a: &str, b: &str) -> bool {
    a == b || meaning(a) == meaning(b)
}

impl FigureKind {
    /// The kind in a sentence.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Number => "a bare number or a share",
            Self::Seconds => "a duration",
            Self::Bytes => "an amount of memory",
            Self::BytesPerSecond => "a transfer rate",
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

hw_models::deserialize_written!(Figure);

impl Written<'_> for Figure {
    fn expected() -> String {
        "a number, with a unit where it has one".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        Self::parse(&scalar.to_string()).map_or_else(|| scalar.refuse(), Ok)
    }
}

impl JsonSchema for Figure {
    fn schema_name() -> Cow<'static, str> {
        "Figure".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, bare (seconds, bytes, ratios) or with a unit.",
            "type": ["number", "string"],
            "examples": [1],
        })
    }
}
