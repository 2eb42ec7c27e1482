//! GPipe (Huang et al. 2019): all forwards, then all backwards.

use super::{Shape, Visit};
use crate::graph::Phase;

/// The visits of a stage. Backwards come in the order of the forwards: their time is the same in either order, and
/// messages then arrive in the order they are sent.
pub(super) fn stage(shape: Shape, _stage: u32) -> Vec<Visit> {
    let all = |phase| (0..shape.micro_batches).map(move |i| Visit::new(phase, 0, i));
    all(Phase::Forward).chain(all(Phase::Backward)).collect()
}
