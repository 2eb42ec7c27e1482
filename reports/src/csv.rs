//! `results.csv`: one row a run, for notebooks and spreadsheets, with the names of `results.json`.
//!
//! Nested maps are flattened with dots (`time_breakdown_s.compute`, `point.training.micro_batch`), lists of words joined
//! with semicolons. Communication goes by its kind (`communication.pipeline message.bytes`). Lists with an entry per rank,
//! device, link or resource stay in `results.json`; of the devices, and of the allocators, the one closest to its
//! capacity is kept.

use std::io::{self, Write};

use indexmap::IndexMap;
use serde_json::Value;

use crate::json;
use crate::summary::{RunSummary, Summary};

/// Writes one row for every run of `summary`, below a row of names.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let mut columns: IndexMap<String, ()> = IndexMap::new();
    let (fitting, failed): (Vec<_>, Vec<_>) = summary.variants.iter().partition(|run| run.fits);
    for run in fitting.into_iter().chain(failed) {
        merge(&mut columns, cells(run)?.into_keys());
    }
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns.keys())?;
    for run in &summary.variants {
        let mut cells = cells(run)?;
        writer.write_record(columns.keys().map(|column| cells.swap_remove(column).unwrap_or_default()))?;
    }
    writer.flush()
}

/// Adds the columns of one more run, each before the one it precedes there, so that rows with different fields share one
/// natural order.
fn merge(columns: &mut IndexMap<String, ()>, names: impl DoubleEndedIterator<Item = String>) {
    let mut before = columns.len();
    for name in names.rev() {
        match columns.get_index_of(&name) {
            Some(index) => before = index,
            None => {
                columns.shift_insert(before, name, ());
            }
        }
    }
}

/// The cells of one row by column.
fn cells(run: &RunSummary) -> io::Result<IndexMap<String, String>> {
    let mut cells = IndexMap::new();
    let Value::Object(fields) = json::value(run)? else { return Ok(cells) };
    for (name, value) in fields {
        match (name.as_str(), run.worst_device()) {
            ("peak_memory_bytes", Some(worst)) => {
                cells.insert(name, worst.peak_bytes.to_string());
                cells.insert("peak_memory_device".to_owned(), worst.device.clone());
            }
            ("allocator", _) => {
                let fullest = run.fullest_allocator().map(json::value).transpose()?;
                flatten(&name, fullest.unwrap_or_default(), &mut cells);
            }
            ("communication", _) => flatten(&name, by_kind(value), &mut cells),
            _ => flatten(&name, value, &mut cells),
        }
    }
    Ok(cells)
}

/// A list of things that have a kind as a map from kind to what else they have.
fn by_kind(value: Value) -> Value {
    let Value::Array(things) = value else { return value };
    let entry = |mut thing: Value| {
        let kind = thing.as_object_mut()?.shift_remove("kind")?;
        Some((kind.as_str()?.to_owned(), thing))
    };
    Value::Object(things.into_iter().filter_map(entry).collect())
}

fn flatten(name: &str, value: Value, cells: &mut IndexMap<String, String>) {
    let text = match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(&format!("{name}.{key}"), value, cells);
            }
            return;
        }
        Value::Array(values) => {
            let words: Option<Vec<_>> = values.into_iter().map(word).collect();
            let Some(words) = words else { return };
            words.join("; ")
        }
        Value::String(text) => text,
        other => other.to_string(),
    };
    cells.insert(name.to_owned(), text);
}

fn word(value: Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word),
        _ => None,
    }
}
