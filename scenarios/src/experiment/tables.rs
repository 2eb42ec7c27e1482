//! The tables that techniques name: read once, when the scenario is.

use std::collections::BTreeMap;
use std::sync::Arc;

use workloads::diagnostic::Diagnostic;

use super::files::{self, Files};
use super::layers::Layers;
use super::paths;
use crate::text::node::{Node, shorten};
use crate::text::source::{Mark, SourceId, Sources};

/// A row of a table that a setting names.
pub(super) trait TableRow: Sized {
    /// Path of the setting.
    const FILE: &'static str;
    /// Columns that are read, of which the first ones must be there.
    const COLUMNS: &'static [&'static str];
    const REQUIRED: usize;
    /// Columns that are there for people.
    const BESIDE: &'static [&'static str];
    /// Remedies for a file that does not begin with its columns, that is too long, that has no row.
    const BEGIN: &'static str;
    const SHORTEN: &'static str;
    const ADD: &'static str;

    /// The row of the texts of its columns. `None`: it says nothing yet.
    ///
    /// # Errors
    /// Fault and remedy.
    fn of(line: u64, cells: &[&str]) -> Result<Option<Self>, [String; 2]>;
}

/// Tables by the text that names them and the source of that text.
#[derive(Clone, Debug)]
pub(super) struct Tables<R>(BTreeMap<(SourceId, String), Understood<R>>);

/// Rows, or all that is wrong with their file.
type Understood<R> = Result<Arc<Vec<R>>, Vec<Diagnostic>>;

/// The most files, and the longest of them (bytes).
const MAX_FILES: usize = 100;
const MAX_BYTES: usize = 4 << 20;

impl<R> Default for Tables<R> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R: TableRow> Tables<R> {
    /// Reads the files that any layer names.
    pub(super) fn read(files: &dyn Files, layers: &Layers, sources: &mut Sources) -> Self {
        let technique = R::FILE.rsplit_once('.').map_or(R::FILE, |(technique, _)| technique);
        let about = ["techniques", technique, R::FILE];
        let named: Vec<_> = layers.saying(&about).filter_map(|node| file::<R>(&node)).collect();
        let mut tables = Self::default();
        for (source, text) in named {
            if tables.0.len() < MAX_FILES && !tables.0.contains_key(&(source, text.clone())) {
                let path = files::relative(&sources.get(source).name.clone(), &text);
                tables.0.insert((source, text), read(files, &path, sources).map(Arc::new));
            }
        }
        tables
    }

    /// The rows of the file called `path` by the text at `mark`.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn get(&self, mark: Mark, path: &str) -> Result<Arc<Vec<R>>, Vec<Diagnostic>> {
        let known = self.0.get(&(mark.source, path.to_owned()));
        known.map_or_else(
            || {
                let message = format!("the experiment names more than {MAX_FILES} tables");
                Err(vec![fault::<R>(message, "name fewer")])
            },
            |known| match known {
                Ok(rows) => Ok(Arc::clone(rows)),
                Err(found) => Err(found.clone()),
            },
        )
    }
}

/// The text of the setting, where a layer has it.
fn file<R: TableRow>(settings: &Node) -> Option<(SourceId, String)> {
    let node = settings.at(&paths::keys(R::FILE))?;
    Some((node.mark.source, node.as_text()?.to_owned()))
}

fn fault<R: TableRow>(message: impl Into<String>, remedy: impl Into<String>) -> Diagnostic {
    Diagnostic::new(R::FILE, message, remedy)
}

fn read<R: TableRow>(
    files: &dyn Files,
    path: &str,
    sources: &mut Sources,
) -> Result<Vec<R>, Vec<Diagnostic>> {
    let shown = shorten(path);
    let bytes = files.read(path).map_err(|reason| {
        let remedy = "name a file of comma-separated values, relative to the file that names it";
        vec![fault::<R>(format!("cannot read `{shown}`: {reason}"), remedy)]
    })?;
    if bytes.len() > MAX_BYTES {
        let message = format!("`{shown}` is longer than {} MiB", MAX_BYTES >> 20);
        return Err(vec![fault::<R>(message, R::SHORTEN)]);
    }
    // As a source it has a part in the digest of the experiment.
    sources.add(path, String::from_utf8_lossy(&bytes));
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(&*bytes);
    let no_table = |error: csv::Error| fault::<R>(format!("`{shown}` is no table: {error}"), R::BEGIN);
    let header = reader.headers().map_err(|error| vec![no_table(error)])?.clone();
    let at =
        |line: u64, [message, remedy]: [String; 2]| fault::<R>(format!("{shown}:{line}: {message}"), remedy);
    let columns = columns::<R>(&header).map_err(|found| vec![at(1, found)])?;
    let row = |record: csv::Result<csv::StringRecord>| {
        let record = record.map_err(no_table)?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() > header.len() {
            let message = format!("{} cells in {} columns", record.len(), header.len());
            return Err(at(line, [message, "quote cells with commas".to_owned()]));
        }
        let cell = |place: &Option<usize>| place.and_then(|place| record.get(place)).unwrap_or_default();
        let cells: Vec<&str> = columns.iter().map(cell).collect();
        R::of(line, &cells).map_err(|found| at(line, found))
    };
    let (rows, wrong): (Vec<_>, Vec<_>) = reader.records().map(row).partition(Result::is_ok);
    let wrong: Vec<Diagnostic> = wrong.into_iter().filter_map(Result::err).collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let rows: Vec<R> = rows.into_iter().filter_map(Result::ok).flatten().collect();
    if rows.is_empty() {
        return Err(vec![fault::<R>(format!("`{shown}` has no row"), R::ADD)]);
    }
    Ok(rows)
}

/// Places of the columns.
fn columns<R: TableRow>(header: &csv::StringRecord) -> Result<Vec<Option<usize>>, [String; 2]> {
    let all = || R::COLUMNS.iter().chain(R::BESIDE);
    if let Some(other) = header.iter().find(|name| !all().any(|known| known == name)) {
        let known = all().copied().collect::<Vec<_>>().join(", ");
        return Err([format!("there is no column `{}`", shorten(other)), format!("columns are {known}")]);
    }
    let place = |name: &&str| header.iter().position(|other| other == *name);
    let columns: Vec<Option<usize>> = R::COLUMNS.iter().map(place).collect();
    if columns[..R::REQUIRED].iter().any(Option::is_none) {
        let required = R::COLUMNS[..R::REQUIRED].iter().map(|name| format!("`{name}`"));
        let required = required.collect::<Vec<_>>().join(" or ");
        return Err([format!("it lacks the column {required}"), R::BEGIN.to_owned()]);
    }
    Ok(columns)
}
