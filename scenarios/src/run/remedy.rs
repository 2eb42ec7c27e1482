//! What would make a run fit: the nearest settings, tried.

use reports::quantity;
use reports::summary::{FailureKind, RunSummary};

use super::one;
use crate::schema::{BPipe, Model, Recompute, Scenario, Schedule};

/// Adds to a run that does not fit the changes with which it does, the fastest first.
pub(super) fn suggest(scenario: &Scenario, run: &mut RunSummary, seed: u64) {
    let Some(failure) = run.failure.as_mut().filter(|failure| failure.kind == FailureKind::OutOfMemory)
    else {
        return;
    };
    let mut remedies: Vec<(f64, String)> = Vec::new();
    for (words, changed) in changes(scenario) {
        // A change that cannot be built, for whatever reason, is no remedy.
        let Ok(outcome) = one::outcome(&changed, RunSummary::default(), seed) else { continue };
        if let Some(time) = outcome.step_time() {
            remedies.push((time, format!("{words} ({} per step)", quantity::seconds(time))));
        }
    }
    remedies.sort_by(|a, b| a.0.total_cmp(&b.0));
    failure.remedies.extend(remedies.into_iter().map(|(_, words)| words));
    failure.remedies.extend(enough_memory(scenario, seed));
}

/// Single changes, then the two techniques together.
fn changes(scenario: &Scenario) -> Vec<(&'static str, Scenario)> {
    let change = |edit: &dyn Fn(&mut Scenario)| {
        let mut changed = scenario.clone();
        // One seed tells whether it fits.
        changed.run = Default::default();
        edit(&mut changed);
        changed
    };
    let lend = |scenario: &mut Scenario| scenario.techniques.bpipe = Some(BPipe::default());
    let recompute = |scenario: &mut Scenario| scenario.techniques.recompute = Some(Recompute::default());
    let mut changes = Vec::new();
    let techniques = &scenario.techniques;
    if techniques.bpipe.is_none() {
        changes.push(("use `techniques: { bpipe: {} }`", change(&lend)));
    }
    if techniques.recompute.is_none() {
        changes.push(("use `techniques: { recompute: {} }`", change(&recompute)));
    }
    if techniques.bpipe.is_none() && techniques.recompute.is_none() {
        let both = |scenario: &mut Scenario| {
            lend(scenario);
            recompute(scenario);
        };
        changes.push(("use `techniques: { bpipe: {}, recompute: {} }`", change(&both)));
    }
    if scenario.parallelism.schedule != Schedule::OneForwardOneBackward {
        let plain = |scenario: &mut Scenario| scenario.parallelism.schedule = Schedule::OneForwardOneBackward;
        changes.push(("use `parallelism: { schedule: 1f1b }`", change(&plain)));
    }
    changes
}

/// The memory with which the plan fits as it is.
fn enough_memory(scenario: &Scenario, seed: u64) -> Option<String> {
    let mut unlimited = scenario.clone();
    let Model::ProfiledPipeline(pipeline) = &mut unlimited.model;
    pipeline.device = None;
    unlimited.memory.limit = None;
    unlimited.run = Default::default();
    let run = one::outcome(&unlimited, RunSummary::default(), seed).ok()?;
    let peak = run.worst_device()?.peak_bytes;
    Some(format!("give every stage {} of memory", quantity::bytes(peak)))
}
