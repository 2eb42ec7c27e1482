//! ZB-V (Qi et al. 2024, section 6): two chunks per stage in a V, so that each stage holds one short-lived and one
//! long-lived chunk, their sum is the same everywhere, and the last stage turns around without a message.
//!
//! Built greedily in rounds: every stage does at most one input gradient, then at most one forward, and weight gradients
//! where it would wait or has no memory left. Micro-batches run down chunk 0, up chunk 1, and back the same way.

use super::draft::{Draft, Overfill, Timing};
use super::{Order, Shape};
use crate::graph::Phase::{BackwardInput, Forward};

/// The chunk that runs from the first stage to the last in the forward direction.
const DOWN: u32 = 0;
/// The chunk that comes back.
const UP: u32 = 1;

/// Whether gaps before gradients and before forwards are filled when a weight gradient is longer than the gap.
#[derive(Clone, Copy, Debug)]
struct Options {
    before_gradients: Overfill,
    before_forwards: Overfill,
}

/// The best order over all options, each refined for as long as knowing the idle time of the last attempt helps.
pub(super) fn order(shape: Shape, timing: &Timing) -> Order {
    let mut best: Option<Draft<'_>> = None;
    for before_gradients in [Overfill::IfWorst, Overfill::Never] {
        for before_forwards in [Overfill::IfWorst, Overfill::Never] {
            let options = Options { before_gradients, before_forwards };
            let mut draft = attempt(Draft::new(shape, timing), options);
            loop {
                let again = attempt(draft.retry(), options);
                if again.cost() >= draft.cost() {
                    break;
                }
                draft = again;
            }
            if best.as_ref().is_none_or(|best| draft.cost() < best.cost()) {
                best = Some(draft);
            }
        }
    }
    best.expect("there are options to try").into_order()
}

fn attempt(mut draft: Draft<'_>, options: Options) -> Draft<'_> {
    warm_up(&mut draft);
    let (stages, micro_batches) = (draft.shape.stages(), draft.shape.micro_batches);
    while draft.backwards(0, DOWN) < micro_batches {
        let mut progress = backward_round(&mut draft, options);
        progress |= forward_round(&mut draft, options);
        if !progress {
            // Only memory can hold everything up: the forward nearest to its gradient goes over the limit.
            let stuck = (0..stages).find_map(|stage| {
                let chunk = [UP, DOWN].into_iter().find(|&c| draft.arrival(stage, Forward, c).is_some());
                chunk.map(|chunk| (stage, chunk))
            });
            let (stage, chunk) = stuck.expect("a step that is not done has a visit whose input is there");
            draft.place(stage, Forward, chunk);
        }
    }
    for stage in 0..stages {
        draft.flush_weights(stage);
    }
    draft
}

/// Forwards before the first gradient: the first micro-batch down and up, others down in the time until it returns,
/// then both chunks in turn until every stage has as many as the one before it.
fn warm_up(draft: &mut Draft<'_>) {
    let (stages, micro_batches) = (draft.shape.stages(), draft.shape.micro_batches);
    for stage in 0..stages {
        draft.place(stage, Forward, DOWN);
    }
    for stage in (0..stages).rev() {
        let returns = draft.arrival(stage, Forward, UP).expect("the stage after has sent it");
        let (timing, limit) = (draft.at(stage, DOWN), draft.timing.limit[stage as usize]);
        let reserved = timing.activation.saturating_mul(2 + 2 * u64::from(stage));
        while draft.clock(stage).saturating_add(timing.forward) <= returns
            && draft.memory(stage).saturating_add(reserved) <= limit
            && draft.forwards(stage, DOWN) < micro_batches.min(2 * stages)
        {
            for earlier in 0..=stage {
                draft.place(earlier, Forward, DOWN);
            }
        }
        draft.place(stage, Forward, UP);
    }
    let mut chunk = DOWN;
    for stage in 1..stages {
        let count = |draft: &Draft<'_>, stage| (draft.forwards(stage, DOWN), draft.forwards(stage, UP));
        loop {
            let ((down, up), (down_before, up_before)) = (count(draft, stage), count(draft, stage - 1));
            if down + up >= down_before + up_before && (up > up_before || up_before >= micro_batches) {
                break;
            }
            let mut progress = false;
            for _ in 0..2 {
                for later in (stage..stages).rev() {
                    if draft.arrival(later, Forward, chunk).is_some() && draft.fits(later, Forward, chunk) {
                        draft.place(later, Forward, chunk);
                        progress = true;
                    }
                }
                chunk = UP + DOWN - chunk;
                if progress {
                    break;
                }
            }
            if !progress {
                break;
            }
        }
    }
}

/// At most one input gradient on every stage; those on the way up first. Whether there was any.
fn backward_round(draft: &mut Draft<'_>, options: Options) -> bool {
    let stages = draft.shape.stages();
    // The gradient runs down through chunk 1 and up through chunk 0.
    let (mut ascending, mut descending) = (Vec::new(), Vec::new());
    for stage in 0..stages {
        let (down, up) = (draft.backwards(stage, UP), draft.backwards(stage, DOWN));
        let returning = up < down
            && (stage + 1 == stages
                || draft.backwards(stage + 1, DOWN) > up
                || down == draft.shape.micro_batches);
        if returning { ascending.push((stage, DOWN)) } else { descending.push((stage, UP)) }
    }
    let mut progress = false;
    for (stage, chunk) in ascending.into_iter().rev().chain(descending) {
        if let Some(arrival) = draft.arrival(stage, BackwardInput, chunk) {
            let overfill = if chunk == DOWN { Overfill::IfWorst } else { options.before_gradients };
            draft.make_room(stage, BackwardInput, chunk);
            draft.fill(stage, arrival, overfill);
            draft.place(stage, BackwardInput, chunk);
            progress = true;
        }
    }
    progress
}

/// At most one forward on every stage, the returning chunk first. Whether there was any.
fn forward_round(draft: &mut Draft<'_>, options: Options) -> bool {
    let mut progress = false;
    for stage in 0..draft.shape.stages() {
        let (down, up) = (draft.forwards(stage, DOWN), draft.forwards(stage, UP));
        let returning = up < down && draft.arrival(stage, Forward, UP).is_some();
        let chunk = if returning { UP } else { DOWN };
        let Some(arrival) = draft.arrival(stage, Forward, chunk) else { continue };
        if draft.make_room(stage, Forward, chunk) {
            draft.fill(stage, arrival, options.before_forwards);
            draft.place(stage, Forward, chunk);
            progress = true;
        }
    }
    progress
}
