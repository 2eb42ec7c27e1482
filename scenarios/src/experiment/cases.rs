//! Which axes of a sweep are cases, and which are choices.
//!
//! A case is a problem to be solved (a model, a machine), a choice a way to solve it (a
//! micro-batch, a technique). The best choice is looked for within each case; over cases nothing is
//! best.

use hw_models::catalogue::nearest;
use workloads::passes::FACTS;

use super::paths::leads_to;
use super::sweep::Axis;
use crate::text::node::{Node, Value, shorten};
use crate::text::problem::Problem;

/// Settings that are cases by default, each with all settings below it.
const CASES: [&str; 16] = [
    // Another model is other work.
    "model",
    "training.sequence",
    // The batch of a step decides how many samples training takes.
    "training.global_batch",
    "training.micro_batches",
    "training.accumulate",
    // Numbers and optimizers decide whether training converges.
    "training.precision",
    "training.fp8",
    "training.adapters",
    "training.optimizer",
    "training.step",
    // Hardware, and the rates of its parts.
    "machine",
    "storage",
    "calibration",
    // Memory, and assumptions about what states take.
    "memory",
    // Length, failures and prices of a training run.
    "campaign",
    // Noise, seeds and other settings of the simulation.
    "run",
];

/// Settings below [`CASES`] that are choices: changes of a recording, whose best is looked for.
const CHOICES: [&str; 2] = ["model.trace.what_if", "model.trace.launch_queue"];

/// The swept paths that are cases: those that `cases:` lists, or by default those below [`CASES`]
/// and [`FACTS`]. Paths that change together are cases together.
pub(super) fn read(list: Option<&Node>, axes: &[Axis], problems: &mut Vec<Problem>) -> Vec<String> {
    let listed = list.map(|list| listed(list, axes, problems));
    let is_case = |path: &String| match &listed {
        Some(paths) => paths.contains(path),
        None if CHOICES.iter().any(|choice| leads_to(choice, path)) => false,
        None => CASES.iter().chain(&FACTS).any(|case| leads_to(case, path)),
    };
    axes.iter().filter(|axis| axis.paths.iter().any(is_case)).flat_map(|axis| axis.paths.clone()).collect()
}

/// The paths of `cases:`, each of which must be swept.
fn listed(list: &Node, axes: &[Axis], problems: &mut Vec<Problem>) -> Vec<String> {
    let swept: Vec<&str> = axes.iter().flat_map(|axis| axis.paths.iter().map(String::as_str)).collect();
    let example = swept.first().copied().unwrap_or("training.sequence");
    let Value::List(items) = &list.value else {
        let message = format!("`cases` must be a list of swept settings, not {}", list.value.describe());
        problems.push(Problem::new(list.mark, message).help(format!("write `cases: [{example}]`")));
        return Vec::new();
    };
    let mut paths = Vec::new();
    for item in items {
        match item.as_text().map(str::trim) {
            Some(path) if swept.contains(&path) => paths.push(path.to_owned()),
            Some(path) => problems.push(not_swept(path, item, &swept)),
            None => {
                let message = format!("a case must be a swept setting, not {}", item.value.describe());
                problems.push(Problem::new(item.mark, message).help(format!("write `cases: [{example}]`")));
            }
        }
    }
    paths
}

fn not_swept(path: &str, item: &Node, swept: &[&str]) -> Problem {
    let problem = Problem::new(item.mark, format!("`{}` is a case, but is not swept", shorten(path)));
    match swept {
        [] => problem.help("leave out `cases`: this experiment has no sweep"),
        _ => problem.help(nearest::remedy(path, swept, "swept setting")),
    }
}
