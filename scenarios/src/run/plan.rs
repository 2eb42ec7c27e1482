//! From a scenario to a plan of the workloads, and what running an experiment takes.

use serde::Serialize;
use sim_core::time::Time;
use workloads::model::profiled::{PartnerLink, ProfiledPipeline, StageProfile};
use workloads::order::{MemoryLimit, PipelineSchedule};
use workloads::plan::PipelinePlan;
use workloads::realise::messages::SendMode;
use workloads::techniques::bpipe::{self, Bpipe};
use workloads::techniques::recompute::Recompute;

use super::{Options, Refusal, selected};
use crate::experiment::Experiment;
use crate::schema::{EvictionPolicy, MemoryAllowance, Model, PairTransfer, Scenario, Schedule, Send};

/// Activities that one core simulates in a second, and what a run takes besides (building, checking, reporting), for
/// estimates: measured on one core of a cloud machine over pipelines of 8 to 64 stages.
const ACTIVITIES_PER_SECOND: f64 = 8e6;
const SECONDS_PER_RUN: f64 = 2e-4;

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
            let activities = workloads::plan::estimate(&pipeline_plan(&resolved.scenario)).activities;
            if activities > run.limit.get() {
                too_large = too_large.max(Some((activities, run.limit.get(), name)));
            }
            plan.runs += run.seeds.get();
            plan.stages += resolved.scenario.stages() as u64;
            plan.activities = plan.activities.saturating_add(activities.saturating_mul(run.seeds.get()));
        }
    }
    if let Some((activities, limit, variant)) = too_large {
        return Err(Refusal::TooLarge { variant: variant.to_owned(), activities, limit });
    }
    plan.estimated_s = plan.activities as f64 / ACTIVITIES_PER_SECOND + plan.runs as f64 * SECONDS_PER_RUN;
    Ok(plan)
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

/// Steps simulated, warm-up included.
pub(super) fn steps(scenario: &Scenario) -> u32 {
    (scenario.run.steps.warm_up.get() + scenario.run.steps.measured.get()) as u32
}

/// Micro-batches between two flushes: those of a step, or of all steps where training does not flush.
pub(super) fn micro_batches_per_flush(scenario: &Scenario) -> u32 {
    let per_step = scenario.training.micro_batches() as u32;
    if scenario.training.flush { per_step } else { per_step.saturating_mul(steps(scenario)) }
}

/// The plan of a scenario.
pub(super) fn pipeline_plan(scenario: &Scenario) -> PipelinePlan {
    let techniques = &scenario.techniques;
    let stages = scenario.stages() as u32;
    PipelinePlan {
        model: profiled_pipeline(scenario),
        micro_batches: micro_batches_per_flush(scenario),
        schedule: schedule(scenario),
        send: match scenario.parallelism.send {
            Send::Latency => SendMode::Latency,
            Send::Eager => SendMode::Eager,
            Send::Rendezvous => SendMode::Rendezvous,
        },
        steps: if scenario.training.flush { steps(scenario) } else { 1 },
        recompute: techniques.recompute.as_ref().map(|recompute| Recompute {
            stages: Some((0..stages).filter(|&stage| recompute.stages.contains(stage as usize)).collect()),
            keeps: recompute
                .keeps
                .iter()
                .flat_map(|keeps| (0..stages).map(|s| keeps.at(s as usize).bytes()))
                .collect(),
        }),
        bpipe: techniques.bpipe.as_ref().map(|bpipe| Bpipe {
            policy: match bpipe.policy {
                EvictionPolicy::EvictNewest => bpipe::EvictionPolicy::EvictNewest,
                EvictionPolicy::EveryMicroBatch => bpipe::EvictionPolicy::EveryMicroBatch,
            },
            bound: bpipe.bound.map(|bound| bound.get() as u32),
        }),
    }
}

fn profiled_pipeline(scenario: &Scenario) -> ProfiledPipeline {
    let Model::ProfiledPipeline(pipeline) = &scenario.model;
    let recompute = scenario.techniques.recompute.as_ref().and_then(|recompute| recompute.forward.as_ref());
    let stage = |stage: usize| StageProfile {
        forward: Time(pipeline.forward.at(stage).picoseconds()),
        backward_input: Time(pipeline.backward_input.at(stage).picoseconds()),
        backward_weight: Time(pipeline.backward_weight.at(stage).picoseconds()),
        transfer: Time(pipeline.transfer.at(stage).picoseconds()),
        recompute: recompute.map(|forward| Time(forward.at(stage).picoseconds())),
        activation: pipeline.activation.at(stage).bytes(),
        activation_kept_for_weight: pipeline
            .activation_kept_for_weight
            .as_ref()
            .map(|kept| kept.at(stage).bytes()),
        weights: pipeline.weights.as_ref().map_or(0, |weights| weights.at(stage).bytes()),
    };
    let transfer = scenario.techniques.bpipe.as_ref().map(|bpipe| bpipe.transfer);
    ProfiledPipeline {
        stages: (0..scenario.stages()).map(stage).collect(),
        capacity: scenario.memory_per_stage(),
        partner_link: match transfer {
            Some(PairTransfer::Rate(rate)) => PartnerLink::Rate(rate.bytes_per_second() as f64),
            _ => PartnerLink::Hidden,
        },
    }
}

fn schedule(scenario: &Scenario) -> PipelineSchedule {
    match &scenario.parallelism.schedule {
        Schedule::OneForwardOneBackward => PipelineSchedule::OneFOneB,
        Schedule::Gpipe => PipelineSchedule::Gpipe,
        Schedule::Interleaved(interleaved) => {
            PipelineSchedule::Interleaved { chunks: interleaved.chunks.get() as u32 }
        }
        Schedule::ZbH1 => PipelineSchedule::ZbH1,
        Schedule::ZbH2 => PipelineSchedule::ZbH2,
        Schedule::ZbV => PipelineSchedule::ZbV,
        Schedule::ZbAuto(auto) => PipelineSchedule::ZbAuto {
            memory_limit: match auto.memory_limit {
                MemoryAllowance::MicroBatches(count) => MemoryLimit::MicroBatches(count.get() as u32),
                MemoryAllowance::PerStage(count) => {
                    MemoryLimit::MicroBatches((count.get() * scenario.stages() as u64) as u32)
                }
                MemoryAllowance::Bytes(bytes) => MemoryLimit::Bytes(bytes.bytes()),
            },
        },
    }
}
