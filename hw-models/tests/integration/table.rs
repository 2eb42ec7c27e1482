//! Recorded tables: CSV whose lines with `#` say where they are from.

use std::collections::BTreeMap;
use std::ops::Index;

/// A row, by the names of its columns.
pub(crate) struct Row(BTreeMap<String, String>);

/// All rows of a table.
pub(crate) fn rows(text: &str) -> Vec<Row> {
    csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_reader(text.as_bytes())
        .deserialize()
        .map(|row| Row(row.expect("a committed table is well-formed")))
        .collect()
}

impl Row {
    pub(crate) fn number(&self, column: &str) -> f64 {
        self[column].parse().unwrap_or_else(|_| panic!("{column}: {} is no number", self[column]))
    }

    pub(crate) fn count(&self, column: &str) -> u64 {
        self.number(column) as u64
    }
}

impl Index<&str> for Row {
    type Output = String;

    fn index(&self, column: &str) -> &String {
        self.0.get(column).unwrap_or_else(|| panic!("no column {column}"))
    }
}
