//! What runs on a device: rows that say what a scenario sets and, from the same figures, what is built.

use indexmap::IndexMap;
use serde::Deserialize;

use crate::expectation::Metric;
use crate::schema::Share;

/// Rows that run on a device, and what is judged of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Workloads {
    /// What the device does.
    pub(super) workload: Kind,
    /// What is judged of each row.
    pub(super) figures: Vec<Figure>,
    /// What the measurement gives to the scenario of its row, by path: the median of a figure.
    #[serde(default)]
    pub(super) given: IndexMap<String, String>,
    /// What is judged of two rows.
    #[serde(default)]
    pub(super) pairs: Vec<Pair>,
    /// Axes on which rows that do the same work are alike: the other axes are plans.
    #[serde(default)]
    pub(super) same_work: Vec<String>,
    /// The values of axes whose rows are measured in a hurry: all of them at least on one axis.
    #[serde(default)]
    quick: Vec<String>,
    /// What all rows have in common.
    pub(super) scenario: serde_yaml::Mapping,
    /// Rows are all ways to take a value of each axis: what each sets, by path.
    axes: IndexMap<String, IndexMap<String, IndexMap<String, serde_yaml::Value>>>,
}

/// What a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Training steps of a transformer, whose activations are in host memory between the passes where
    /// the scenario says so; the machine has a host.
    Step,
    /// The same beside what `beside` of a row says goes on at the GPU, which is no part of the scenario: a `Background`.
    Beside,
    /// A pipeline of kernels that spin.
    Pipeline,
    /// Copies between the GPU and its host, and files: what `transfer` of a row says.
    Transfer,
    /// Training steps of a transformer as Python's program has them, in an execution mode.
    Program,
    /// Steps that wait for batches which threads of the host prepare: its rows have no scenario, but a `Loader`.
    Loader,
}

/// A figure of a measurement, and of which run's it is the like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    pub(super) figure: String,
    pub(super) metric: Metric,
    /// The part of the set that it is judged in.
    pub(super) part: String,
}

/// A figure of two rows, which differ on one axis alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pair {
    pub(super) figure: String,
    /// The figure that is judged.
    #[serde(default, rename = "as")]
    pub(super) compared: Compared,
    /// The axis on which they differ.
    pub(super) axis: String,
    /// The value of the first; any other than that of the second, if none is named.
    pub(super) of: Option<String>,
    /// The value of the second.
    pub(super) over: String,
    /// What was measured again of the second together with the first, in turns: its figure is taken, whose clocks were the same.
    pub(super) again: Option<String>,
    /// Pairs that were measured nearer to each other, as a share of the second, are not judged.
    pub(super) apart_by: Option<Share>,
    /// The part of the set that it is judged in.
    pub(super) part: String,
}

/// A figure of two figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Compared {
    /// The first over the second, by the difference in points.
    #[default]
    Ratio,
    /// The second over the first, by its error and by the side of 1.
    SpeedUp,
    /// The first less the second.
    Difference,
}

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Its values of the axes.
    pub(super) inputs: IndexMap<String, String>,
    /// What it sets, `path=value` each.
    pub(super) settings: Vec<String>,
}

impl Workloads {
    /// All rows, the last axis changing fastest.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = vec![Case { inputs: IndexMap::new(), settings: Vec::new() }];
        for (axis, values) in &self.axes {
            let with = |case: &Case, (value, sets): (&String, &IndexMap<String, serde_yaml::Value>)| {
                let mut case = case.clone();
                case.inputs.insert(axis.clone(), value.clone());
                case.settings.extend(sets.iter().map(|(path, value)| format!("{path}={}", flow(value))));
                case
            };
            cases = cases.iter().flat_map(|case| values.iter().map(|value| with(case, value))).collect();
        }
        cases
    }

    /// The rows that are measured in a hurry: those whose value of an axis is listed, or all.
    pub(super) fn quick(&self) -> Vec<Case> {
        let listed = |case: &Case| case.inputs.values().any(|value| self.quick.contains(value));
        self.cases().into_iter().filter(|case| self.quick.is_empty() || listed(case)).collect()
    }
}

impl Case {
    /// Its name: its values.
    pub(super) fn name(&self) -> String {
        self.inputs.values().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

impl Pair {
    /// The row that `row` is compared with, where that is the first of two.
    pub(super) fn other(&self, row: &IndexMap<String, String>) -> Option<IndexMap<String, String>> {
        let value = row.get(&self.axis).filter(|&value| *value != self.over)?;
        if self.of.as_ref().is_some_and(|of| of != value) {
            return None;
        }
        let mut other = row.clone();
        other.insert(self.axis.clone(), self.over.clone());
        Some(other)
    }
}

/// A value in one line: JSON is YAML.
fn flow(value: &serde_yaml::Value) -> String {
    serde_json::to_string(value).expect("settings have text for keys and finite numbers")
}
