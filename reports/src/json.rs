//! JSON for programs: `results.json`, and every other document that is written whole.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

/// Writes `document` as indented JSON with a final line break.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &value(document)?)?;
    writeln!(out)
}

/// Gives the JSON of `document`, in which what has no meaning is absent, never null.
///
/// # Errors
/// Where a map has keys that are no text.
pub fn value(document: &impl Serialize) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(document)?;
    omit_absent(&mut value);
    Ok(value)
}

/// Removes entries of maps that are null, as options without a value are, and NaN and infinity.
pub fn omit_absent(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, entry| !entry.is_null());
            map.values_mut().for_each(omit_absent);
        }
        Value::Array(items) => items.iter_mut().for_each(omit_absent),
        _ => {}
    }
}

/// Value of a number that is absent.
pub(crate) fn nan() -> f64 {
    f64::NAN
}
