//! Recomputation within a block: operators of its forward pass that its backward pass executes
//! again.

use std::collections::BTreeSet;

use crate::graph::block::Block;
use crate::graph::operator::{CollectiveKind, Operator, TensorId, Work};

use super::Mode;
use super::modules::{Checkpoint, Modules, RecomputeModule};

/// A block that recomputes.
pub fn recomputed(block: &Block, mode: Mode) -> Block {
    let mut block = block.clone();
    let Block { forward, backward, .. } = &block;
    if backward.is_empty() {
        return block;
    }
    let operators = match mode {
        Mode::None => return block,
        Mode::Selective => return checkpointed(block, Modules::from_iter([RecomputeModule::CoreAttention])),
        Mode::Modules(modules) => return checkpointed(block, modules),
        Mode::Full => (0..forward.len()).collect(),
        Mode::FullEarlyStop => (0..needed(&block)).collect(),
        Mode::Operators => unkept(&block),
    };
    block.rematerialize(operators, 0);
    block
}

/// A block whose modules recompute, each when autograd reaches the gradient of what is
/// checkpointed.
fn checkpointed(mut block: Block, modules: Modules) -> Block {
    for Checkpoint { operators, before } in modules.checkpoints() {
        let is_before = |op: &Operator| before.iter().any(|module| op.is_of(*module));
        let Some(before) = block.backward.iter().position(is_before) else { continue };
        let again: Vec<usize> =
            (0..block.forward.len()).filter(|&n| block.forward[n].is_of(*operators)).collect();
        block.rematerialize(again, before);
    }
    block
}

/// Operators of the forward pass up to the last that fills what the backward pass reads.
fn needed(Block { forward, backward, .. }: &Block) -> usize {
    let read = |id: &TensorId| backward.iter().any(|op| op.reads.contains(id));
    forward.iter().rposition(|op| op.writes.iter().any(read)).map_or(0, |last| last + 1)
}

/// Operators of the forward pass but those whose results torchtitan's `selective` with option `op`
/// keeps (attention, every second product beginning with the first, reduce-scatters), and but those
/// that nobody needs then.
fn unkept(Block { forward, backward, .. }: &Block) -> Vec<usize> {
    let (mut products, mut kept) = (0, BTreeSet::<TensorId>::new());
    let executed = |op: &Operator| {
        // A product in pieces is one: the first allocates its result.
        products += u32::from(matches!(op.work, Work::Gemm(_)) && !op.writes.is_empty());
        let keeps = match op.work {
            Work::Gemm(_) => products % 2 == 1 && !op.writes.is_empty(),
            Work::Attention(_) => true,
            Work::Collective(collective) => collective.kind == CollectiveKind::ReduceScatter,
            _ => false,
        };
        if keeps {
            kept.extend(&op.writes);
        }
        // What has changed a kept tensor in place has done so for good.
        let for_good = op.writes.is_empty() && changed(op).iter().any(|id| kept.contains(id));
        !(keeps || for_good)
    };
    let executed: Vec<bool> = forward.iter().map(executed).collect();
    let mut needed: BTreeSet<TensorId> = backward.iter().flat_map(|op| &op.reads).copied().collect();
    let mut unkept = Vec::new();
    for (n, op) in forward.iter().enumerate().rev().filter(|&(n, _)| executed[n]) {
        if changed(op).iter().any(|id| needed.contains(id)) {
            needed.extend(&op.reads);
            unkept.push(n);
        }
    }
    unkept.reverse();
    unkept
}

/// Tensors that an operator fills, or changes in place: a piece of a product, the last it reads.
fn changed(op: &Operator) -> &[TensorId] {
    match op.work {
        _ if !op.writes.is_empty() => &op.writes,
        Work::Gemm(_) => &op.reads[op.reads.len().saturating_sub(1)..],
        _ => &op.reads,
    }
}
