//! A set of one's own: a file as those of `validation/`, with tables of measured steps, kernels,
//! collectives or copies.
//!
//! Problems of the file, the tables and the scenarios of rows are found before the first run. To rows
//! of one's own nothing is fitted, so that all of them judge what a simulation takes.

mod steps;

use std::io::Read;

use calibration::{Table, TableError};
use hw_models::catalogue::nearest;
use indexmap::IndexMap;
use reports::validation::Validation;

use super::set::{Measurements, Set};
use super::settings::Fault;
use super::{Judged, Options, cells, collectives, copies, kernels, result};
use crate::catalogue;
use crate::experiment::{Files, beginning};
use crate::run::Progress;
use crate::schema::document;
use crate::schema::shape::Shape;
use crate::text::decode::decode;
use crate::text::node::{Node, Value, shorten};
use crate::text::problem::{Failure, Problem};
use crate::text::source::{Mark, SourceId, Sources};
use crate::text::yaml;
use steps::{OwnSteps, unknown_settings};

/// Longest table.
const TABLE_MAX: usize = 64 << 20;
/// Name of the set in messages.
const SET: &str = "set";
/// Places of a set that name columns of its tables; `*` stands for each of several.
const COLUMNS: &[&[&str]] = &[
    &["explanations", "*", "rows"],
    &["measurements", "steps", "part"],
    &["measurements", "steps", "measured", "column"],
    &["measurements", "steps", "also", "*", "column"],
    &["measurements", "steps", "outcomes"],
    &["measurements", "steps", "settings", "*", "column"],
    &["measurements", "steps", "settings", "*", "and"],
    &["measurements", "steps", "left_out", "*", "column"],
    &["measurements", "steps", "one_of", "columns"],
    &["measurements", "steps", "families"],
    &["measurements", "steps", "alike"],
    &["measurements", "steps", "same_work", "columns"],
    &["measurements", "steps", "same_work", "batch"],
    &["measurements", "steps", "same_work", "data_ranks"],
    &["measurements", "steps", "same_work", "micro_batch"],
];
/// Places of a table in a set of several that name columns of this table.
const COLUMNS_OF_TABLE: &[&[&str]] = &[
    &["ranks"],
    &["bytes"],
    &["time_us"],
    &["gb_per_s"],
    &["of"],
    &["inputs"],
    &["left_out", "*", "column"],
    &["node", "column"],
    &["kind", "column"],
    &["machine", "column"],
    &["copies", "column"],
];

/// A set with its tables.
pub struct OwnSet<'f> {
    name: String,
    set: Set,
    tree: Node,
    tables: Vec<Written>,
    sources: Sources,
    files: &'f (dyn Files + Sync),
}

/// A table as it is written.
struct Written {
    table: Table,
    /// Its text.
    source: SourceId,
    /// Path of what describes it in the set.
    path: Vec<String>,
}

