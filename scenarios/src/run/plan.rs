//! What running an experiment takes.

use std::cmp::Reverse;

use indexmap::IndexMap;
use rayon::prelude::*;
use serde::Serialize;

use super::ranks::GROUPS_MAX;
use super::{Options, Progress, Refusal, in_parallel, selected};
use crate::experiment::{Experiment, Infeasible, Point, Variant};
use crate::plans;
use crate::schema::Scenario;

/// Activities that one core simulates in a second, and what a run takes besides (building, checking, reporting), for
/// estimates: measured on one core of a cloud machine over pipelines of 8 to 64 stages.
const ACTIVITIES_PER_SECOND: f64 = 8e6;
const SECONDS_PER_RUN: f64 = 2e-4;

/// The most runs, points times variants, of one experiment, and the most stages of all of them together: their summaries,
/// 1 to 3 kB a stage, are held until the report is written.
pub const MAX_RUNS: u64 = 100_000;
pub(crate) const MAX_STAGES: u64 = 500_000;
/// Runs that are sized up one after the other: threads for fewer cost more than they save.
const FEW: usize = 16;

/// What running an experiment takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Points of the sweep.
    pub points: u64,
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
}

/// Sizes up an experiment without building anything; `progress` is told how far that is, and may stop it.
///
/// # Errors
/// Every refusal of [`execute`](super::execute): a variant that does not exist, too many runs, runs above their limit (the
/// largest of them), or none that is possible.
pub fn plan(experiment: &Experiment, options: &Options, progress: &dyn Progress) -> Result<Plan, Refusal> {
    let variants = selected(experiment, options)?;
    let points = experiment.count();
    within(MAX_RUNS, points, variants.len())?;
    let points: Vec<Point> = experiment.points().take(points as usize).collect();
    let merged: Vec<Variant<'_>> = variants.iter().map(|name| experiment.variant(name)).collect();
    let tasks: Vec<(usize, &Point)> =
        (0..variants.len()).flat_map(|variant| points.iter().map(move |point| (variant, point))).collect();
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
            Some(Ok(Size { activities, limit, seeds, stages })) => {
                if activities > limit {
                    too_large = too_large.max(Some((activities, limit, variants[*variant])));
                }
                plan.runs += seeds;
                plan.stages += stages;
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
    if plan.runs == 0 && !progress.stop() {
        return Err(Refusal::NothingRuns { reasons: plan.reasons });
    }
    plan.estimated_s = plan.activities as f64 / ACTIVITIES_PER_SECOND + plan.runs as f64 * SECONDS_PER_RUN;
    Ok(plan)
}

impl Size {
    fn of(scenario: &Scenario) -> Self {
        Self {
            activities: plans::activities(scenario),
            limit: scenario.run.limit.get(),
            seeds: scenario.run.seeds.get(),
            stages: reported(scenario),
        }
    }
}

/// The common text of reasons that differ only in their numbers.
fn rule(reason: &str) -> String {
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

fn within(limit: u64, points: u64, variants: usize) -> Result<(), Refusal> {
    match points.saturating_mul(variants as u64) {
        runs if runs > limit => Err(Refusal::TooManyRuns { points, variants, runs, limit }),
        _ => Ok(()),
    }
}
