//! Numbers with units, read exactly and printed back as written.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use super::decimal::Decimal;
use super::written::{self, Scalar, Written, shorten};
use crate::catalogue::nearest;

/// A span of time; its value is in picoseconds.
pub type Duration = Quantity<Time>;
/// An amount of memory; its value is in bytes.
pub type Bytes = Quantity<Memory>;
/// Bytes moved per second; its value is in bytes per second.
pub type Rate = Quantity<Transfer>;
/// Cycles per second; its value is in hertz.
pub type Frequency = Quantity<Cycles>;
/// Floating-point operations per second; its value is in FLOP/s.
pub type FlopRate = Quantity<Arithmetic>;
/// Energy per second; its value is in milliwatts.
pub type Power = Quantity<Energy>;
/// A share of a whole, `2 %` or `0.02`; its value is in billionths.
pub type Share = Quantity<Whole>;
/// A factor on a time, `50 %` or `0.5`; its value is in billionths.
pub type Factor = Quantity<Multiple>;

/// A number with a unit of dimension `D`.
#[derive(Clone, Copy)]
pub struct Quantity<D> {
    number: Decimal,
    pub(super) unit: &'static Unit,
    pub(super) value: u64,
    dimension: PhantomData<D>,
}

/// Dimension of a quantity.
pub trait Dimension: Copy + 'static {
    /// The quantity in a sentence: "a duration".
    const NOUN: &'static str;
    /// Name of the type in the schema.
    const NAME: &'static str;
    /// The units, each a whole multiple of the base unit.
    const UNITS: &'static [Unit];
    /// The unit of a bare number, if bare numbers make sense.
    const BARE: Option<&'static Unit>;
    /// A typical quantity.
    const EXAMPLE: &'static str;
    /// The largest quantity, in base units.
    const MOST: u64 = u64::MAX;
}

/// A unit and its size in the dimension's base unit.
#[derive(Debug, PartialEq, Eq)]
pub struct Unit {
    /// As written; case matters.
    pub name: &'static str,
    /// Base units in one of it.
    pub size: u64,
}

pub(super) const fn unit(name: &'static str, size: u64) -> Unit {
    Unit { name, size }
}

/// Time in picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Time;

impl Dimension for Time {
    const NOUN: &'static str = "a duration";
    const NAME: &'static str = "Duration";
    const UNITS: &'static [Unit] = &[
        unit("ps", 1),
        unit("ns", 1_000),
        unit("us", 1_000_000),
        unit("ms", 1_000_000_000),
        unit("s", 1_000_000_000_000),
        unit("min", 60_000_000_000_000),
        unit("h", 3_600_000_000_000_000),
    ];
    const BARE: Option<&'static Unit> = None;
    const EXAMPLE: &'static str = "18.5 ms";
    /// A run ends there.
    const MOST: u64 = sim_core::time::Time::LAST.0;
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

impl Dimension for Memory {
    const NOUN: &'static str = "an amount of memory";
    const NAME: &'static str = "Bytes";
    const UNITS: &'static [Unit] = &[
        unit("B", 1),
        unit("KB", 1_000),
        unit("MB", 1_000_000),
        unit("GB", 1_000_000_000),
        unit("TB", 1_000_000_000_000),
        unit("KiB", 1 << 10),
        unit("MiB", 1 << 20),
        unit("GiB", 1 << 30),
        unit("TiB", 1 << 40),
    ];
    const BARE: Option<&'static Unit> = None;
    const EXAMPLE: &'static str = "3.5 GB";
}

/// Transfer in bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Transfer;

