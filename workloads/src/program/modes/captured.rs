//! Captured execution: passes as graphs of launches, and whole programs converted.

use super::{Captured, Ran, eager};
use crate::program::issuer::{Issuer, Part, ThreadId};
use crate::program::path::{Region, Step, What};

/// Forward pass, backward pass and update, each as one graph; Python runs between them.
pub(super) fn visits(captured: &mut Captured, issuer: &mut Issuer<'_>, path: &[Step]) -> Ran {
    let mut visit: Vec<Region> = Vec::new();
    for step in path {
        let region = match step.what {
            What::Run(region) => Some(region),
            _ => None,
        };
        if visit.last().is_some_and(|&last| region.is_none_or(|region| kind(region) != kind(last))) {
            replay(captured, issuer, &std::mem::take(&mut visit));
        }
        match region {
            Some(region) => visit.push(region),
            None => {
                issuer.issuing(None);
                eager::python(issuer, step.what);
            }
        }
    }
    replay(captured, issuer, &visit);
    issuer.issuing(None);
    captured.ran()
}

/// Pass that a region belongs to.
const fn kind(region: Region) -> u8 {
    match region {
        Region::Forward(_) | Region::Fragment(_) => 0,
        Region::Backward(_) | Region::FragmentBackward(_) => 1,
        Region::Update => 2,
    }
}

fn replay(captured: &mut Captured, issuer: &mut Issuer<'_>, visit: &[Region]) {
    if let Some(&first) = visit.first() {
        let thread = issuer.issuing(Some(first));
        captured.make(issuer, thread, visit);
        issuer.execute(thread, visit);
    }
}

/// The whole program as one graph: a call of it is all that Python does. Branches that tensors
/// decide are part of it.
pub(super) fn whole(captured: &mut Captured, issuer: &mut Issuer<'_>, path: &[Step]) -> Ran {
    let regions = path.iter().filter_map(|step| match step.what {
        What::Run(region) => Some(region),
        _ => None,
    });
    let regions: Vec<Region> = regions.collect();
    let is_value = |step: &&Step| matches!(step.what, What::Batch | What::Scalar);
    path.iter().filter(is_value).for_each(|step| eager::python(issuer, step.what));
    let first: Vec<Region> =
        regions.iter().copied().filter(|region| !captured.regions.contains(region)).collect();
    captured.make(issuer, ThreadId::PYTHON, &first);
    let enter = issuer.costs.framework.enter_region.time();
    issuer.work(ThreadId::PYTHON, Part::Python, enter);
    issuer.execute(ThreadId::PYTHON, &regions);
    for step in path.iter().filter(|step| matches!(step.what, What::Fetch(_))) {
        eager::python(issuer, step.what);
    }
    captured.ran()
}
