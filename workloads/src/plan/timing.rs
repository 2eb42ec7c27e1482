//! What heuristic orders are told: durations by position of the chain, sizes and limits of activations.

use std::collections::BTreeSet;

use sim_core::time::Time;

use crate::chain::Chain;
use crate::cost::CostBook;
use crate::graph::operator::Work;
use crate::graph::{Op, OpGraph, OpId, Phase, StorageId};
use crate::order::{ChunkTiming, MemoryAllowance, PipelineSchedule, Timing};

/// Bytes that one micro-batch of one chunk holds.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// From the forward pass on.
    held: u64,
    /// From right before the input gradient, because they are recomputed.
    recomputed: u64,
    /// From the input to the weight gradient.
    kept: u64,
}

/// Where the profile gives no sizes they are in proportion to what a transformer layer holds without attention scores, 34
/// s b h, of which the weight gradient needs 32 (Qi et al. 2024, section 3.2).
const UNKNOWN: Sizes = Sizes { held: 34, recomputed: 0, kept: 32 };

/// The timing of a plan whose recomputation has been decided.
pub(crate) fn timing(schedule: &PipelineSchedule, chain: Chain, graph: &OpGraph, costs: &CostBook) -> Timing {
    let sizes = |stage, chunk| {
        let activation: u64 =
            (0..chain.chunks).map(|chunk| sizes(graph, stage, chunk)).map(|s| s.held + s.recomputed).sum();
        if activation > 0 { sizes(graph, stage, chunk) } else { UNKNOWN }
    };
    let chunk = |position| {
        let (stage, chunk) = (chain.stage(position), chain.chunk(position));
        let duration = |phase| {
            let ops = graph.visit(stage, chunk, phase).iter();
            ops.fold(Time::ZERO, |sum, &op| sum.saturating_add(costs.alone(graph.get(op))))
        };
        let Sizes { held, kept, .. } = sizes(stage, chunk);
        ChunkTiming {
            forward: duration(Phase::Forward),
            backward_input: duration(Phase::BackwardInput),
            backward_weight: duration(Phase::BackwardWeight),
            message: chain.hop(position).map(|hop| costs.message(hop).alone()).unwrap_or_default(),
            activation: held,
            kept_for_weight: kept,
        }
    };
    let limit = |stage| {
        let of_chunk = |chunk| sizes(stage, chunk);
        let activation: u64 = (0..chain.chunks).map(of_chunk).map(|s| s.held + s.recomputed).sum();
        let limit = match *schedule {
            PipelineSchedule::ZbAuto(auto) => match auto.memory_limit {
                MemoryAllowance::MicroBatches(count) => activation.saturating_mul(count.get()),
                MemoryAllowance::PerStage(count) => {
                    activation.saturating_mul(count.get() * u64::from(chain.stages))
                }
                MemoryAllowance::Bytes(bytes) => bytes.bytes(),
            },
            _ => activation.saturating_mul(u64::from(chain.stages)),
        };
        // One chunk at a time also holds what it recomputes.
        let at_once = (0..chain.chunks).map(|chunk| sizes(stage, chunk).recomputed).max().unwrap_or(0);
        limit.saturating_sub(at_once)
    };
    Timing {
        chunks: (0..chain.positions()).map(chunk).collect(),
        limit: (0..chain.stages).map(limit).collect(),
    }
}

/// Bytes that a micro-batch of a chunk holds from its forward pass on.
pub(super) fn held(graph: &OpGraph, stage: u32, chunk: u32) -> u64 {
    activations(graph, graph.visit(stage, chunk, Phase::Forward))
}

/// Bytes of the activations that operators read or fill.
fn activations(graph: &OpGraph, ops: &[OpId]) -> u64 {
    let used = ops.iter().flat_map(|&op| graph.get(op).uses()).copied();
    distinct(graph, used.filter(|&storage| graph.stored(storage).purpose.is_activation()))
}

/// Bytes of storages, each once.
pub(super) fn distinct(graph: &OpGraph, storages: impl Iterator<Item = StorageId>) -> u64 {
    storages.collect::<BTreeSet<_>>().iter().map(|&it| graph.stored(it).bytes).sum()
}

fn sizes(graph: &OpGraph, stage: u32, chunk: u32) -> Sizes {
    let ops = |phase| graph.visit(stage, chunk, phase).iter().map(|&op| graph.get(op));
    // Of layers no more is there at a time than each needs.
    let whole =
        |op: &&Op| op.phase == Phase::Recompute && matches!(graph.work_of(op).work, Work::Opaque { .. });
    Sizes {
        held: held(graph, stage, chunk),
        recomputed: distinct(
            graph,
            ops(Phase::BackwardInput).filter(whole).flat_map(|op| &op.writes).copied(),
        ),
        kept: activations(graph, graph.visit(stage, chunk, Phase::BackwardWeight)),
    }
}
