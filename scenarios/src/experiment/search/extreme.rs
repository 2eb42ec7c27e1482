//! `largest:` or `fewest:` of a search: the quantity of which the last value is looked for at which
//! a plan fits.
//!
//! It is the first axis of the space, its values in the order in which plans fit ever less.

use std::collections::BTreeSet;

use crate::schema::Scenario;
use crate::text::node::{Layer, Map, Node, Value, shorten};
use crate::text::problem::Problem;
use crate::text::source::Mark;

use super::super::paths;
use super::super::sweep::{self, Axis};
use super::auto;

/// Keys of a search that name such a quantity.
pub(super) const KEYS: [&str; 2] = ["largest", "fewest"];
const HELP: &str = "name one setting, `largest: training.sequence`, or list its values from the smallest on: \
                    `largest: { training.sequence: [4096, 8192, 16384] }`";

/// A quantity and the end of its values that is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Extreme {
    /// `largest` or `fewest`.
    pub(crate) wanted: &'static str,
    /// Settings that change together.
    pub(super) paths: Vec<String>,
    mark: Mark,
    /// Values as they are written. `None`: the scenario implies them.
    written: Option<Axis>,
}

/// Reads the quantity of a search, which it takes out of its settings.
pub(super) fn read(search: &mut Map, problems: &mut Vec<Problem>) -> Option<Extreme> {
    let mut said = KEYS.into_iter().filter_map(|key| Some((key, search.shift_remove(key)?)));
    let (wanted, entry) = said.next()?;
    if let Some((_, other)) = said.next() {
        problems.push(
            Problem::new(other.key, "a search looks for the largest or for the fewest of one quantity")
                .note(entry.key, "also here")
                .help("leave one of them out, and limit its quantity with `subject_to`"),
        );
    }
    let mark = entry.node.mark;
    match &entry.node.value {
        Value::Text(path) => {
            let path = path.trim();
            if let Err(problem) = paths::check(path, mark) {
                problems.push(problem);
                return None;
            }
            if !auto::is_quantity(path) {
                let known = auto::QUANTITIES.join("`, `");
                problems.push(
                    Problem::new(mark, format!("nothing implies values of `{}`", shorten(path))).help(
                        format!("list them from the smallest on, `{wanted}: {{ {path}: [1, 2, 4] }}`; known are `{known}`"),
                    ),
                );
                return None;
            }
            Some(Extreme { wanted, paths: vec![path.to_owned()], mark, written: None })
        }
        Value::Map(map) if map.len() == 1 => {
            let axis = sweep::axes(map, problems).pop()?;
            check_order(&axis, problems);
            Some(Extreme { wanted, paths: axis.paths.clone(), mark, written: Some(axis) })
        }
        other => {
            let message = format!("`{wanted}` must be one setting, not {}", other.describe());
            problems.push(Problem::new(mark, message).help(HELP));
            None
        }
    }
}

/// Reports numbers that are not in order.
fn check_order(axis: &Axis, problems: &mut Vec<Problem>) {
    let [path] = &axis.paths[..] else { return };
    let listed = 0..axis.len().min(sweep::MAX_LISTED as u64);
    let nodes: Vec<Node> = listed.flat_map(|digit| axis.value(digit)).collect();
    let falls = |pair: &&[Node]| match (number(&pair[0]), number(&pair[1])) {
        (Some(before), Some(after)) => before >= after,
        _ => false,
    };
    if let Some([before, after]) = nodes.windows(2).find(falls) {
        let message = format!("{} of `{path}` stands behind {}", after.value.plain(), before.value.plain());
        problems.push(Problem::new(after.mark, message).help("list values from the smallest on, each once"));
    }
}

fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

impl Extreme {
    /// True if the smallest value is asked for.
    pub(crate) fn is_fewest(&self) -> bool {
        self.wanted == KEYS[1]
    }

    /// Reports settings that the space is searched over as well, at their places there.
    pub(super) fn check_over<'a>(
        &self,
        over: impl Iterator<Item = (&'a str, Mark)>,
        problems: &mut Vec<Problem>,
    ) {
        for (path, mark) in over.filter(|(path, _)| self.paths.iter().any(|own| own == path)) {
            problems.push(
                Problem::new(
                    mark,
                    format!("`{path}` is searched over, and is what `{}` asks for", self.wanted),
                )
                .note(self.mark, "asked for here")
                .help("leave it out of `over`"),
            );
        }
    }

    /// An axis with which scenarios can be read before they imply its values. `None`: they can already.
    pub(crate) fn beginning(&self, is_written: impl Fn(&str) -> bool) -> Option<Axis> {
        let path = &self.paths[0];
        let least = || auto::least(path).filter(|_| !is_written(path));
        self.written.clone().or_else(|| least().map(|least| self.listed([least])))
    }

    /// Its axis; scenarios imply values that are not written, beside the axes that are searched over.
    /// `is_written` tells of settings whether the file says them.
    pub(super) fn axis(
        &self,
        scenarios: &[Scenario],
        others: &[Axis],
        is_written: impl Fn(&str) -> bool,
        problems: &mut Vec<Problem>,
    ) -> Option<Axis> {
        if let Some(axis) = &self.written {
            return Some(axis.clone());
        }
        let path = &self.paths[0];
        let values: BTreeSet<u64> = scenarios
            .iter()
            .flat_map(|scenario| auto::quantity(path, scenario, others, &is_written))
            .collect();
        if values.is_empty() && !scenarios.is_empty() {
            problems.push(
                Problem::new(self.mark, format!("the scenario has no `{path}` that could change")).help(
                    format!("list its values, or ask for another of `{}`", auto::QUANTITIES.join("`, `")),
                ),
            );
        }
        (!values.is_empty()).then(|| self.listed(values))
    }

    fn listed(&self, values: impl IntoIterator<Item = u64>) -> Axis {
        let node =
            |number: u64| Node { mark: self.mark, layer: Layer::Sweep, value: Value::Integer(number.into()) };
        Axis::listed(self.paths[0].clone(), values.into_iter().map(node).collect(), self.mark)
    }

    /// Reports that the command line gives it a value.
    pub(super) fn check_free(&self, is_set: impl Fn(&str) -> bool, problems: &mut Vec<Problem>) {
        if let Some(path) = self.paths.iter().find(|path| is_set(path)) {
            problems.push(
                Problem::new(self.mark, format!("`{path}` is set, and is what `{}` asks for", self.wanted))
                    .help("leave out `--set`, or list the value here"),
            );
        }
    }

    /// Reports settings with written values that a scenario does not have, whose settings are a tree.
    pub(crate) fn check_there(&self, tree: &Node, problems: &mut Vec<Problem>) {
        for path in self.written.iter().flat_map(|axis| &axis.paths) {
            if !paths::leads_through(&paths::keys(path), tree) {
                problems.push(
                    Problem::new(self.mark, format!("the scenario has no `{path}` whose value could change"))
                        .help("ask for a setting of its kind of model, machine or technique"),
                );
            }
        }
    }
}
