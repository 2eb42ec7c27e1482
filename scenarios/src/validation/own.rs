//! A set of one's own: a file as those of `validation/`, with a table of measured steps.
//!
//! Problems of the file, the table and the scenarios of its rows are found before the first run.

use std::io::Read;

use calibration::{Row, Table, TableError};
use hw_models::catalogue::nearest;
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::validation::Validation;

use super::set::{Measurements, Set, Steps};
use super::{Options, cells, plans, result, steps};
use crate::experiment::{self, Experiment, Files, assembled, beginning, check_path};
use crate::run::{self, Progress, in_parallel};
use crate::schema::document;
use crate::schema::shape::Shape;
use crate::text::decode::decode;
use crate::text::node::{Entry, Node, Value, shorten};
use crate::text::problem::{Failure, Problem};
use crate::text::source::{Mark, SourceId, Sources};
use crate::text::yaml;

/// Longest table.
const TABLE_MAX: usize = 64 << 20;
/// Name of the set in messages.
const SET: &str = "set";
/// Path of the measurements in a set.
const STEPS: [&str; 2] = ["measurements", "steps"];
/// Places of a set that name columns of its table; `*` stands for each of several.
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

/// A set of steps with its table, of which every row is a scenario.
pub struct OwnSet<'f> {
    name: String,
    set: Set,
    tree: Node,
    table: Table,
    /// The text of the table.
    written: SourceId,
    sources: Sources,
    files: &'f (dyn Files + Sync),
}

impl<'f> OwnSet<'f> {
    /// Reads the set at `path`, and its table in `folder`.
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
        let table = table(files, folder, &tree, &mut sources);
        let (table, written) = table.map_err(|problem| Failure::new(sources.clone(), vec![problem]))?;
        let mut problems = unknown_columns(&tree, &table);
        problems.extend(unknown_settings(&tree));
        if !problems.is_empty() {
            return Err(Failure::new(sources, problems));
        }
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let own = Self { name, set, tree, table, written, sources, files };
        own.check_rows()?;
        Ok(own)
    }

    /// Judges the set. None if `progress` stopped it.
    pub fn validate(&self, options: &Options, progress: &dyn Progress) -> Option<Validation> {
        progress.begin(self.table.rows().count() as u64);
        let run = |row: Row<'_>, inputs: &IndexMap<String, String>, more: &[String]| {
            let experiment =
                self.experiment(row, inputs, more).map_err(|failure| steps::in_a_line(&failure))?;
            run::alone(&experiment, steps::SEED).map_err(|refusal| refusal.to_string())
        };
        let judged = in_parallel(options.jobs, || steps::judged(self.steps(), &self.table, &run, progress))?;
        let regret = plans::regret(self.steps(), &self.table, &judged);
        let found = result(&self.name, &self.set, (vec![self.table.source.clone()], regret), judged);
        Some(Validation::new(options.version.clone(), options.reproduce.clone(), vec![found]))
    }

    fn steps(&self) -> &Steps {
        self.set.steps().expect("sets of other kinds are refused as they are read")
    }

    /// Refuses rows that are no scenarios. A problem that several rows share is told once.
    fn check_rows(&self) -> Result<(), Failure> {
        let rows: Vec<Row<'_>> = self.table.rows().collect();
        let fault = |row: &Row<'_>| {
            let inputs = steps::inputs(self.steps(), &cells(self.table.columns(), row));
            self.steps().judges(&inputs).ok()?;
            self.experiment(*row, &inputs, &[]).err()
        };
        let faults: Vec<Failure> = rows.par_iter().filter_map(fault).collect();
        let mut problems: IndexMap<String, (Problem, usize)> = IndexMap::new();
        for problem in faults.iter().flat_map(|failure| &failure.problems) {
            let (_, rows) = problems.entry(problem.message.clone()).or_insert_with(|| (problem.clone(), 0));
            *rows += 1;
        }
        let told = |(problem, rows): (Problem, usize)| match rows {
            1 => problem,
            rows => Problem { message: format!("{} ({rows} rows)", problem.message), ..problem },
        };
        let problems: Vec<Problem> = problems.into_values().map(told).collect();
        // Texts that a row adds follow those that all rows share.
        let sources = faults.into_iter().map(|failure| failure.sources).max_by_key(|of| of.iter().count());
        sources.map_or(Ok(()), |sources| Err(Failure::new(sources, problems)))
    }

    /// The scenario of a row, with `more` settings on top of its own.
    ///
    /// # Errors
    /// Every problem, at the cell or the value of the set that it is about.
    fn experiment(
        &self,
        row: Row<'_>,
        inputs: &IndexMap<String, String>,
        more: &[String],
    ) -> Result<Experiment, Failure> {
        let mut sources = self.sources.clone();
        let mut problems = Vec::new();
        let mut settings = Vec::new();
        for (path, setting) in &self.steps().settings {
            let cell = self.written.at(row.line() as u32, row.start(&setting.column) as u32);
            let value = match setting.of(inputs) {
                Ok(value) => value,
                Err(reason) => {
                    let help = "give the setting a value for it, or list such rows under `left_out`";
                    problems.push(Problem::new(cell, reason).help(help));
                    continue;
                }
            };
            let mark = self.value_of(path, row.text(&setting.column)).unwrap_or(cell);
            let mut found = Vec::new();
            let read = experiment::setting(&format!("{path}={value}"), &mut sources, &mut found);
            settings.extend(read.map(|(path, mut node)| {
                node.remark(&|_| mark);
                (path, node)
            }));
            // The text of a setting stands in no file.
            found.iter_mut().flat_map(|problem| &mut problem.notes).for_each(|note| note.mark = mark);
            problems.append(&mut found);
        }
        for setting in more {
            settings.extend(experiment::setting(setting, &mut sources, &mut problems));
        }
        if !problems.is_empty() {
            return Err(Failure::new(sources, problems));
        }
        assembled(self.files, self.common(), settings, sources)
    }

    /// Place of the value that a setting has for a cell, where the set translates it.
    fn value_of(&self, path: &str, cell: &str) -> Option<Mark> {
        let [measurements, steps] = STEPS;
        let value = self.tree.at(&[measurements, steps, "settings", path, "values", cell]);
        value.map(|value| value.mark)
    }

    /// Settings that all rows have in common, with a name.
    fn common(&self) -> Node {
        let [measurements, steps] = STEPS;
        let mut common = self.tree.at(&[measurements, steps, "scenario"]).expect("a set has one").clone();
        let mark = common.mark;
        let name = Node::new(mark, Value::Text(self.set.title.clone()));
        if let Some(map) = common.as_map_mut() {
            map.insert("name".to_owned(), Entry { key: mark, node: name });
        }
        common
    }
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

