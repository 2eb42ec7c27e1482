//! Changes of the features of a graph network that leave more of the GPU to the network.

use hw_models::settings::Bytes;
use workloads::feed::{Cache, Features, Home};

use super::change::{Change, Family, said};
use crate::plans;
use crate::schema::Scenario;

/// Parts of a cache that are tried.
const TENTHS: u32 = 10;

/// Smaller caches, and features where the GPU reads them; none where no mini-batches are drawn.
pub(super) fn families(scenario: &Scenario) -> Vec<Family> {
    let drawn = scenario.model.graph().is_some_and(|graph| graph.sampling.is_some());
    let Some(features) = scenario.features.as_ref().filter(|_| drawn) else { return Vec::new() };
    smaller_cache(scenario, features).into_iter().chain(on_host(scenario, features)).collect()
}

/// Nine tenths of the cache, then eight, ... and none at last. A hit rate that the file says is that
/// of its own size.
fn smaller_cache(scenario: &Scenario, features: &Features) -> Option<Family> {
    let Cache { share, size, hits: None, .. } = features.cache? else { return None };
    let setting = |part: f64| match (size, share) {
        (Some(size), _) => Some(said("features.cache.size", &gib(size, part))),
        (_, Some(share)) => {
            Some(said("features.cache.share", &format!("{:.1} %", 100.0 * share.as_f64() * part)))
        }
        // It takes what is left.
        (None, None) => None,
    };
    let tenths = (0..TENTHS).rev().map(|tenths| f64::from(tenths) / f64::from(TENTHS));
    let step = |part| Some(change(scenario, vec![setting(part)?], "the GPU keeps fewer rows"));
    tenths.map(step).collect::<Option<_>>().map(|steps| Family { steps })
}

/// A part of a size as a reader would write it, rounded down.
fn gib(size: Bytes, part: f64) -> String {
    let tenths = size.bytes() as f64 / f64::from(1 << 30) * part * 10.0;
    format!("{:.1} GiB", tenths.floor() / 10.0)
}

/// Features in the memory of the host, read in place.
fn on_host(scenario: &Scenario, features: &Features) -> Option<Family> {
    let moved = vec![
        said("features.home", &"host-pinned"),
        said("features.access", &"zero-copy"),
        said("features.align", &"true"),
    ];
    let effect = "threads of the GPU read rows in place, over its link";
    (features.home == Home::Gpu).then(|| Family::one(change(scenario, moved, effect)))
}

fn change(scenario: &Scenario, settings: Vec<(String, String)>, effect: &'static str) -> Change {
    Change { ways: vec![settings], ranks: plans::ranks(scenario), effects: vec![effect] }
}
