//! What running an experiment takes.

use std::cmp::Reverse;

use indexmap::IndexMap;
use rayon::prelude::*;
use serde::Serialize;

use super::ranks::GROUPS_MAX;
use super::shard::Shard;
use super::{Options, Progress, Refusal, in_parallel, selected};
use crate::experiment::{Experiment, Infeasible, Point, Variant};
use crate::plans;
use crate::schema::Scenario;

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
const PROFILE: Effort = Effort { activity: 2.2e-7, rank: 0.0, run: 2e-3 };
/// Of a model on a machine, measured in the same way over the rest of the library and over data-parallel transformers of
/// 8 layers on 1,000 to 16,000 GPUs.
const MACHINE: Effort = Effort { activity: 2e-7, rank: 2.5e-5, run: 3e-2 };

/// The most runs, points times variants, of one experiment, and the most stages of all of them together: their summaries,
/// 1 to 3 kB a stage, are held until the report is written.
pub const MAX_RUNS: u64 = 100_000;
pub(crate) const MAX_STAGES: u64 = 500_000;
/// Runs that are sized up one after the other: threads for fewer cost more than they save.
const FEW: usize = 16;

/// What running an experiment takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Points of the sweep, or of the space that is searched.
    pub points: u64,
    /// True if the best of them is looked for, rather than all of them run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub searched: bool,
    /// Simulations: variants times points, times seeds.
    pub runs: u64,
    /// Runs that are impossible: their settings do not go together.
    pub infeasible: u64,
    /// Rules that they break; a run that breaks several counts for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Stages of all runs: a report says of each how it spent its time and memory.
    pub stages: u64,
    /// Activities of all runs, at most.
    pub activities: u64,
    /// Seconds on one core, roughly.
    pub estimated_s: f64,
}

/// A rule that makes runs impossible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The broken rule, in the words of the first such run.
    pub reason: String,
    /// Runs that break it, with whatever numbers.
    pub runs: u64,
}

/// Size of one run.
struct Size {
    activities: u64,
    limit: u64,
    seeds: u64,
    stages: u64,
    seconds: f64,
}

/// Sizes up an experiment without building anything; `progress` is told how far that is, and may stop it.
///
/// # Errors
/// Every refusal of [`execute`](super::execute): a variant that does not exist, too many runs, runs above their limit (the
/// largest of them), or none that is possible.
pub fn plan(experiment: &Experiment, options: &Options, progress: &dyn Progress) -> Result<Plan, Refusal> {
    plan_of(experiment, options, Shard::WHOLE, progress)
}

/// Sizes up a shard of an experiment, of which it is no error that none of its runs is possible.
///
/// # Errors
/// As [`plan`].
pub fn plan_of(
    experiment: &Experiment,
    options: &Options,
    shard: Shard,
    progress: &dyn Progress,
) -> Result<Plan, Refusal> {
    let variants = selected(experiment, options)?;
    let points = experiment.count();
    if experiment.search().is_some() {
        return Ok(Plan { points, searched: true, ..Plan::default() });
    }
    within_limit(points, variants.len())?;
    let points: Vec<Point> = experiment.points().take(points as usize).collect();
    let merged: Vec<Variant<'_>> = variants.iter().map(|name| experiment.variant(name)).collect();
    let count = variants.len();
    let of_shard = |variant| {
        let place = move |point: usize| point * count + variant;
        let points = points.iter().enumerate().filter(move |(point, _)| shard.has(place(*point)));
        points.map(move |(_, point)| (variant, point))
    };
    let tasks: Vec<(usize, &Point)> = (0..variants.len()).flat_map(of_shard).collect();
    progress.begin(tasks.len() as u64);
    let size = |&(variant, point): &(usize, &Point)| {
        let sized = (!progress.stop()).then(|| merged[variant].at(point).map(|run| Size::of(&run.scenario)));
        progress.done();
        sized
    };
    let sized: Vec<Option<Result<Size, Infeasible>>> = if tasks.len() <= FEW {
        tasks.iter().map(size).collect()
    } else {
        in_parallel(options.jobs, || tasks.par_iter().map(size).collect())
    };

    let mut plan = Plan { points: points.len() as u64, ..Plan::default() };
    let mut too_large: Option<(u64, u64, &str)> = None;
    let mut rules: IndexMap<String, Reason> = IndexMap::new();
    for ((variant, _), sized) in tasks.iter().zip(sized) {
        match sized {
            None => {}
            Some(Err(Infeasible { reasons, .. })) => {
                plan.infeasible += 1;
                for reason in reasons {
                    rules.entry(rule(&reason)).or_insert(Reason { reason, runs: 0 }).runs += 1;
                }
            }
            Some(Ok(Size { activities, limit, seeds, stages, seconds })) => {
                if activities > limit {
                    too_large = too_large.max(Some((activities, limit, variants[*variant])));
                }
                plan.runs += seeds;
                plan.stages += stages;
                plan.estimated_s += seeds as f64 * seconds;
                plan.activities = plan.activities.saturating_add(activities.saturating_mul(seeds));
            }
        }
    }
    plan.reasons = rules.into_values().collect();
    plan.reasons.sort_by_key(|reason| Reverse(reason.runs));
    if let Some((activities, limit, variant)) = too_large {
        return Err(Refusal::TooLarge { variant: variant.to_owned(), activities, limit });
    }
    if plan.stages > MAX_STAGES {
        return Err(Refusal::TooManyStages { stages: plan.stages, limit: MAX_STAGES });
    }
    if plan.runs == 0 && shard == Shard::WHOLE && !progress.stop() {
        return Err(Refusal::NothingRuns { reasons: plan.reasons });
    }
    Ok(plan)
}

impl Size {
    fn of(scenario: &Scenario) -> Self {
        let activities = plans::activities(scenario);
        Self {
            activities,
            limit: scenario.run.limit.get(),
            seeds: scenario.run.seeds.get(),
            stages: reported(scenario),
            seconds: seconds(scenario, activities),
        }
    }
}

/// Seconds that one run of a scenario takes on one core, roughly.
pub(super) fn seconds(scenario: &Scenario, activities: u64) -> f64 {
    let effort = if scenario.model.profile().is_some() { &PROFILE } else { &MACHINE };
    activities as f64 * effort.activity + plans::ranks(scenario) as f64 * effort.rank + effort.run
}

/// The common text of reasons that differ only in their numbers.
pub(super) fn rule(reason: &str) -> String {
    let mut rule = String::new();
    for c in reason.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if c != '#' || !rule.ends_with('#') {
            rule.push(c);
        }
    }
    rule
}

/// Stages of a run that a report tells apart.
fn reported(scenario: &Scenario) -> u64 {
    let stages = scenario.stages() as u64;
    plans::ranks(scenario).min(stages * GROUPS_MAX as u64)
}

/// Refuses more runs than are simulated at once.
pub(super) fn within_limit(points: u64, variants: usize) -> Result<(), Refusal> {
    match points.saturating_mul(variants as u64) {
        runs if runs > MAX_RUNS => Err(Refusal::TooManyRuns { points, variants, runs, limit: MAX_RUNS }),
        _ => Ok(()),
    }
}
