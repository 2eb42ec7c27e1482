//! Types that are written in several ways: a text or a number, one value or a list.
//!
//! serde's untagged enums would do it in fewer lines, but they forget where a wrong item stands.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

/// A type with its ways to be written; those that it does not name are refused.
pub trait Written<'de>: Sized {
    /// What is expected, to continue "must be ...".
    fn expected() -> String;

    /// From a scalar.
    ///
    /// # Errors
    /// If it is not written so.
    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        scalar.refuse()
    }

    /// From a list.
    ///
    /// # Errors
    /// If it is not written so.
    fn list<A: SeqAccess<'de>>(_: A) -> Result<Self, A::Error> {
        refuse(Unexpected::Seq)
    }

    /// From a map.
    ///
    /// # Errors
    /// If it is not written so.
    fn map<A: MapAccess<'de>>(_: A) -> Result<Self, A::Error> {
        refuse(Unexpected::Map)
    }
}

/// A scalar as it is written.
#[derive(Clone, Copy, Debug)]
pub enum Scalar<'a> {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// Anything else.
    Text(&'a str),
}

/// The text, cut where a message would get unreadable.
pub fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text[..end].chars().map(printable).collect::<String>()),
        None => text.chars().map(printable).collect(),
    }
}

/// Implements `Deserialize` for types that are [`Written`].
#[macro_export]
macro_rules! deserialize_written {
    ($($kind:ty),+) => {
        $(impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::settings::written::deserialize(deserializer)
            }
        })+
    };
}

/// The `Deserialize` of a type that is [`Written`].
///
/// # Errors
/// If the value is written in none of its ways.
pub fn deserialize<'de, T: Written<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(WrittenVisitor(PhantomData))
}

impl Scalar<'_> {
    /// Refuses the scalar: "must be ..., not ...".
    ///
    /// # Errors
    /// Always.
    pub fn refuse<'de, T: Written<'de>, E: Error>(self) -> Result<T, E> {
        refuse(match self {
            Self::Bool(value) => Unexpected::Bool(value),
            Self::Integer(number) => return refuse(Unexpected::Other(&format!("the number `{number}`"))),
            Self::Float(number) => Unexpected::Float(number),
            Self::Text(text) => Unexpected::Str(text),
        })
    }
}

/// As it would be typed on the command line.
impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

fn refuse<'de, T: Written<'de>, E: Error>(found: Unexpected<'_>) -> Result<T, E> {
    Err(E::invalid_type(found, &WrittenVisitor::<T>(PhantomData)))
}

struct WrittenVisitor<T>(PhantomData<T>);

impl<'de, T: Written<'de>> Visitor<'de> for WrittenVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&T::expected())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        T::scalar(Scalar::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::scalar(Scalar::Integer(number.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        T::scalar(Scalar::Integer(number.into()))
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<T, E> {
        T::scalar(Scalar::Integer(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        T::scalar(Scalar::Float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::scalar(Scalar::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<T, A::Error> {
        T::list(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<T, A::Error> {
        T::map(entries)
    }
}