impl Dimension for Transfer {
    const NOUN: &'static str = "a transfer rate";
    const NAME: &'static str = "Rate";
    const UNITS: &'static [Unit] = &[
        unit("B/s", 1),
        unit("KB/s", 1_000),
        unit("MB/s", 1_000_000),
        unit("GB/s", 1_000_000_000),
        unit("TB/s", 1_000_000_000_000),
        unit("KiB/s", 1 << 10),
        unit("MiB/s", 1 << 20),
        unit("GiB/s", 1 << 30),
        unit("TiB/s", 1 << 40),
        unit("Mb/s", 125_000),
        unit("Gb/s", 125_000_000),
        unit("Tb/s", 125_000_000_000),
    ];
    const BARE: Option<&'static Unit> = None;
    const EXAMPLE: &'static str = "200 GB/s";
}

/// Cycles in hertz.
#[derive(Clone, Copy, Debug)]
pub struct Cycles;

impl Dimension for Cycles {
    const NOUN: &'static str = "a frequency";
    const NAME: &'static str = "Frequency";
    const UNITS: &'static [Unit] =
        &[unit("Hz", 1), unit("kHz", 1_000), unit("MHz", 1_000_000), unit("GHz", 1_000_000_000)];
    const BARE: Option<&'static Unit> = None;
    const EXAMPLE: &'static str = "1410 MHz";
}

/// Arithmetic in floating-point operations per second.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic;

impl Dimension for Arithmetic {
    const NOUN: &'static str = "a rate of arithmetic";
    const NAME: &'static str = "FlopRate";
    const UNITS: &'static [Unit] = &[
        unit("FLOP/s", 1),
        unit("GFLOP/s", 1_000_000_000),
        unit("TFLOP/s", 1_000_000_000_000),
        unit("PFLOP/s", 1_000_000_000_000_000),
    ];
    const BARE: Option<&'static Unit> = None;
    const EXAMPLE: &'static str = "312 TFLOP/s";
}

/// Energy per second in milliwatts.
#[derive(Clone, Copy, Debug)]
pub struct Energy;

impl Dimension for Energy {
    const NOUN: &'static str = "a power";
    const NAME: &'static str = "Power";
    const UNITS: &'static [Unit] = &[unit("mW", 1), unit("W", 1_000), unit("kW", 1_000_000)];
    const BARE: Option<&'static Unit> = None;
    const EXAMPLE: &'static str = "400 W";
}

/// A share in billionths.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl Dimension for Whole {
    const NOUN: &'static str = "a share";
    const NAME: &'static str = "Share";
    const UNITS: &'static [Unit] = &[unit("%", 10_000_000)];
    const BARE: Option<&'static Unit> = Some(&unit("", 1_000_000_000));
    const EXAMPLE: &'static str = "2 %";
}

/// A multiple of something in billionths.
#[derive(Clone, Copy, Debug)]
pub struct Multiple;

impl Dimension for Multiple {
    const NOUN: &'static str = "a factor";
    const NAME: &'static str = "Factor";
    const UNITS: &'static [Unit] = Whole::UNITS;
    const BARE: Option<&'static Unit> = Whole::BARE;
    const EXAMPLE: &'static str = "50 %";
    /// A thousand times: slower by more is another program.
    const MOST: u64 = 1_000_000_000_000;
}

impl Duration {
    /// The duration in picoseconds.
    pub fn picoseconds(self) -> u64 {
        self.value
    }
}

impl Bytes {
    /// An amount written in bytes.
    pub const fn new_bytes(bytes: u64) -> Self {
        Self { number: Decimal::whole(bytes), unit: &Memory::UNITS[0], value: bytes, dimension: PhantomData }
    }

    /// The amount in bytes.
    pub fn bytes(self) -> u64 {
        self.value
    }
}

impl Rate {
    /// A rate written in bytes per second.
    pub const fn new_bytes_per_second(rate: u64) -> Self {
        Self { number: Decimal::whole(rate), unit: &Transfer::UNITS[0], value: rate, dimension: PhantomData }
    }

    /// The rate in bytes per second.
    pub fn bytes_per_second(self) -> u64 {
        self.value
    }
}

impl Frequency {
    /// The frequency in hertz.
    pub fn hertz(self) -> u64 {
        self.value
    }
}

