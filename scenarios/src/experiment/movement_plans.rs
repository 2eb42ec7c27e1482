//! The plan files that scenarios name: read once, when the scenario is.

use std::collections::BTreeMap;
use std::sync::Arc;

use workloads::diagnostic::Diagnostic;
use workloads::passes::movement_plan::{FILE, Listed, Row};

use super::files::{self, Files};
use super::layers::Layers;
use super::paths;
use crate::text::node::{Node, shorten};
use crate::text::source::{Mark, SourceId, Sources};

/// Rows, or all that is wrong with their file.
type Understood = Result<Arc<Vec<Row>>, Vec<Diagnostic>>;

/// Files by the text that names it and the source of that text.
#[derive(Clone, Debug, Default)]
pub(super) struct MovementPlans(BTreeMap<(SourceId, String), Understood>);

/// Settings that say which plan is followed.
const ABOUT: [&str; 3] = ["techniques", "techniques.movement_plan", FILE];
/// Remedy for a file that does not begin with the columns of a row.
const BEGIN: &str = "begin with `tensor,tier,out,wait,in`";
/// The most files, and the longest of them (bytes).
const MAX_FILES: usize = 100;
const MAX_BYTES: usize = 4 << 20;

impl MovementPlans {
    /// Reads the files that any layer names.
    pub(super) fn read(files: &dyn Files, layers: &Layers, sources: &mut Sources) -> Self {
        let named: Vec<_> = layers.saying(&ABOUT).filter_map(|node| file(&node)).collect();
        let mut plans = Self::default();
        for (source, text) in named {
            if plans.0.len() < MAX_FILES && !plans.0.contains_key(&(source, text.clone())) {
                let path = files::relative(&sources.get(source).name.clone(), &text);
                plans.0.insert((source, text), read(files, &path, sources).map(Arc::new));
            }
        }
        plans
    }

    /// The rows of the file called `path` by the text at `mark`.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn get(&self, mark: Mark, path: &str) -> Understood {
        let too_many = || {
            let message = format!("the experiment names more than {MAX_FILES} plans");
            Err(vec![fault(message, "name fewer")])
        };
        self.0.get(&(mark.source, path.to_owned())).cloned().unwrap_or_else(too_many)
    }
}

/// The text of the setting, where a layer has it.
fn file(settings: &Node) -> Option<(SourceId, String)> {
    let node = settings.at(&paths::keys(FILE))?;
    Some((node.mark.source, node.as_text()?.to_owned()))
}

fn fault(message: impl Into<String>, remedy: impl Into<String>) -> Diagnostic {
    Diagnostic::new(FILE, message, remedy)
}

fn read(files: &dyn Files, path: &str, sources: &mut Sources) -> Result<Vec<Row>, Vec<Diagnostic>> {
    let shown = shorten(path);
    let bytes = files.read(path).map_err(|reason| {
        let remedy = "name a file of comma-separated values, relative to the file that names it";
        vec![fault(format!("cannot read `{shown}`: {reason}"), remedy)]
    })?;
    if bytes.len() > MAX_BYTES {
        let message = format!("`{shown}` is longer than {} MiB", MAX_BYTES >> 20);
        return Err(vec![fault(message, "use patterns: `layers.*`")]);
    }
    // As a source it has a part in the digest of the experiment.
    sources.add(path, String::from_utf8_lossy(&bytes));
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(&*bytes);
    let no_table = |error: csv::Error| fault(format!("`{shown}` is no table: {error}"), BEGIN);
    let header = reader.headers().map_err(|error| vec![no_table(error)])?.clone();
    let at = |line: u64, [message, remedy]: [String; 2]| fault(format!("{shown}:{line}: {message}"), remedy);
    let columns = columns(&header).map_err(|found| vec![at(1, found)])?;
    let row = |record: csv::Result<csv::StringRecord>| {
        let record = record.map_err(no_table)?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() > header.len() {
            let message = format!("{} cells in {} columns", record.len(), header.len());
            return Err(at(line, [message, "quote cells with commas".to_owned()]));
        }
        let cell = |place: Option<usize>| place.and_then(|place| record.get(place)).unwrap_or_default();
        Row::of(line, columns.map(cell)).map_err(|found| at(line, found))
    };
    let (rows, wrong): (Vec<_>, Vec<_>) = reader.records().map(row).partition(Result::is_ok);
    let wrong: Vec<Diagnostic> = wrong.into_iter().filter_map(Result::err).collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let rows: Vec<Row> = rows.into_iter().filter_map(Result::ok).collect();
    if rows.is_empty() {
        return Err(vec![fault(format!("`{shown}` has no row"), "add one, such as `layers.*,host`")]);
    }
    Ok(rows)
}

/// Places of the columns.
fn columns(header: &csv::StringRecord) -> Result<[Option<usize>; 5], [String; 2]> {
    let all = || Row::COLUMNS.into_iter().chain(Listed::COLUMNS);
    if let Some(other) = header.iter().find(|name| !all().any(|known| known == *name)) {
        let known = all().collect::<Vec<_>>().join(", ");
        return Err([format!("there is no column `{}`", shorten(other)), format!("columns are {known}")]);
    }
    let columns = Row::COLUMNS.map(|name| header.iter().position(|other| other == name));
    match columns {
        [Some(_), Some(_), ..] => Ok(columns),
        _ => Err(["it lacks the column `tensor` or `tier`", BEGIN].map(str::to_owned)),
    }
}
