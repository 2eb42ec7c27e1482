//! Interleaved 1F1B (Narayanan et al. 2021): each stage has several chunks and works through the micro-batches in groups
//! of `p`, one chunk after the other. The bubble shrinks by the number of chunks, the traffic grows by it.

use super::{Shape, Visit, one_forward_one_backward};
use crate::graph::Phase;

/// The visits of a stage, in the order of Megatron-LM; micro-batches must be a multiple of the stages.
pub(super) fn stage(shape: Shape, stage: u32) -> Vec<Visit> {
    let (stages, chunks) = (shape.stages(), shape.chain.chunks);
    let warm_up = (stages - stage - 1) * 2 + (chunks - 1) * stages;
    let group = stages * chunks;
    // The k-th visit of a phase, by group of p x v, chunk, and micro-batch within the group.
    let visit = |phase, k: u32| {
        let (chunk, micro_batch) = (k % group / stages, k / group * stages + k % stages);
        let chunk = if phase == Phase::Forward { chunk } else { chunks - 1 - chunk };
        Visit::new(phase, chunk, micro_batch)
    };
    one_forward_one_backward(
        warm_up,
        shape.micro_batches * chunks,
        |k| visit(Phase::Forward, k),
        |k| visit(Phase::Backward, k),
    )
}