impl FlopRate {
    /// The rate in FLOP/s.
    pub fn flop_per_second(self) -> u64 {
        self.value
    }
}

impl Power {
    /// The power in milliwatts.
    pub fn milliwatts(self) -> u64 {
        self.value
    }
}

impl Share {
    /// The share as a number, 0.02 for `2 %`.
    pub fn as_f64(self) -> f64 {
        self.value as f64 / 1e9
    }

    /// The share in billionths.
    pub fn billionths(self) -> u64 {
        self.value
    }
}

impl Factor {
    /// The factor as a number, 0.5 for `50 %`.
    pub fn as_f64(self) -> f64 {
        self.value as f64 / 1e9
    }
}

impl<D: Dimension> Quantity<D> {
    /// Reads `18.522 ms`: a decimal number, at most one space, a unit.
    ///
    /// # Errors
    /// What is wrong, to follow the name of the field, and after a line break how to mend it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (number, name) = split(text);
        if let Some(positive) = number.strip_prefix('-') {
            return Err(format!(
                "must not be negative\nwrite `{}{}`, or leave the field out",
                shorten(positive),
                shorten(name)
            ));
        }
        let exponent =
            name.strip_prefix(['e', 'E']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let number = Decimal::parse(number).filter(|_| !exponent).ok_or_else(|| {
            format!("must be {} such as `{}`, not the text `{}`", D::NOUN, D::EXAMPLE, shorten(text))
        })?;
        let name = name.strip_prefix(' ').unwrap_or(name);
        let unit = D::UNITS
            .iter()
            .chain(D::BARE)
            .find(|unit| unit.name == name)
            .ok_or_else(|| unknown_unit::<D>(&number, name))?;
        Self::new(number, unit)
    }

    fn new(number: Decimal, unit: &'static Unit) -> Result<Self, String> {
        let value = number.times(unit.size).filter(|&value| value <= D::MOST).ok_or_else(|| {
            let most = D::MOST / unit.size;
            let told = |number: &dyn fmt::Display| match unit.name {
                "" => number.to_string(),
                name => format!("{number} {name}"),
            };
            format!("is too large: {}\nthe most that can be simulated is {}", told(&number), told(&most))
        })?;
        Ok(Self { number, unit, value, dimension: PhantomData })
    }

    /// A bare number, for dimensions that know what it means.
    fn bare(number: &str) -> Result<Self, String> {
        match D::BARE {
            Some(_) => Self::parse(number),
            None if number.starts_with('-') => {
                Err(format!("must not be negative\nwrite {} such as `{}`", D::NOUN, D::EXAMPLE))
            }
            None => {
                let names = nearest::list(D::UNITS.iter().map(|unit| unit.name));
                Err(format!(
                    "lacks a unit: {}\nwrite {} such as `{}`; the units are {names}",
                    shorten(number),
                    D::NOUN,
                    D::EXAMPLE
                ))
            }
        }
    }

    /// The smallest quantity above zero that can be told apart has value 1; this is the value.
    pub fn is_zero(self) -> bool {
        self.value == 0
    }
}

/// The number in front and the rest: `3.5`, ` GB`.
pub fn split(text: &str) -> (&str, &str) {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    text.split_at(end)
}

fn unknown_unit<D: Dimension>(number: &Decimal, name: &str) -> String {
    if name.is_empty() {
        return Quantity::<D>::bare(&number.to_string()).err().unwrap_or_default();
    }
    let all: Vec<&str> = D::UNITS.iter().map(|unit| unit.name).collect();
    let remedy = match all.iter().find(|unit| unit.eq_ignore_ascii_case(name.trim())) {
        Some(unit) => format!("case and spaces matter, write `{number} {unit}`"),
        None => format!("write {} such as `{}`; the units are {}", D::NOUN, D::EXAMPLE, nearest::list(all)),
    };
    format!("has an unknown unit `{}`\n{remedy}", shorten(name.trim()))
}

