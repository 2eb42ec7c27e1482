//! ZB-auto: the heuristic of Qi et al. 2024, section 3.1. Micro-batch by micro-batch a wave of forwards runs down the
//! stages and a wave of input gradients comes back; weight gradients go where a stage would wait or has no memory left.
//! With a limit of `p` micro-batches it gives their ZB-1p, with `2 p` their ZB-2p (found there with an integer program
//! on top).

use sim_core::time::Time;

use super::draft::{Draft, Overfill, Timing};
use super::{Order, Shape};
use crate::graph::Phase::{BackwardInput, Forward};

/// The binary choices of the heuristic; all are tried.
#[derive(Clone, Copy, Debug)]
struct Options {
    /// One more forward in the warm-up even if it delays the first input gradient.
    deep_warm_up: bool,
    /// Put a forward off if the stage after has enough of them and its gradient would be kept waiting.
    gradients_first: bool,
    /// What to do about gaps shorter than a weight gradient.
    overfill: Overfill,
}

/// The best order over all options; the first of equals.
pub(super) fn order(shape: Shape, timing: &Timing) -> Order {
    let mut best: Option<Draft<'_>> = None;
    for deep_warm_up in [true, false] {
        for gradients_first in [true, false] {
            for overfill in [Overfill::Always, Overfill::IfWorst] {
                let draft = attempt(shape, timing, Options { deep_warm_up, gradients_first, overfill });
                if best.as_ref().is_none_or(|best| draft.cost() < best.cost()) {
                    best = Some(draft);
                }
            }
        }
    }
    best.expect("there are options to try").into_order()
}

fn attempt(shape: Shape, timing: &Timing, options: Options) -> Draft<'_> {
    let mut draft = Draft::new(shape, timing);
    warm_up(&mut draft, options);
    for _ in 1..shape.micro_batches {
        forward_wave(&mut draft, options);
        backward_wave(&mut draft, options);
    }
    for stage in 0..shape.stages() {
        draft.flush_weights(stage);
    }
    draft
}

/// The first forward everywhere, as many more as memory and the time until the first gradient allow, that gradient.
fn warm_up(draft: &mut Draft<'_>, options: Options) {
    let (stages, micro_batches) = (draft.shape.stages(), draft.shape.micro_batches);
    for stage in 0..stages {
        draft.place(stage, Forward, 0);
    }
    let mut extra = vec![0u32; stages as usize];
    let mut gradient = Time::ZERO; // When the first gradient of the stage after leaves, plus its message.
    for stage in (0..stages).rev() {
        let at = stage as usize;
        let (mut clock, mut memory) = (draft.clock(stage), draft.memory(stage));
        let (timing, limit) = (draft.at(stage, 0), draft.timing.limit[at]);
        let last = stage + 1 == stages;
        while !last && 1 + extra[at] < micro_batches && memory.saturating_add(timing.activation) <= limit {
            let too_late = if options.deep_warm_up {
                clock >= gradient
            } else {
                clock.saturating_add(timing.forward) > gradient
            };
            // Forwards that take no time would never be too late.
            if too_late || timing.forward == Time::ZERO && extra[at] >= stages {
                break;
            }
            memory = memory.saturating_add(timing.activation);
            clock = clock.saturating_add(timing.forward);
            extra[at] += 1;
        }
        let message = if stage > 0 { draft.at(stage - 1, 0).message } else { Time::ZERO };
        gradient = clock.max(gradient).saturating_add(timing.backward_input).saturating_add(message);
    }
    // Every stage keeps at least one more forward in flight than the next, unless it has done all.
    for at in 1..extra.len() {
        if extra[at] >= extra[at - 1] && 1 + extra[at] < micro_batches {
            extra[at] = extra[at - 1].saturating_sub(1);
        } else {
            extra[at] = extra[at].min(extra[at - 1]);
        }
    }
    for stage in 0..stages {
        for _ in 0..extra[stage as usize] {
            draft.place(stage, Forward, 0);
        }
    }
    for stage in (0..stages).rev() {
        draft.place(stage, BackwardInput, 0);
    }
}

/// At most one more forward on every stage.
fn forward_wave(draft: &mut Draft<'_>, options: Options) {
    let (stages, micro_batches) = (draft.shape.stages(), draft.shape.micro_batches);
    let mut takes: Vec<bool> = (0..stages)
        .map(|stage| {
            draft.forwards(stage, 0) < micro_batches && !(options.gradients_first && can_wait(draft, stage))
        })
        .collect();
    // A stage whose successor takes none this time would only pile up activations.
    for stage in (0..takes.len() - 1).rev() {
        takes[stage] &= takes[stage + 1];
    }
    for stage in (0..stages).filter(|&stage| takes[stage as usize]) {
        // The round before ended with an input gradient, so its weight gradient can make room for one forward.
        draft.make_room(stage, Forward, 0);
        if let Some(arrival) = draft.arrival(stage, Forward, 0) {
            draft.fill(stage, arrival, options.overfill);
            draft.place(stage, Forward, 0);
        }
    }
}

/// Whether a stage does better to keep itself free for the gradient that comes next.
fn can_wait(draft: &Draft<'_>, stage: u32) -> bool {
    let next = stage + 1;
    if next >= draft.shape.stages() || draft.forwards(stage, 0) < draft.forwards(next, 0) + 2 {
        return false;
    }
    let (own, after) = (draft.at(stage, 0), draft.at(next, 0));
    let gradient = draft
        .clock(next)
        .saturating_add(after.forward)
        .saturating_add(after.backward_input)
        .saturating_add(own.message);
    // How many weight gradients must make room first.
    let limit = draft.timing.limit[stage as usize];
    let over = draft.memory(stage).saturating_add(own.activation).saturating_sub(limit);
    let weights = Time(own.backward_weight.0.saturating_mul(over.div_ceil(own.kept_for_weight.max(1))));
    let clock = draft.clock(stage);
    let in_time = clock.saturating_add(own.forward).saturating_add(weights) <= gradient;
    clock >= gradient || !in_time && gradient - clock <= draft.slack(stage)
}

/// One input gradient on every stage, from the last to the first.
fn backward_wave(draft: &mut Draft<'_>, options: Options) {
    for stage in (0..draft.shape.stages()).rev() {
        draft.make_room(stage, BackwardInput, 0);
        if let Some(arrival) = draft.arrival(stage, BackwardInput, 0) {
            draft.fill(stage, arrival, options.overfill);
        }
        if stage == 0 && draft.forwards(0, 0) == draft.shape.micro_batches {
            draft.flush_weights(0);
        }
        draft.place(stage, BackwardInput, 0);
    }
}
