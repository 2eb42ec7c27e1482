//! Groups of plans with the same work of a micro-batch, and a bound of each by that work.
//!
//! Plans that differ in stages, copies and order alone execute the same operators for a
//! micro-batch, W seconds of all compute lanes together. On p stages, of which stage s has w(s) of
//! it, a step of m micro-batches that flushes is
//!
//! ```text
//! T >= sum of w(i) before s + m w(s)  for each s;  so  T >= W / (1 - (1 - 1/m)^p)
//! ```
//!
//! whatever the w are: the right side is where all stages would take as long. Where chunks or
//! schedules make fill and drain shorter T >= m W / p. W is sketched from the blocks of a model
//! (`workloads::plan::sketch_on`); on GPUs of several kinds it hangs on which of them stages have.

use std::collections::BTreeMap;

use crate::experiment::Experiment;
use crate::experiment::sweep::{Axis, digits};
use crate::plans;
use crate::schema::{Count, Placement, Scenario, Schedule, Step};
use crate::text::node::{Node, Value};

use super::goal::{Figures, Goals};

/// Settings that leave the operators of a micro-batch as they are.
const PIPELINE: &str = "parallelism.pipeline";
const DATA: &str = "parallelism.data";
const SCHEDULE: &str = "parallelism.schedule";

/// Place of a plan: its group, and its place in it.
pub(super) type Place = (usize, usize);

/// Plans with the same work of a micro-batch.
pub(super) struct Group {
    /// Number of the variant.
    pub(super) variant: usize,
    /// Indices of points.
    pub(super) members: Vec<u64>,
    /// By member.
    pub(super) splits: Vec<Split>,
}

/// How a plan spreads micro-batches over GPUs, as far as axes say.
#[derive(Clone, Debug, Default)]
pub(super) struct Split {
    pub(super) stages: Option<u64>,
    copies: Option<u64>,
    /// True if fill and drain of its order are not those of 1F1B.
    reordered: Option<bool>,
}

/// Points of a space, of these indices, by the work of a micro-batch.
pub(super) fn groups(
    experiment: &Experiment,
    indices: impl Iterator<Item = u64>,
    variants: usize,
) -> Vec<Group> {
    let axes = experiment.axes();
    let mut members: BTreeMap<Vec<u64>, Vec<(u64, Split)>> = BTreeMap::new();
    for index in indices {
        let digits: Vec<(&Axis, u64)> = axes.iter().zip(digits(axes, index)).collect();
        let changes_operators = |axis: &Axis| !axis.paths.iter().all(|path| splits(path));
        let key = digits.iter().filter(|(axis, _)| changes_operators(axis)).map(|(_, digit)| *digit);
        members.entry(key.collect()).or_default().push((index, Split::of(&digits)));
    }
    let of_variant = |variant| {
        let group = move |members: &Vec<(u64, Split)>| {
            let (members, splits) = members.iter().cloned().unzip();
            Group { variant, members, splits }
        };
        members.values().map(group)
    };
    (0..variants).flat_map(of_variant).collect()
}

/// True if a setting changes how a plan is spread, and no operator of a micro-batch.
pub(super) fn splits(path: &str) -> bool {
    [PIPELINE, DATA, SCHEDULE].contains(&path)
}

impl Split {
    fn of(digits: &[(&Axis, u64)]) -> Self {
        let mut split = Self::default();
        for (axis, digit) in digits.iter().filter(|(axis, _)| axis.paths.iter().any(|path| splits(path))) {
            for (path, node) in axis.paths.iter().zip(axis.value(*digit)) {
                match path.as_str() {
                    PIPELINE => split.stages = count(&node),
                    DATA => split.copies = count(&node),
                    SCHEDULE => {
                        split.reordered = Some(!matches!(node.as_text(), Some("1f1b" | "gpipe")));
                    }
                    _ => {}
                }
            }
        }
        split
    }
}

fn count(node: &Node) -> Option<u64> {
    match node.value {
        Value::Integer(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

/// The work of a group, as one of its plans tells it.
#[derive(Clone, Debug)]
pub(in super::super) struct Work {
    /// Time of a micro-batch (s).
    micro_batch_s: f64,
    /// Objectives for each second of a step, as far as all plans of the group share them.
    per_second: Figures,
    stages: u64,
    /// Micro-batches of a step over all copies.
    micro_batches: u64,
    /// True if gradients are added to sums, which a single micro-batch may do without.
    sums: bool,
    /// Stages times copies for which there are GPUs.
    pipelines: u64,
    reordered: bool,
}

impl Work {
    /// Work of a plan. `None`: the batch of a step, or operators, hang on how it is spread.
    pub(super) fn of(scenario: &Scenario, micro_batch_s: f64, goals: Goals<'_>) -> Option<Self> {
        let (training, parallelism) = (&scenario.training, &scenario.parallelism);
        let (batch, size) = (training.global_batch?.get(), training.micro_batch?.get());
        let placed = parallelism.placement.as_ref().is_some_and(|it| *it != Placement::default());
        let machine = plans::machine::of(scenario).ok()?;
        // Of a list of layers, what passes make of one may hang on its place on a stage.
        let rewritten = scenario.model.transformer().is_none() && scenario.techniques.all().next().is_some();
        if placed || rewritten || machine.gpu_kinds().len() > 1 {
            return None;
        }
        let ranks = [parallelism.tensor, parallelism.context].map(|count| count.map_or(1, Count::get));
        let gpus = u64::from(machine.gpus());
        let keeps_order = matches!(parallelism.schedule, Schedule::OneFOneB | Schedule::Gpipe);
        Some(Self {
            micro_batch_s,
            per_second: goals.per_second_of_group(scenario),
            stages: scenario.stages() as u64,
            micro_batches: batch / size,
            sums: training.micro_batches() > 1,
            pipelines: gpus / ranks.iter().product::<u64>().max(1),
            reordered: !keeps_order || plans::transformer::step(scenario) != Step::Whole,
        })
    }

    /// Bound of a plan of the group, by objective.
    pub(super) fn bound(&self, split: &Split) -> Figures {
        let seconds = self.least_s(split);
        self.per_second.map(|figure| seconds * figure)
    }

    /// Least time of a step of a plan of the group (s).
    fn least_s(&self, split: &Split) -> f64 {
        let stages = split.stages.unwrap_or(self.stages).max(1);
        // Copies take what GPUs there are, at most.
        let copies = split.copies.unwrap_or(self.pipelines / stages).max(1);
        let micro_batches = self.micro_batches / copies;
        if micro_batches <= 1 && self.sums {
            return 0.0;
        }
        let micro_batches = micro_batches.max(1) as f64;
        let reordered = self.reordered || split.reordered.unwrap_or(false);
        let shares = match reordered {
            true => stages as f64 / micro_batches,
            false => 1.0 - (1.0 - 1.0 / micro_batches).powi(stages.min(1 << 20) as i32),
        };
        self.micro_batch_s / shares
    }
}