/// As written: `18.522 ms`.
impl<D> fmt::Display for Quantity<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit.name {
            "" => write!(f, "{}", self.number),
            name => write!(f, "{} {name}", self.number),
        }
    }
}

impl<D> fmt::Debug for Quantity<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Two quantities are equal when they measure the same, however they are written.
impl<D> PartialEq for Quantity<D> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<D> Eq for Quantity<D> {}

impl<D: Dimension> Serialize for Quantity<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, D: Dimension> Deserialize<'de> for Quantity<D> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        written::deserialize(deserializer)
    }
}

impl<D: Dimension> Written<'_> for Quantity<D> {
    fn expected() -> String {
        format!("{} such as `{}`", D::NOUN, D::EXAMPLE)
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(text) => Self::parse(text).map_err(E::custom),
            Scalar::Float(number) if !number.is_finite() => {
                Err(E::custom(format_args!("must be finite\nwrite {}", Self::expected())))
            }
            Scalar::Integer(_) | Scalar::Float(_) => Self::bare(&scalar.to_string()).map_err(E::custom),
            Scalar::Bool(_) => scalar.refuse(),
        }
    }
}

impl<D: Dimension> JsonSchema for Quantity<D> {
    fn schema_name() -> Cow<'static, str> {
        D::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let units: Vec<&str> = D::UNITS.iter().map(|unit| unit.name).collect();
        let optional = if D::BARE.is_some() { "?" } else { "" };
        let mut schema = json_schema!({
            "description": format!("{}; units: {}.", capitalised(D::NOUN), units.join(", ")),
            "type": "string",
            "pattern": format!("^[0-9]+(\\.[0-9]+)? ?({}){optional}$", units.join("|")),
            "examples": [D::EXAMPLE],
        });
        if D::BARE.is_some() {
            schema.insert("type".to_owned(), vec!["string", "number"].into());
        }
        schema
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly() {
        let ps = |text: &str| Duration::parse(text).map(Duration::picoseconds);
        assert_eq!(ps("18.522 ms"), Ok(18_522_000_000));
        assert_eq!(ps("0.601ms"), Ok(601_000_000));
        assert_eq!(ps("0.1 s"), Ok(100_000_000_000));
        assert_eq!(ps("2500 h"), Ok(9_000_000_000_000_000_000));
        assert_eq!(Bytes::parse("40 GiB").map(Bytes::bytes), Ok(40 << 30));
        assert_eq!(Rate::parse("400 Gb/s").map(Rate::bytes_per_second), Ok(50_000_000_000));
        assert_eq!(Share::parse("2 %").map(|share| share.value), Ok(20_000_000));
        assert_eq!(Share::parse("0.02").map(|share| share.value), Ok(20_000_000));
    }

    #[test]
    fn a_quantity_prints_back_as_it_was_written() {
        for text in ["18.522 ms", "1.50 GB", "0.1 GiB", "7 h"] {
            assert_eq!(
                Bytes::parse(text)
                    .map(|b| b.to_string())
                    .or_else(|_| Duration::parse(text).map(|d| d.to_string())),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn wrong_quantities_are_refused_with_a_remedy() {
        let wrong = |text: &str| Duration::parse(text).expect_err(text);
        assert_eq!(wrong("18 sec").lines().next(), Some("has an unknown unit `sec`"));
        assert!(wrong("18 MS").contains("write `18 ms`"));
        assert!(wrong("18").starts_with("lacks a unit: 18"));
        assert!(wrong("-1 ms").starts_with("must not be negative"));
        assert_eq!(
            wrong("18446744073709551615 ps"),
            "is too large: 18446744073709551615 ps\nthe most that can be simulated is 9223372036854775807 ps"
        );
        assert!(wrong("2600 h").starts_with("is too large"));
        assert!(wrong("ms").starts_with("must be a duration"));
        assert!(wrong("1e400 ms").starts_with("must be a duration"));
        assert!(wrong("1.2.3 ms").starts_with("must be a duration"));
    }
}
