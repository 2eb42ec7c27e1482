//! Compiled execution: regions of a path between what a compiler of Python cannot trace. Guards
//! decide which compiled region an iteration enters; a path that none was compiled for is compiled.
//!
//! The backward pass of a region is a region, and the update stays eager, as `torch.compile` of a
//! model leaves it.

use sim_core::time::Time;

use super::{Captured, Ran, eager};
use crate::program::issuer::{Issuer, Part};
use crate::program::path::{Region, Step, What};

/// Executes an iteration.
pub(super) fn iteration(captured: &mut Captured, issuer: &mut Issuer<'_>, path: &[Step]) -> Ran {
    // The region of a forward pass that is not executed yet.
    let mut forward: Vec<Region> = Vec::new();
    let mut tape = Tape::default();
    for step in path {
        match step.what {
            What::Run(region @ (Region::Forward(_) | Region::Fragment(_))) => {
                leave_backward(captured, issuer, &mut tape);
                forward.push(region);
            }
            What::Run(region @ (Region::Backward(_) | Region::FragmentBackward(_))) => {
                leave_forward(captured, issuer, &mut forward, &mut tape);
                tape.backward.push(region);
            }
            // Traced, and so no longer there.
            What::Python(_) | What::Mutate => {}
            what => {
                leave_forward(captured, issuer, &mut forward, &mut tape);
                leave_backward(captured, issuer, &mut tape);
                match what {
                    What::Run(region) => issuer.eager(region, Time::ZERO),
                    what => {
                        issuer.issuing(None);
                        eager::python(issuer, what);
                    }
                }
            }
        }
    }
    leave_forward(captured, issuer, &mut forward, &mut tape);
    leave_backward(captured, issuer, &mut tape);
    issuer.issuing(None);
    captured.ran()
}

/// Backward passes that are to come, and what of them is not executed yet.
#[derive(Default)]
struct Tape {
    /// Lengths of the regions that have run forward since the last backward pass.
    forward: Vec<usize>,
    backward: Vec<Region>,
}

/// Executes the region of a forward pass that ends here.
fn leave_forward(
    captured: &mut Captured,
    issuer: &mut Issuer<'_>,
    forward: &mut Vec<Region>,
    tape: &mut Tape,
) {
    let region = std::mem::take(forward);
    if region.is_empty() {
        return;
    }
    let thread = issuer.issuing(None);
    captured.make(issuer, thread, &region);
    let enter = issuer.costs.framework.enter_region.time();
    issuer.work(thread, Part::Python, enter);
    issuer.execute(thread, &region);
    tape.forward.push(region.len());
}

/// Executes a backward pass: a region for each of the forward pass, the last one first.
fn leave_backward(captured: &mut Captured, issuer: &mut Issuer<'_>, tape: &mut Tape) {
    let backward = std::mem::take(&mut tape.backward);
    let mut rest = &backward[..];
    while !rest.is_empty() {
        let length = tape.forward.pop().unwrap_or(rest.len());
        let (region, others) = rest.split_at(length.clamp(1, rest.len()));
        rest = others;
        let thread = issuer.issuing(region.first().copied());
        captured.make(issuer, thread, region);
        let engine = issuer.costs.framework.engine.time();
        issuer.work(thread, Part::Python, engine);
        issuer.execute(thread, region);
    }
}
