//! How the stages of a pipeline work together, whatever they compute.

use workloads::order::{MemoryLimit, PipelineSchedule};
use workloads::plan::Pipelining;

use crate::schema::{MemoryAllowance, Scenario, Schedule};

/// Order, messages and techniques of a scenario.
pub(crate) fn pipelining(scenario: &Scenario) -> Pipelining {
    Pipelining {
        micro_batches: micro_batches_per_flush(scenario),
        schedule: schedule(scenario),
        send: scenario.parallelism.send.unwrap_or_default(),
        steps: if scenario.training.flush { steps(scenario) } else { 1 },
        techniques: scenario.techniques.clone(),
    }
}

/// Steps simulated, warm-up included.
pub(crate) fn steps(scenario: &Scenario) -> u32 {
    (scenario.run.steps.warm_up.get() + scenario.run.steps.measured.get()) as u32
}

/// Micro-batches between two flushes: those of a step, or of all steps where training does not flush.
pub(crate) fn micro_batches_per_flush(scenario: &Scenario) -> u32 {
    let per_step = scenario.training.micro_batches() as u32;
    if scenario.training.flush { per_step } else { per_step.saturating_mul(steps(scenario)) }
}

/// The order of a scenario.
pub(super) fn schedule(scenario: &Scenario) -> PipelineSchedule {
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
