//! The embedded scenarios are right.

use std::collections::BTreeMap;

use scenarios::{Point, library, load};

#[test]
fn every_library_scenario_resolves_at_every_point() {
    for name in library::names() {
        let path = format!("library:{name}");
        let experiment = load(&BTreeMap::new(), &path, &[]).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(experiment.description().is_some(), "{name} has no description");
        // Plans of a search may be impossible, and a system not support a cell: part of the answer.
        let points = experiment.points().filter(|_| experiment.search().is_none());
        for point in points {
            for variant in experiment.variants() {
                if let Err(infeasible) = experiment.resolve(variant, &point) {
                    let reason = infeasible.reason;
                    assert!(reason.contains("` does not support "), "{name}: {reason}");
                }
            }
        }
    }
}

#[test]
fn a_swept_option_leaves_variants_without_the_technique_alone() {
    let experiment = load(&BTreeMap::new(), "library:bpipe-profiled", &[]).expect("a library scenario");
    let last: Point = experiment.points().last().expect("points");
    let techniques =
        |variant: &str| experiment.resolve(variant, &last).expect("feasible").scenario.techniques;
    assert!(techniques("plain").bpipe.is_none());
    assert!(techniques("bpipe").bpipe.is_some());
}
