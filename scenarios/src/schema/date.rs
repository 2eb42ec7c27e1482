//! Days of the calendar, `2026-11-01`.

use std::borrow::Cow;
use std::fmt;

use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::de::Error;
use serde::ser::Serializer;

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// Reads `2026-11-01`. `None`: there is no such day, or it is written otherwise.
    fn parse(text: &str) -> Option<Self> {
        let is_digit_or_dash = |(place, byte): (usize, u8)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        };
        if text.len() != 10 || !text.bytes().enumerate().all(is_digit_or_dash) {
            return None;
        }
        let date = Self {
            year: text[..4].parse().ok()?,
            month: text[5..7].parse().ok()?,
            day: text[8..].parse().ok()?,
        };
        (1..=date.days_of_month()?).contains(&date.day).then_some(date)
    }

    fn days_of_month(self) -> Option<u8> {
        let divides = |years: u16| self.year.is_multiple_of(years);
        let leap = divides(4) && (!divides(100) || divides(400));
        match self.month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
            4 | 6 | 9 | 11 => Some(30),
            2 => Some(if leap { 29 } else { 28 }),
            _ => None,
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

hw_models::deserialize_written!(Date);

impl Written<'_> for Date {
    fn expected() -> String {
        "a day such as `2026-11-01`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        Self::parse(&scalar.to_string()).map_or_else(|| scalar.refuse(), Ok)
    }
}

impl JsonSchema for Date {
    fn schema_name() -> Cow<'static, str> {
        "Date".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A day, year first.",
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
            "examples": ["2026-11-01"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_days_of_the_calendar_are_read() {
        let read = |text: &str| Date::parse(text).map(|date| date.to_string());
        for day in ["2026-11-01", "2024-02-29", "2000-02-29"] {
            assert_eq!(read(day).as_deref(), Some(day));
        }
        for no_day in
            ["2026-02-29", "1900-02-29", "2026-13-01", "2026-1-1", "01.11.2026", "2026-11-00", "äöü-11-01"]
        {
            assert_eq!(read(no_day), None, "{no_day}");
        }
    }
}
