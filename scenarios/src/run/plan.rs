//! What running an experiment takes.

use serde::Serialize;

use super::ranks::GROUPS_MAX;
use super::{Options, Refusal, selected};
use crate::experiment::Experiment;
use crate::plans;
use crate::schema::{Model, Scenario};

/// Seconds of one core that a run takes, for estimates.
struct Effort {
    /// For each activity, at most simulated.
    activity: f64,
    /// For each rank: building, checking and folding its program.
    rank: f64,
    /// For the rest: planning techniques, replaying the allocator, reporting.
    run: f64,
}

/// Of a profiled pipeline, whose stages run ahead of the clock. Measured as the user time of `run` with one job, on a core
/// of a cloud machine, over `pipeline-schedules` and `bpipe-profiled`.
const PROFILE: Effort = Effort { activity: 1.25e-7, rank: 0.0, run: 2e-3 };
/// Of a model on a machine, measured in the same way over the rest of the library and over data-parallel transformers of
/// 8 layers on 1,000 to 16,000 GPUs.
const MACHINE: Effort = Effort { activity: 2e-7, rank: 2.5e-5, run: 3e-2 };

/// The most runs, points times variants, of one experiment, and the most stages of all of them together: their summaries,
/// 1 to 3 kB a stage, are held until the report is written.
pub const MAX_RUNS: u64 = 100_000;
pub(crate) const MAX_STAGES: u64 = 500_000;
/// The most that are sized up, which takes some microseconds each.
const MAX_SIZED: u64 = 10_000_000;

/// What running an experiment takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Points of the sweep.
    pub points: u64,
    /// Simulations: variants times points, times seeds.
    pub runs: u64,
    /// Runs whose sizes do not multiply.
    pub infeasible: u64,
    /// Stages of all runs: a report says of each how it spent its time and memory.
    pub stages: u64,
    /// Activities of all runs, at most.
    pub activities: u64,
    /// Seconds on one core, roughly.
    pub estimated_s: f64,
}

/// Sizes up an experiment without building anything.
///
/// # Errors
/// A variant that does not exist, more runs than can be sized up, or runs above their limit: the largest of them.
pub fn plan(experiment: &Experiment, options: &Options) -> Result<Plan, Refusal> {
    let variants = selected(experiment, options)?;
    within(MAX_SIZED, experiment.size(), variants.len())?;
    let mut plan = Plan::default();
    let mut too_large: Option<(u64, u64, &str)> = None;
    for &name in &variants {
        let variant = experiment.variant(name);
        plan.points = 0;
        for point in experiment.points() {
            plan.points += 1;
            let Ok(resolved) = variant.at(&point) else {
                plan.infeasible += 1;
                continue;
            };
            let run = &resolved.scenario.run;
            let activities = plans::activities(&resolved.scenario);
            if activities > run.limit.get() {
                too_large = too_large.max(Some((activities, run.limit.get(), name)));
            }
            plan.runs += run.seeds.get();
            plan.stages += reported(&resolved.scenario);
            plan.activities = plan.activities.saturating_add(activities.saturating_mul(run.seeds.get()));
            plan.estimated_s += run.seeds.get() as f64 * seconds(&resolved.scenario, activities);
        }
    }
    if let Some((activities, limit, variant)) = too_large {
        return Err(Refusal::TooLarge { variant: variant.to_owned(), activities, limit });
    }
    Ok(plan)
}

/// Seconds that one run of a scenario takes on one core, roughly.
fn seconds(scenario: &Scenario, activities: u64) -> f64 {
    let effort = match scenario.model {
        Model::ProfiledPipeline(_) => &PROFILE,
        Model::Transformer(_) | Model::Layers(_) => &MACHINE,
    };
    activities as f64 * effort.activity + plans::ranks(scenario) as f64 * effort.rank + effort.run
}

/// Stages of a run that a report tells apart.
fn reported(scenario: &Scenario) -> u64 {
    let stages = scenario.stages() as u64;
    plans::ranks(scenario).min(stages * GROUPS_MAX as u64)
}

/// Refuses what has more results than can be held.
pub(super) fn check_results(plan: &Plan, variants: usize) -> Result<(), Refusal> {
    within(MAX_RUNS, plan.points, variants)?;
    match plan.stages {
        stages if stages > MAX_STAGES => Err(Refusal::TooManyStages { stages, limit: MAX_STAGES }),
        _ => Ok(()),
    }
}

fn within(limit: u64, points: u64, variants: usize) -> Result<(), Refusal> {
    match points.saturating_mul(variants as u64) {
        runs if runs > limit => Err(Refusal::TooManyRuns { points, variants, runs, limit }),
        _ => Ok(()),
    }
}
