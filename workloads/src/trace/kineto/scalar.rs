//! A value of an event, whatever its type: traces of other tools write numbers as text and text as
//! numbers.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::trace::recording::Label;

/// A number or a text; nothing where it is neither.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Scalar {
    #[default]
    Nothing,
    Integer(i64),
    Real(f64),
    Text(String),
}

impl Scalar {
    /// The number in it.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            Self::Nothing => None,
        }
    }

    /// The whole number in it.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Real(number) => {
                (number.fract() == 0.0 && number.abs() < 2f64.powi(53)).then_some(*number as i64)
            }
            Self::Text(text) => text.parse().ok(),
            Self::Nothing => None,
        }
    }

    /// A whole number that is not negative.
    pub(super) fn count(&self) -> Option<u64> {
        self.integer().and_then(|number| number.try_into().ok())
    }

    /// A label: numbers in text are numbers.
    pub(super) fn label(self) -> Option<Label> {
        match (self.integer(), self) {
            (Some(number), _) => Some(Label::Number(number)),
            (None, Self::Text(word)) => Some(Label::Word(word)),
            (None, _) => None,
        }
    }

    /// The text in it.
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            _ => String::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar)
    }
}

struct AnyScalar;

impl<'de> Visitor<'de> for AnyScalar {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(i64::try_from(number).map_or(Scalar::Real(number as f64), Scalar::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Real(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nothing)
    }
}

/// The product of a list of numbers, `[64, 2, 1]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent(pub(super) Option<u64>);

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyExtent)
    }
}

struct AnyExtent;

impl<'de> Visitor<'de> for AnyExtent {
    type Value = Extent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Extent, E> {
        Ok(Extent(Some(number)))
    }

    fn visit_str<E>(self, _: &str) -> Result<Extent, E> {
        Ok(Extent(None))
    }

    fn visit_unit<E>(self) -> Result<Extent, E> {
        Ok(Extent(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Extent, A::Error> {
        let mut product = Some(1u64);
        while let Some(number) = seq.next_element::<Scalar>()? {
            product = product.zip(number.count()).and_then(|(product, number)| product.checked_mul(number));
        }
        Ok(Extent(product))
    }
}
