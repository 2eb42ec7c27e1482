//! Rows of a set of one's own that become scenarios.

use calibration::Row;
use indexmap::IndexMap;
use rayon::prelude::*;

use super::super::set::Steps;
use super::super::{Options, cells, plans, result, steps};
use super::{OwnSet, Written, together};
use crate::experiment::{self, Experiment, assembled, check_path};
use crate::run::{self, Progress, in_parallel};
use crate::text::node::{Entry, Node, Value};
use crate::text::problem::{Failure, Problem};
use crate::text::source::Mark;
use reports::validation::SetResult;

/// Path of the measurements in a set.
const STEPS: [&str; 2] = ["measurements", "steps"];

/// A set of steps, with its table.
pub(super) struct OwnSteps<'o> {
    pub(super) own: &'o OwnSet<'o>,
    pub(super) steps: &'o Steps,
    pub(super) written: &'o Written,
}

impl OwnSteps<'_> {
    /// Judges the rows. `None` if `progress` stopped it.
    pub(super) fn validate(&self, options: &Options, progress: &dyn Progress) -> Option<SetResult> {
        let table = &self.written.table;
        progress.begin(table.rows().count() as u64);
        let run = |row: Row<'_>, inputs: &IndexMap<String, String>, more: &[String]| {
            let experiment =
                self.experiment(row, inputs, more).map_err(|failure| steps::in_a_line(&failure))?;
            run::alone(&experiment, steps::SEED).map_err(|refusal| refusal.to_string())
        };
        let judged = in_parallel(options.jobs, || steps::judged(self.steps, table, &run, progress))?;
        let regret = plans::regret(self.steps, table, &judged);
        Some(result(&self.own.name, &self.own.set, (vec![table.source.clone()], regret), judged))
    }

    /// Refuses rows that are no scenarios. A problem that several rows share is told once.
    ///
    /// # Errors
    /// Every problem, where it stands.
    pub(super) fn check_rows(&self) -> Result<(), Failure> {
        let rows: Vec<Row<'_>> = self.written.table.rows().collect();
        let fault = |row: &Row<'_>| {
            let inputs = steps::inputs(self.steps, &cells(self.written.table.columns(), row));
            self.steps.judges(&inputs).ok()?;
            self.experiment(*row, &inputs, &[]).err()
        };
        let faults: Vec<Failure> = rows.par_iter().filter_map(fault).collect();
        let problems = together(faults.iter().flat_map(|failure| &failure.problems).cloned());
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
        let mut sources = self.own.sources.clone();
        let mut problems = Vec::new();
        let mut settings = Vec::new();
        for (path, setting) in &self.steps.settings {
            let cell = self.written.source.at(row.line() as u32, row.start(&setting.column) as u32);
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
        assembled(self.own.files, self.common(), settings, sources)
    }

    /// Place of the value that a setting has for a cell, where the set translates it.
    fn value_of(&self, path: &str, cell: &str) -> Option<Mark> {
        let [measurements, steps] = STEPS;
        let value = self.own.tree.at(&[measurements, steps, "settings", path, "values", cell]);
        value.map(|value| value.mark)
    }

    /// Settings that all rows have in common, with a name.
    fn common(&self) -> Node {
        let [measurements, steps] = STEPS;
        let mut common = self.own.tree.at(&[measurements, steps, "scenario"]).expect("a set has one").clone();
        let mark = common.mark;
        let name = Node::new(mark, Value::Text(self.own.set.title.clone()));
        if let Some(map) = common.as_map_mut() {
            map.insert("name".to_owned(), Entry { key: mark, node: name });
        }
        common
    }
}

/// Paths of settings that scenarios do not have.
pub(super) fn unknown_settings(tree: &Node) -> Vec<Problem> {
    let [measurements, steps] = STEPS;
    match tree.at(&[measurements, steps, "settings"]).map(|node| &node.value) {
        Some(Value::Map(map)) => {
            map.iter().filter_map(|(path, entry)| check_path(path, entry.key).err()).collect()
        }
        _ => Vec::new(),
    }
}
