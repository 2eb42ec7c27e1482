//! How the stages of a pipeline work together, whatever they compute.

use workloads::model::hosted::ParametersAt;
use workloads::order::{MemoryLimit, PipelineSchedule};
use workloads::passes::bpipe::{self, Bpipe};
use workloads::passes::offload::{ActivationOffload, Keep, Store};
use workloads::passes::realise::messages::SendMode;
use workloads::passes::swap::{Coordination, Engine, Swap};
use workloads::passes::zero_infinity::ZeroInfinity;
use workloads::passes::zero_offload::ZeroOffload;
use workloads::plan::{Pipelining, Techniques};

use crate::schema::{
    self, Bytes, EvictionPolicy, KeptParameters, MemoryAllowance, Outside, Scenario, Schedule, Send,
    StoreWhen, SwapCoordination, SwapEngine,
};

/// Tensors that are offloaded, at least (bytes): 8 Mi elements of two bytes (SSDTrain).
const SMALLEST_OFFLOADED: u64 = 16 << 20;

/// Order, messages and techniques of a scenario.
pub(crate) fn pipelining(scenario: &Scenario) -> Pipelining {
    Pipelining {
        micro_batches: micro_batches_per_flush(scenario),
        schedule: schedule(scenario),
        send: match scenario.parallelism.send {
            None | Some(Send::Latency) => SendMode::Latency,
            Some(Send::Eager) => SendMode::Eager,
            Some(Send::Blocking) => SendMode::Blocking,
            Some(Send::Rendezvous) => SendMode::Rendezvous,
        },
        steps: if scenario.training.flush { steps(scenario) } else { 1 },
        techniques: techniques(scenario),
    }
}

/// Techniques of a scenario.
fn techniques(scenario: &Scenario) -> Techniques {
    Techniques {
        bpipe: scenario.techniques.bpipe.as_ref().map(|bpipe| Bpipe {
            policy: match bpipe.policy {
                EvictionPolicy::EvictNewest => bpipe::EvictionPolicy::EvictNewest,
                EvictionPolicy::EveryMicroBatch => bpipe::EvictionPolicy::EveryMicroBatch,
            },
            bound: bpipe.bound.map(|bound| bound.get() as u32),
        }),
        offload: scenario.techniques.activation_offload.as_ref().map(|offload| ActivationOffload {
            smallest: offload.smallest.map_or(SMALLEST_OFFLOADED, Bytes::bytes),
            keep: match offload.keep {
                schema::Keep::Bytes(bytes) => Keep::Bytes(bytes.bytes()),
                schema::Keep::Layers(layers) => Keep::Layers(layers.get() as u32),
                schema::Keep::LastLayer => Keep::LastLayer,
                schema::Keep::Adaptive => Keep::Adaptive,
            },
            prefetch: offload.prefetch.get() as u32,
            store: store(offload.store),
            forwarding: offload.forwarding,
        }),
        zero_offload: scenario.techniques.zero_offload.as_ref().map(zero_offload),
        zero_infinity: scenario.techniques.zero_infinity.as_ref().map(zero_infinity),
        swap: scenario.techniques.swap.as_ref().map(swap),
    }
}

const fn store(when: StoreWhen) -> Store {
    match when {
        StoreWhen::Produced => Store::Produced,
        StoreWhen::LastUse => Store::LastUse,
    }
}

fn swap(swap: &schema::Swap) -> Swap {
    Swap {
        engine: match swap.engine {
            SwapEngine::Online => Engine::Online,
            SwapEngine::Greedy => Engine::Greedy,
            SwapEngine::MixedInteger => Engine::MixedInteger,
        },
        coordination: match swap.coordination {
            SwapCoordination::Oblivious => Coordination::Oblivious,
            SwapCoordination::Disjoint => Coordination::Disjoint,
            SwapCoordination::Bidirectional => Coordination::Bidirectional,
        },
        prefetch: swap.prefetch.get() as u32,
        recompute: swap.recompute,
        store: store(swap.store),
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