impl<'f> OwnSet<'f> {
    /// Reads the set at `path`, and its tables in `folder`.
    ///
    /// # Errors
    /// Every problem of both, located.
    pub fn read(files: &'f (dyn Files + Sync), path: &str, folder: &str) -> Result<Self, Failure> {
        let mut sources = Sources::default();
        let mut problems = Vec::new();
        let tree = tree(files, path, &mut sources, &mut problems);
        let set = tree.as_ref().and_then(|tree| typed(tree, &mut problems));
        let (Some(tree), Some(set)) = (tree, set.filter(|_| problems.is_empty())) else {
            return Err(Failure::new(sources, problems));
        };
        let mut tables = Vec::new();
        for (path, named) in named_tables(&set, &tree) {
            match table(files, folder, named, &mut sources) {
                Ok((table, source)) => tables.push(Written { table, source, path }),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() && tables.is_empty() {
            let mark = tree.at(&["measurements"]).map_or(tree.mark, Node::beginning);
            problems.push(Problem::new(mark, "the set names no table").help("list a CSV file"));
        }
        if problems.is_empty() {
            problems = unknown_columns(&tree, &tables);
            problems.extend(unknown_settings(&tree));
        }
        if !problems.is_empty() {
            return Err(Failure::new(sources, problems));
        }
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let own = Self { name, set, tree, tables, sources, files };
        own.check_rows()?;
        Ok(own)
    }

    /// Judges the set. None if `progress` stopped it.
    pub fn validate(&self, options: &Options, progress: &dyn Progress) -> Option<Validation> {
        let found = match self.own_steps() {
            Some(steps) => steps.validate(options, progress)?,
            None => {
                let sources = self.tables.iter().map(|written| written.table.source.clone()).collect();
                result(&self.name, &self.set, (sources, None), self.judged())
            }
        };
        Some(Validation::new(options.version.clone(), options.reproduce.clone(), vec![found]))
    }

    /// The set as one of steps.
    fn own_steps(&self) -> Option<OwnSteps<'_>> {
        let steps = self.set.steps()?;
        Some(OwnSteps { own: self, steps, written: self.tables.first()? })
    }

    /// Rows that become no scenarios.
    fn judged(&self) -> Vec<Judged> {
        let tables = || self.tables.iter().map(|written| &written.table);
        match &self.set.measurements {
            Measurements::Kernels(_) => {
                let tables: Vec<Table> = tables().cloned().collect();
                kernels::simulated(&tables).unwrap_or_default()
            }
            Measurements::Collectives(all) => {
                all.iter().zip(tables()).flat_map(|(of, table)| collectives::simulated(of, table)).collect()
            }
            Measurements::Copies(all) => {
                all.iter().zip(tables()).flat_map(|(of, table)| copies::judged(of, table)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Refuses rows that are no scenarios, or no measurements that can be predicted. A problem that
    /// several rows share is told once.
    fn check_rows(&self) -> Result<(), Failure> {
        let problems: Vec<Problem> = match &self.set.measurements {
            Measurements::Kernels(_) => self.tables.iter().flat_map(faulty_kernels).collect(),
            Measurements::Collectives(all) => {
                let faulty = all.iter().zip(&self.tables);
                faulty
                    .flat_map(|(of, written)| self.faulty(written, |cells| collectives::fault(of, cells)))
                    .collect()
            }
            Measurements::Copies(all) => {
                let faulty = all.iter().zip(&self.tables);
                faulty
                    .flat_map(|(of, written)| self.faulty(written, |cells| copies::fault(of, cells)))
                    .collect()
            }
            _ => return self.own_steps().map_or(Ok(()), |steps| steps.check_rows()),
        };
        let problems = together(problems);
        if problems.is_empty() { Ok(()) } else { Err(Failure::new(self.sources.clone(), problems)) }
    }

    /// Faults of the rows of a table, each at its cell, or at the setting that is one for all rows.
    fn faulty(
        &self,
        written: &Written,
        fault: impl Fn(&IndexMap<String, String>) -> Option<Fault>,
    ) -> Vec<Problem> {
        let described = self.tree.at(&written.path).expect("the table was found by it");
        let problem = |row: calibration::Row<'_>| {
            let Fault { setting, reason } = fault(&cells(written.table.columns(), &row))?;
            let named = described.child(setting);
            let column = named.and_then(|named| match &named.value {
                Value::Map(_) => named.child("column")?.as_text(),
                Value::Text(column) => Some(column.as_str()),
                _ => None,
            });
            let column = column.filter(|column| written.table.columns().iter().any(|name| name == column));
            let cell = |column| written.source.at(row.line() as u32, row.start(column) as u32);
            let mark = column.map_or(named.unwrap_or(described).mark, cell);
            Some(Problem::new(mark, reason).help("correct it, or leave such rows out of the table"))
        };
        written.table.rows().filter_map(problem).collect()
    }
}

/// Problems of a table of kernels: a form that is not known, cells that are no numbers, GPUs that the
/// catalogue lacks.
fn faulty_kernels(written: &Written) -> Vec<Problem> {
    let Written { table, source, .. } = written;
    let measured = match calibration::measured(std::slice::from_ref(table)) {
        Ok(measured) => measured,
        Err(errors) => return errors.into_iter().map(|error| wrong(*source, error)).collect(),
    };
    let row = |line: u64| table.rows().find(|row| row.line() == line);
    let unknown = |of: &calibration::Measured| {
        let reason = catalogue::kernels_of(&of.device).err()?;
        let line = of.samples.first()?.line;
        let column = row(line).map_or(1, |row| row.start("gpu"));
        let mark = source.at(line as u32, column as u32);
        Some(Problem::new(mark, reason).help("`foretrain list machines` names the GPUs of the catalogue"))
    };
    if measured.is_empty() {
        let help = "use the columns of another form of tables";
        return vec![Problem::new(source.start(), kernels::UNREAD).help(help)];
    }
    measured.iter().filter_map(unknown).collect()
}

/// Problems of rows, each message once, with the number of rows that have it.
fn together(problems: impl IntoIterator<Item = Problem>) -> Vec<Problem> {
    let mut all: IndexMap<String, (Problem, usize)> = IndexMap::new();
    for problem in problems {
        let (_, rows) = all.entry(problem.message.clone()).or_insert_with(|| (problem, 0));
        *rows += 1;
    }
    let told = |(problem, rows): (Problem, usize)| match rows {
        1 => problem,
        rows => Problem { message: format!("{} ({rows} rows)", problem.message), ..problem },
    };
    all.into_values().map(told).collect()
}

/// The tree of the file at `path`.
fn tree(files: &dyn Files, path: &str, sources: &mut Sources, problems: &mut Vec<Problem>) -> Option<Node> {
    let read = files.read(path).and_then(|bytes| match bytes.len() > yaml::MAX_BYTES {
        true => Err(format!("it is longer than {} KiB", yaml::MAX_BYTES >> 10)),
        false => String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned()),
    });
    match read {
        Ok(text) => {
            let source = sources.add(path, text);
            yaml::parse(sources, source, problems)
        }
        Err(reason) => {
            let start = sources.add(path, "").start();
            let help =
                "name the YAML file of a set; `foretrain list validations` lists those that are always there";
            problems
                .push(Problem::new(start, format!("cannot read `{}`: {reason}", shorten(path))).help(help));
            None
        }
    }
}

/// The set of a tree, one whose rows can be one's own.
fn typed(tree: &Node, problems: &mut Vec<Problem>) -> Option<Set> {
    let schema = document::of::<Set>();
    let set: Set = decode(tree, Shape::of(&schema), SET, problems)?.value;
    if kind_of(&set.measurements).is_none() {
        let mark = tree.at(&["measurements"]).map_or(tree.mark, Node::beginning);
        let message = "a set of one's own has `steps`, `kernels`, `collectives` or `copies`; others are \
                       judged by the catalogue's tables";
        problems.push(Problem::new(mark, message).help("write `measurements: { steps: ... }`"));
        return None;
    }
    Some(set)
}

/// Key of measurements that can be one's own.
const fn kind_of(measurements: &Measurements) -> Option<&'static str> {
    match measurements {
        Measurements::Steps(_) => Some("steps"),
        Measurements::Kernels(_) => Some("kernels"),
        Measurements::Collectives(_) => Some("collectives"),
        Measurements::Copies(_) => Some("copies"),
        _ => None,
    }
}

/// Names of tables in a set, with the path of what describes each.
fn named_tables<'t>(set: &Set, tree: &'t Node) -> Vec<(Vec<String>, &'t Node)> {
    let Some(kind) = kind_of(&set.measurements) else { return Vec::new() };
    let path = vec!["measurements".to_owned(), kind.to_owned()];
    let Some(described) = tree.at(&path) else { return Vec::new() };
    let named = |path: Vec<String>, node: &'t Node| (path, node.child("data").unwrap_or(node));
    match &described.value {
        Value::List(items) => {
            let each = items.iter().enumerate();
            each.map(|(index, item)| named([&path[..], &[index.to_string()]].concat(), item)).collect()
        }
        _ => vec![named(path, described)],
    }
}

/// The table that a set names, and its text.
fn table(
    files: &dyn Files,
    folder: &str,
    named: &Node,
    sources: &mut Sources,
) -> Result<(Table, SourceId), Problem> {
    let name = named.as_text().unwrap_or_default();
    let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let unreadable = |reason: String| {
        Problem::new(named.mark, format!("cannot read `{}`: {reason}", shorten(&path)))
            .help("name a CSV file in the folder of `--data`")
    };
    let bytes = files
        .open(&path)
        .and_then(|stream| beginning(stream as Box<dyn Read>, TABLE_MAX).map_err(|error| error.to_string()));
    let bytes = bytes.map_err(unreadable)?;
    if bytes.len() > TABLE_MAX {
        return Err(unreadable(format!("it is longer than {} MiB", TABLE_MAX >> 20)));
    }
    let source = sources.add(&path, String::from_utf8_lossy(&bytes));
    let table = Table::read(&path, &*bytes).map_err(|error| wrong(source, error))?;
    if table.rows().next().is_none() {
        let problem = Problem::new(source.start(), "the table has no rows");
        return Err(problem.help("add a line for each measured run"));
    }
    Ok((table, source))
}

/// A problem of a table, where it stands.
fn wrong(source: SourceId, TableError { line, at, fault, .. }: TableError) -> Problem {
    Problem::new(source.at(line as u32, at.unwrap_or(1) as u32), fault)
}

/// Names of columns that tables lack, where the set has them.
fn unknown_columns(tree: &Node, tables: &[Written]) -> Vec<Problem> {
    let of_table = |Written { table, path, .. }: &Written| {
        let mut named = Vec::new();
        // A set of steps describes one table.
        match path.len() {
            2 => COLUMNS.iter().for_each(|path| columns(tree, path, &mut named)),
            _ => {
                let described = tree.at(path).expect("the table was found by it");
                COLUMNS_OF_TABLE.iter().for_each(|path| columns(described, path, &mut named));
            }
        }
        unknown(&named, table)
    };
    tables.iter().flat_map(of_table).collect()
}

/// Problems of names that are no columns of a table.
fn unknown(named: &[(&str, Mark)], table: &Table) -> Vec<Problem> {
    let known: Vec<&str> = table.columns().iter().map(String::as_str).collect();
    let unknown = named.iter().filter(|(column, _)| !known.contains(column));
    let problem = |(column, mark): &(&str, Mark)| {
        Problem::new(*mark, format!("`{}` has no column `{}`", table.name, shorten(column)))
            .help(nearest::remedy(column, &known, "column"))
    };
    unknown.map(problem).collect()
}

/// Columns named at a path: by a text, by the items of a list, by the keys of a map.
fn columns<'t>(node: &'t Node, path: &[&str], named: &mut Vec<(&'t str, Mark)>) {
    match (path, &node.value) {
        ([], Value::Text(column)) => named.push((column, node.mark)),
        ([], Value::Map(map)) => named.extend(map.iter().map(|(column, entry)| (column.as_str(), entry.key))),
        ([], Value::List(items)) => items.iter().for_each(|item| columns(item, path, named)),
        (["*", rest @ ..], Value::Map(map)) => {
            map.values().for_each(|entry| columns(&entry.node, rest, named));
        }
        (["*", rest @ ..], Value::List(items)) => items.iter().for_each(|item| columns(item, rest, named)),
        ([key, rest @ ..], _) => {
            if let Some(child) = node.child(key) {
                columns(child, rest, named);
            }
        }
        ([], _) => {}
    }
}
