//! How the stages of a pipeline work together, whatever they compute.

use workloads::model::hosted::ParametersAt;
use workloads::order::{MemoryLimit, PipelineSchedule};
use workloads::plan::Pipelining;
use workloads::techniques::bpipe::Bpipe;
use workloads::techniques::offload::{ActivationOffload, Keep};
use workloads::techniques::swap::Swap;
use workloads::techniques::zero_infinity::ZeroInfinity;
use workloads::techniques::zero_offload::ZeroOffload;

use crate::schema::{self, Bytes, KeptParameters, MemoryAllowance, Outside, Scenario, Schedule};

/// Tensors that are offloaded, at least (bytes): 8 Mi elements of two bytes (SSDTrain).
const SMALLEST_OFFLOADED: u64 = 16 << 20;

/// Order, messages and techniques of a scenario.
pub(crate) fn pipelining(scenario: &Scenario) -> Pipelining {
    Pipelining {
        micro_batches: micro_batches_per_flush(scenario),
        schedule: schedule(scenario),
        send: scenario.parallelism.send.unwrap_or_default(),
        steps: if scenario.training.flush { steps(scenario) } else { 1 },
        bpipe: scenario
            .techniques
            .bpipe
            .as_ref()
            .map(|bpipe| Bpipe { policy: bpipe.policy, bound: bpipe.bound.map(|bound| bound.get() as u32) }),
        offload: scenario.techniques.activation_offload.as_ref().map(|offload| ActivationOffload {
            smallest: offload.smallest.map_or(SMALLEST_OFFLOADED, Bytes::bytes),
            keep: match offload.keep {
                schema::Keep::Bytes(bytes) => Keep::Bytes(bytes.bytes()),
                schema::Keep::Layers(layers) => Keep::Layers(layers.get() as u32),
                schema::Keep::LastLayer => Keep::LastLayer,
                schema::Keep::Adaptive => Keep::Adaptive,
            },
            prefetch: offload.prefetch.get() as u32,
            store: offload.store,
            forwarding: offload.forwarding,
        }),
        zero_offload: scenario.techniques.zero_offload.as_ref().map(zero_offload),
        zero_infinity: scenario.techniques.zero_infinity.as_ref().map(zero_infinity),
        swap: scenario.techniques.swap.as_ref().map(swap),
    }
}

fn swap(swap: &schema::Swap) -> Swap {
    Swap {
        engine: swap.engine,
        coordination: swap.coordination,
        prefetch: swap.prefetch.get() as u32,
        recompute: swap.recompute,
        store: swap.store,
    }
}

fn zero_infinity(settings: &schema::ZeroInfinity) -> ZeroInfinity {
    ZeroInfinity {
        parameters: match settings.parameters {
            KeptParameters::Gpu => ParametersAt::Gpu,
            KeptParameters::Host => ParametersAt::Host,
            KeptParameters::Drives => {
                ParametersAt::Drives { buffers: settings.parameter_buffers.get() as u32 }
            }
        },
        states_on_drives: settings.states == Outside::Drives,
        group: settings.group.get(),
        buffers: settings.buffers.get() as u32,
    }
}

fn zero_offload(settings: &schema::ZeroOffload) -> ZeroOffload {
    ZeroOffload { group: settings.group.get(), delayed: settings.delayed_update }
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
