//! 1F1B (PipeDream-flush, Narayanan et al. 2021): at most `p - s` micro-batches in flight on stage `s`.

use super::{Shape, Visit, one_forward_one_backward};
use crate::graph::Phase;

/// The visits of a stage: `min(p - s - 1, m)` forwards, then pairs, then the remaining backwards.
pub(super) fn stage(shape: Shape, stage: u32) -> Vec<Visit> {
    let warm_up = shape.stages() - stage - 1;
    let visit = |phase| move |i| Visit::new(phase, 0, i);
    one_forward_one_backward(warm_up, shape.micro_batches, visit(Phase::Forward), visit(Phase::Backward))
}
