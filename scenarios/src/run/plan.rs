//! From a scenario to a plan of the workloads, and what running an experiment takes.

use serde::Serialize;
use sim_core::time::Time;
use workloads::cost::PartnerLink;
use workloads::model::profiled::{ProfiledPipeline, StageProfile};
use workloads::order::{MemoryLimit, PipelineSchedule};
use workloads::plan::PipelinePlan;
use workloads::realise::messages::SendMode;
use workloads::techniques::bpipe::{self, Bpipe};
use workloads::techniques::recompute::Recompute;

use super::{Options, Refusal, selected};
use crate::experiment::Experiment;
use crate::schema::{EvictionPolicy, MemoryAllowance, Model, PairTransfer, Scenario, Schedule, Send};

/// Activities that one core simulates in a second, for estimates: what a laptop reaches.
const ACTIVITIES_PER_SECOND: f64 = 4e6;

/// What running an experiment takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Points of the sweep.
    pub points: u64,
    /// Simulations: variants times points, times seeds.
    pub runs: u64,
    /// Runs whose sizes do not multiply.
    pub infeasible: u64,
    /// Activities of all runs, at most.
    pub activities: u64,
    /// Seconds on one core, roughly.
    pub estimated_s: f64,
}

/// Sizes up an experiment without building anything.
///
/// # Errors
/// A variant that does not exist, or a run above its limit.
pub fn plan(experiment: &Experiment, options: &Options) -> Result<Plan, Refusal> {
    let mut plan = Plan { points: 0, runs: 0, infeasible: 0, activities: 0, estimated_s: 0.0 };
    let variants = selected(experiment, options)?;
    for point in experiment.points() {
        plan.points += 1;
        for variant in &variants {
            let Ok(resolved) = experiment.resolve(variant, &point) else {
                plan.infeasible += 1;
                continue;
            };
            let scenario = &resolved.scenario;
            let activities = workloads::plan::estimate(&pipeline_plan(scenario)).activities;
            let limit = scenario.run.limit.get();
            if activities > limit {
                return Err(Refusal::TooLarge { variant: (*variant).to_owned(), activities, limit });
            }
            let seeds = scenario.run.seeds.get();
            plan.runs += seeds;
            plan.activities = plan.activities.saturating_add(activities.saturating_mul(seeds));
        }
    }
    plan.estimated_s = plan.activities as f64 / ACTIVITIES_PER_SECOND;
    Ok(plan)
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