/// The set of a tree, one of steps.
fn typed(tree: &Node, problems: &mut Vec<Problem>) -> Option<Set> {
    let schema = document::of::<Set>();
    let set: Set = decode(tree, Shape::of(&schema), SET, problems)?.value;
    if !matches!(set.measurements, Measurements::Steps(_)) {
        let mark = tree.at(&["measurements"]).map_or(tree.mark, Node::beginning);
        let message =
            "a set of one's own has `steps`; other measurements are judged by the catalogue's tables";
        problems.push(Problem::new(mark, message).help("write `measurements: { steps: ... }`"));
        return None;
    }
    Some(set)
}

/// The table that a set names, and its text.
fn table(
    files: &dyn Files,
    folder: &str,
    tree: &Node,
    sources: &mut Sources,
) -> Result<(Table, SourceId), Problem> {
    let [measurements, steps] = STEPS;
    let named = tree.at(&[measurements, steps, "data"]).expect("a set of steps names its table");
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
    let wrong = |TableError { line, at, fault, .. }: TableError| {
        Problem::new(source.at(line as u32, at.unwrap_or(1) as u32), fault)
    };
    let table = Table::read(&path, &*bytes).map_err(wrong)?;
    if table.rows().next().is_none() {
        let problem = Problem::new(source.start(), "the table has no rows");
        return Err(problem.help("add a line for each measured run"));
    }
    Ok((table, source))
}

/// Names of columns that the table lacks, where the set has them.
fn unknown_columns(tree: &Node, table: &Table) -> Vec<Problem> {
    let known: Vec<&str> = table.columns().iter().map(String::as_str).collect();
    let mut named = Vec::new();
    for path in COLUMNS {
        columns(tree, path, &mut named);
    }
    let unknown = named.into_iter().filter(|(column, _)| !known.contains(column));
    let problem = |(column, mark): (&str, Mark)| {
        Problem::new(mark, format!("`{}` has no column `{}`", table.name, shorten(column)))
            .help(nearest::remedy(column, &known, "column"))
    };
    unknown.map(problem).collect()
}

/// Paths of settings that scenarios do not have.
fn unknown_settings(tree: &Node) -> Vec<Problem> {
    let [measurements, steps] = STEPS;
    match tree.at(&[measurements, steps, "settings"]).map(|node| &node.value) {
        Some(Value::Map(map)) => {
            map.iter().filter_map(|(path, entry)| check_path(path, entry.key).err()).collect()
        }
        _ => Vec::new(),
    }
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
