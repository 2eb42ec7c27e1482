//! Measured tables: CSV whose lines with `#` say where they are from.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};

/// A measured table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its file, for errors.
    pub name: String,
    /// Where it is from: its lines `# source: ...`, or its file where it has none.
    pub source: String,
    columns: Vec<String>,
    /// The line of the names of its columns.
    pub(super) head: u64,
    rows: Vec<(u64, Vec<String>)>,
}

/// A fault of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{} {fault}", at.map_or(String::new(), |at| format!("{at}:")))]
pub struct TableError {
    /// Its file.
    pub file: String,
    /// The line.
    pub line: u64,
    /// The first character in the line, from 1; none: all of it.
    pub at: Option<u64>,
    /// What is wrong, and what was expected.
    pub fault: String,
}

impl Table {
    /// Reads a table; `name` is for errors.
    ///
    /// # Errors
    /// When it is no CSV.
    pub fn read(name: &str, mut input: impl Read) -> Result<Self, TableError> {
        let unreadable = |line, why: String| {
            let fault =
                format!("{why}: a table is CSV with one line of column names; lines with `#` are notes");
            TableError { file: name.to_owned(), line, at: None, fault }
        };
        let (mut bytes, mut rows) = (Vec::new(), Vec::new());
        input.read_to_end(&mut bytes).map_err(|error| unreadable(1, error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64;
            unreadable(line, "it is not UTF-8".to_owned())
        })?;
        let sources = text.lines().filter_map(|line| line.strip_prefix("# source:"));
        let source = match sources.map(str::trim).collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => name.to_owned(),
            sources => sources,
        };
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let broken = |error: csv::Error| {
            let line = error.position().map_or(1, csv::Position::line);
            match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    unreadable(line, format!("it has {len} of {expected_len} cells"))
                }
                _ => unreadable(line, error.to_string()),
            }
        };
        let columns = reader.headers().map_err(broken)?;
        let head = columns.position().map_or(1, csv::Position::line);
        let columns = columns.iter().map(str::to_owned).collect();
        for record in reader.records() {
            let record = record.map_err(broken)?;
            let line = record.position().map_or(0, csv::Position::line);
            rows.push((line, record.iter().map(str::to_owned).collect()));
        }
        Ok(Self { name: name.to_owned(), source, columns, head, rows })
    }

    /// Reads a table that was packed by gzip.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn packed(name: &str, bytes: &[u8]) -> Result<Self, TableError> {
        Self::read(name, MultiGzDecoder::new(bytes))
    }

    /// Its columns, in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Its rows.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, cells)| Row { table: self, line: *line, cells })
    }
}

/// A row of a table.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    table: &'a Table,
    line: u64,
    cells: &'a [String],
}

impl<'a> Row<'a> {
    /// Its line in the table.
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// The cell of a column that the table has; empty for others.
    pub fn text(&self, column: &str) -> &'a str {
        let at = self.table.columns.iter().position(|name| name == column);
        at.and_then(|at| self.cells.get(at)).map_or("", String::as_str)
    }

    /// A positive whole number.
    pub(super) fn count(&self, column: &str) -> Result<u64, TableError> {
        let cell = self.text(column);
        cell.parse()
            .ok()
            .filter(|&count| count > 0)
            .ok_or_else(|| self.wrong(column, "a whole number from 1"))
    }

    /// A whole number.
    pub(super) fn whole(&self, column: &str) -> Result<u64, TableError> {
        self.text(column).parse().map_err(|_| self.wrong(column, "a whole number"))
    }

    /// One of the names of a type.
    pub(super) fn named<T: DeserializeOwned>(&self, column: &str) -> Result<T, TableError> {
        let name: StrDeserializer<'_, serde::de::value::Error> = self.text(column).into_deserializer();
        T::deserialize(name).map_err(|_| self.wrong(column, "one of the names that records have"))
    }

    /// A positive number, not under `least`.
    pub(super) fn positive(&self, column: &str, least: f64) -> Result<f64, TableError> {
        let number: Option<f64> = self.text(column).parse().ok().filter(|number: &f64| number.is_finite());
        match number {
            Some(number) if number >= least => Ok(number),
            Some(number) if number > 0.0 => Err(self.wrong(column, "a picosecond or more")),
            _ => Err(self.wrong(column, "a number above 0")),
        }
    }

    /// First character of the cell of a column in its line, from 1.
    pub fn start(&self, column: &str) -> u64 {
        let before = self.table.columns.iter().zip(self.cells).take_while(|(name, _)| *name != column);
        1 + before.map(|(_, cell)| 1 + written(cell)).sum::<u64>()
    }

    fn wrong(&self, column: &str, expected: &'static str) -> TableError {
        let at = self.start(column);
        let fault = format!("{column} is `{}`: expected {expected}", self.text(column));
        TableError { file: self.table.name.clone(), line: self.line, at: Some(at), fault }
    }
}

/// Characters of a cell as it is written: in quotation marks where it holds what would end it.
fn written(cell: &str) -> u64 {
    let marks = cell.matches('"').count();
    let quoted = if marks > 0 || cell.contains([',', '\n', '\r']) { 2 + marks } else { 0 };
    (cell.chars().count() + quoted) as u64
}
