//! Measured tables: CSV whose lines with `#` say where they are from.

use std::io::Read;

/// A measured table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its file, for errors.
    pub name: String,
    /// Where it is from: its lines `# source: ...`.
    pub source: String,
    columns: Vec<String>,
    rows: Vec<(u64, Vec<String>)>,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It cannot be read as CSV.
    #[error("{file}: {why}: a table is CSV with one line of column names; lines with `#` are notes")]
    Unreadable {
        /// Its file.
        file: String,
        /// What the reader says.
        why: String,
    },
    /// Its columns are those of no known table.
    #[error("{file}: no table of kernels has the columns {columns}; known are: {known}")]
    UnknownColumns {
        /// Its file.
        file: String,
        /// Its columns.
        columns: String,
        /// The columns of the known ones.
        known: String,
    },
    /// A cell holds no number.
    #[error("{file}:{line}: {column} is `{cell}`: expected {expected}")]
    NoNumber {
        /// Its file.
        file: String,
        /// Its line.
        line: u64,
        /// The column.
        column: String,
        /// What is there.
        cell: String,
        /// What should be.
        expected: &'static str,
    },
}

impl Table {
    /// Reads a table; `name` is for errors.
    ///
    /// # Errors
    /// When it is no CSV.
    pub fn read(name: &str, mut input: impl Read) -> Result<Self, TableError> {
        let unreadable = |why: String| TableError::Unreadable { file: name.to_owned(), why };
        let mut text = String::new();
        input.read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
        let sources = text.lines().filter_map(|line| line.strip_prefix("# source:"));
        let source = sources.map(str::trim).collect::<Vec<_>>().join("; ");
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let columns = reader.headers().map_err(|error| unreadable(error.to_string()))?;
        let columns = columns.iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| unreadable(error.to_string()))?;
            let line = record.position().map_or(0, csv::Position::line);
            rows.push((line, record.iter().map(str::to_owned).collect()));
        }
        Ok(Self { name: name.to_owned(), source, columns, rows })
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

    /// A positive number.
    pub(super) fn positive(&self, column: &str) -> Result<f64, TableError> {
        let number =
            self.text(column).parse().ok().filter(|&number: &f64| number > 0.0 && number.is_finite());
        number.ok_or_else(|| self.wrong(column, "a number above 0"))
    }

    fn wrong(&self, column: &str, expected: &'static str) -> TableError {
        TableError::NoNumber {
            file: self.table.name.clone(),
            line: self.line,
            column: column.to_owned(),
            cell: self.text(column).to_owned(),
            expected,
        }
    }
}
