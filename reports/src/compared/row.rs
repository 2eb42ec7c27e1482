//! A figure of two runs.

use serde::Serialize;
use serde::ser::SerializeStruct;

use crate::quantity;

/// Kinds of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time.
    Seconds,
    /// Memory.
    Bytes,
    /// Energy.
    Joules,
    /// A part of a whole, 0 to 1.
    Share,
    /// A plain number.
    Count,
}

/// A figure of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Cause, kind or figure.
    pub what: String,
    /// Its unit.
    pub unit: Unit,
    /// Values of the first and the second run, where they have one.
    pub values: [Option<f64>; 2],
}

impl Unit {
    /// Unit for programs; empty for a plain number.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Joules => "J",
            Unit::Share => "share",
            Unit::Count => "",
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Unit::Seconds => quantity::seconds(value),
            Unit::Bytes => quantity::bytes(value.round() as u64),
            Unit::Joules => quantity::joules(value),
            Unit::Share => quantity::percent(value),
            Unit::Count => quantity::count(value),
        }
    }
}

impl Row {
    pub(super) fn new(what: &str, unit: Unit, values: [Option<f64>; 2]) -> Self {
        Self { what: what.to_owned(), unit, values }
    }

    /// True if a run has a value.
    pub(super) fn is_known(&self) -> bool {
        self.values.iter().any(Option::is_some)
    }

    /// Second value less the first. `None`: one of them is missing.
    pub fn difference(&self) -> Option<f64> {
        self.values[0].zip(self.values[1]).map(|(a, b)| b - a)
    }

    /// Both values as text.
    pub(super) fn texts(&self) -> [String; 2] {
        self.values.map(|value| value.map_or(quantity::NONE.to_owned(), |value| self.unit.text(value)))
    }

    /// `-225 ms`: the difference with its sign; empty where there is none.
    pub(super) fn difference_text(&self) -> String {
        match self.difference() {
            None => String::new(),
            Some(difference) if self.unit == Unit::Share => quantity::points(difference),
            Some(0.0) => "0".to_owned(),
            Some(difference) => {
                format!("{}{}", if difference > 0.0 { "+" } else { "-" }, self.unit.text(difference.abs()))
            }
        }
    }

    /// `-23.4 %`: the difference over the first value; of shares, points.
    pub(super) fn change_text(&self) -> String {
        match (self.unit, self.values) {
            (Unit::Share, _) => self.difference_text(),
            (_, [Some(a), Some(b)]) if a != 0.0 => quantity::change(b / a - 1.0),
            _ => self.difference_text(),
        }
    }
}

impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 5)?;
        row.serialize_field("what", &self.what)?;
        row.serialize_field("unit", self.unit.name())?;
        row.serialize_field("a", &self.values[0])?;
        row.serialize_field("b", &self.values[1])?;
        row.serialize_field("difference", &self.difference())?;
        row.end()
    }
}
