//! The hand-made zero-bubble orders (Qi et al. 2024, section 2): the weight gradient is an operation of its own and fills
//! the time in which 1F1B waits.

use super::{Shape, Visit};
use crate::graph::Phase;

/// ZB-H1: the memory of 1F1B. Stage `s` has `p - s` forwards in flight and puts weight gradients off by `s`
/// micro-batches; the bubble is `(p - 1)(F + B - W)`.
pub(super) fn h1(shape: Shape, stage: u32) -> Vec<Visit> {
    delayed_weights(shape, shape.stages() - stage, stage)
}

/// ZB-H2: twice the depth. Stage `s` has `2 (p - s) - 1` forwards in flight and puts weight gradients off by `2 s`
/// micro-batches; the bubble is `(p - 1)(F + B - 2 W)`.
pub(super) fn h2(shape: Shape, stage: u32) -> Vec<Visit> {
    delayed_weights(shape, 2 * (shape.stages() - stage) - 1, 2 * stage)
}

/// `depth` forwards first; then for each micro-batch its input gradient, the weight gradient of the one `delay` before
/// it, and the next forward. The late stages skip their first weight gradients, which makes up for their late start,
/// and do them at the end, when the early stages are still busy.
fn delayed_weights(shape: Shape, depth: u32, delay: u32) -> Vec<Visit> {
    let m = shape.micro_batches;
    let mut visits = Vec::with_capacity(3 * m as usize);
    visits.extend((0..depth.min(m)).map(|i| Visit::new(Phase::Forward, 0, i)));
    for i in 0..m {
        visits.push(Visit::new(Phase::BackwardInput, 0, i));
        if i >= delay {
            visits.push(Visit::new(Phase::BackwardWeight, 0, i - delay));
        }
        if i + depth < m {
            visits.push(Visit::new(Phase::Forward, 0, i + depth));
        }
    }
    visits.extend((m.saturating_sub(delay)..m).map(|i| Visit::new(Phase::BackwardWeight, 0, i)));
    visits
}
