//! Launches of what stages of a pipeline exchange once a step: at about the same time on all of
//! them, so that what it costs their passes holds up no neighbour. The rules are Megatron-LM's
//! (`param_sync_func` and `grad_sync_func` of `core/pipeline_parallel/schedules.py`, Apache-2.0,
//! NVIDIA/Megatron-LM at 85bd1f9; `align_param_gather` and `align_grad_reduce`):
//!
//! | what | launched |
//! |---|---|
//! | parameters of the first two chunks of a stage | when the step begins |
//! | of a later chunk | on stage `r`: `r` forward passes before the first pass of the chunk before |
//! | gradients of a chunk | on stage `r`: after `r` backward passes more than its last, or after all |
//! | of the only chunk of the first stage | bucket by bucket, in its last backward pass |
//!
//! On stage `r` micro-batches arrive `r` passes after the first stage on the way forward, and as
//! many before it on the way back. The only chunk of a stage has its parameters gathered as its
//! passes need them.

use std::collections::BTreeMap;

use crate::schedule::{Item, Lane};

/// An item of a call of a compute lane, before which something is launched.
pub(super) type Place = (usize, usize);

/// Places where all gathers of each of the `passes` of the first micro-batch are launched; empty
/// for a stage with one chunk. `passes` are the calls with parameters to gather, in their order.
pub(super) fn gathers(compute: &Lane, passes: &[usize]) -> BTreeMap<usize, Place> {
    let is_first = |&pass: &usize| compute.calls[passes[pass]].micro_batch == 0;
    let chunks: Vec<usize> = (0..passes.len()).filter(is_first).collect();
    if chunks.len() < 2 {
        return BTreeMap::new();
    }
    let launched = |chunk: usize| match chunk {
        0 | 1 => (0, 0),
        _ => {
            let call = passes[chunks[chunk - 1].saturating_sub(compute.stage as usize)];
            let items = &compute.blocks[compute.calls[call].block as usize].items;
            (call, items.iter().position(|item| matches!(item, Item::Execute(_))).unwrap_or(0))
        }
    };
    chunks.iter().enumerate().map(|(chunk, &pass)| (passes[pass], launched(chunk))).collect()
}

/// Places where all sums of each of the `passes` of the `last` micro-batch are launched; empty for
/// the only chunk of the first stage. `passes` are the calls with gradients to sum, in their order.
pub(super) fn sums(compute: &Lane, passes: &[usize], last: u32) -> BTreeMap<usize, Place> {
    let is_last = |&pass: &usize| compute.calls[passes[pass]].micro_batch == last;
    let chunks: Vec<usize> = (0..passes.len()).filter(is_last).collect();
    let stage = compute.stage as usize;
    if stage == 0 && chunks.len() < 2 {
        return BTreeMap::new();
    }
    let after = |call: usize| (call, compute.blocks[compute.calls[call].block as usize].items.len());
    // The last call of a compute lane is the end of the step.
    let end = (compute.calls.len() - 1, 0);
    chunks
        .iter()
        .map(|&pass| (passes[pass], passes.get(pass + stage).map_or(end, |&call| after(call))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::OpId;
    use crate::schedule::{Call, LaneKind};

    /// Stages, chunks of each and micro-batches, which stages divide.
    type Size = (usize, usize, usize);

    /// The forward passes of a stage, and its backward passes, as Megatron-LM counts them: the chunk
    /// of each (`get_model_chunk_id`).
    fn chunk((stages, chunks, _): Size, pass: usize, forward: bool) -> usize {
        let chunk = pass % (stages * chunks) / stages;
        if forward { chunk } else { chunks - chunk - 1 }
    }

    /// A compute lane that makes only forward or only backward passes, then ends the step; a pass
    /// receives, executes and sends.
    fn lane(stage: usize, size @ (stages, chunks, micro_batches): Size, forward: bool) -> Lane {
        let mut lane = Lane::new(stage as u32, LaneKind::Compute);
        let signal = |n| Item::Signal(crate::schedule::SignalId(n));
        for chunk in 0..chunks as u32 {
            lane.block("pass", vec![signal(0), Item::Execute(OpId(chunk)), signal(1)]);
        }
        let end = lane.block("end of step", vec![Item::Execute(OpId(chunks as u32))]);
        for pass in 0..chunks * micro_batches {
            let micro_batch = pass / (stages * chunks) * stages + pass % stages;
            let block = chunk(size, pass, forward) as u32;
            lane.calls.push(Call { block, micro_batch: micro_batch as u32, number: 0 });
        }
        lane.calls.push(Call { block: end, micro_batch: micro_batches as u32 - 1, number: 0 });
        lane
    }

    fn sizes() -> impl Iterator<Item = (usize, Size)> {
        let sizes = [(2, 2, 2), (4, 2, 8), (4, 3, 4), (8, 12, 16)];
        sizes.into_iter().flat_map(|size| (0..size.0).map(move |stage| (stage, size)))
    }

    /// By the words of `forward_step_helper`: `param_sync_microbatch_id`, and the two chunks before.
    #[test]
    fn gathers_are_launched_as_by_megatron() {
        for (stage, size @ (stages, chunks, micro_batches)) in sizes() {
            let lane = lane(stage, size, true);
            let passes: Vec<usize> = (0..chunks * micro_batches).collect();
            let is_first = |pass: usize| pass < stages * chunks && pass.is_multiple_of(stages);
            let mut expected = BTreeMap::from([(0, (0, 0)), (stages, (0, 0))]);
            for pass in passes.iter().copied() {
                let ahead = pass + stage;
                if ahead < passes.len() && is_first(ahead) {
                    let next = chunk(size, ahead, true) + 1;
                    if 1 < next && next < chunks {
                        expected.insert(next * stages, (pass, 1));
                    }
                }
            }
            assert_eq!(gathers(&lane, &passes), expected, "stage {stage} of {size:?}");
        }
    }

    /// By the words of `backward_step_helper`: `grad_sync_microbatch_id`, and what remains after it.
    #[test]
    fn sums_are_launched_as_by_megatron() {
        for (stage, size @ (stages, chunks, micro_batches)) in sizes() {
            let lane = lane(stage, size, false);
            let passes: Vec<usize> = (0..chunks * micro_batches).collect();
            let groups = micro_batches / stages;
            let is_last = |pass: usize| pass / (stages * chunks) == groups - 1 && pass % stages == stages - 1;
            let mut expected = BTreeMap::new();
            for pass in passes.iter().copied() {
                if pass >= stage && is_last(pass - stage) {
                    expected.insert(pass - stage, (pass, 3));
                }
            }
            for pass in passes.iter().copied().filter(|&pass| is_last(pass)) {
                expected.entry(pass).or_insert((passes.len(), 0));
            }
            assert_eq!(sums(&lane, &passes, micro_batches as u32 - 1), expected, "stage {stage} of {size:?}");
        }
    }

    /// A stage with one chunk gathers as it comes to its blocks; the first of them sums as buckets are
    /// filled, the others when all of their backward passes are done.
    #[test]
    fn one_chunk_is_aligned_by_its_sums() {
        let size = (4, 1, 8);
        let passes: Vec<usize> = (0..8).collect();
        for stage in 0..4 {
            assert!(gathers(&lane(stage, size, true), &passes).is_empty());
            let expected = if stage == 0 { BTreeMap::new() } else { BTreeMap::from([(7, (8, 0))]) };
            assert_eq!(sums(&lane(stage, size, false), &passes, 7), expected);
        }
    }
}
