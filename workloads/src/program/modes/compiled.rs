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
    // Regions of the forward pass between breaks.
    let mut forward: Vec<Vec<Region>> = vec![Vec::new()];
    let mut backward: Vec<Region> = Vec::new();
    for step in path {
        match step.what {
            What::Run(region @ (Region::Forward(_) | Region::Fragment(_))) => {
                leave_backward(captured, issuer, &forward, &mut backward);
                forward.last_mut().expect("there is one").push(region);
            }
            What::Run(region @ (Region::Backward(_) | Region::FragmentBackward(_))) => {
                leave_forward(captured, issuer, &mut forward);
                backward.push(region);
            }
            // Traced, and so no longer there.
            What::Python(_) | What::Mutate => {}
            what => {
                leave_forward(captured, issuer, &mut forward);
                leave_backward(captured, issuer, &forward, &mut backward);
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
    leave_forward(captured, issuer, &mut forward);
    leave_backward(captured, issuer, &forward, &mut backward);
    issuer.issuing(None);
    captured.ran()
}

/// Executes the region of a forward pass that ends here; the next one begins.
fn leave_forward(captured: &mut Captured, issuer: &mut Issuer<'_>, forward: &mut Vec<Vec<Region>>) {
    let Some(region) = forward.last().filter(|region| !region.is_empty()).cloned() else { return };
    let thread = issuer.issuing(None);
    captured.make(issuer, thread, &region);
    let enter = issuer.costs.framework.enter_region.time();
    issuer.work(thread, Part::Python, enter);
    issuer.execute(thread, &region);
    forward.push(Vec::new());
}

/// Executes a backward pass: a region for each of the forward pass.
fn leave_backward(
    captured: &mut Captured,
    issuer: &mut Issuer<'_>,
    forward: &[Vec<Region>],
    backward: &mut Vec<Region>,
) {
    let of = |region: &Region| {
        forward.iter().rposition(|list| list.iter().any(|it| it.backward() == Some(*region)))
    };
    for region in std::mem::take(backward).chunk_by(|before, after| of(before) == of(after)) {
        let thread = issuer.issuing(region.first().copied());
        captured.make(issuer, thread, region);
        let engine = issuer.costs.framework.engine.time();
        issuer.work(thread, Part::Python, engine);
        issuer.execute(thread, region);
    }
}
