//! Changes of the features of a graph network that leave more of the GPU to the network.

use hw_models::settings::Bytes;
use workloads::feed::{Cache, Features, Home};

use super::change::{Before, Family, said};

/// Parts of a cache that are tried.
const TENTHS: u32 = 10;

/// Smaller caches, and features where the GPU reads them.
pub(super) fn families(before: &Before<'_>) -> Vec<Family> {
    let Some(features) = &before.scenario.features else { return Vec::new() };
    smaller_cache(before, features).into_iter().chain(on_host(before, features)).collect()
}

/// Nine tenths of the cache, then eight, ... and none at last. A hit rate that the file says is that
/// of its own size.
fn smaller_cache(before: &Before<'_>, features: &Features) -> Option<Family> {
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
    let step = |part| Some(before.change(vec![vec![setting(part)?]], "the GPU keeps fewer rows"));
    tenths.map(step).collect::<Option<_>>().map(|steps| Family { steps })
}

/// A part of a size as a reader would write it, rounded down.
fn gib(size: Bytes, part: f64) -> String {
    let tenths = size.bytes() as f64 / f64::from(1 << 30) * part * 10.0;
    format!("{:.1} GiB", tenths.floor() / 10.0)
}

/// Features in the memory of the host, read in place.
fn on_host(before: &Before<'_>, features: &Features) -> Option<Family> {
    let moved = vec![
        said("features.home", &"host-pinned"),
        said("features.access", &"zero-copy"),
        said("features.align", &"true"),
    ];
    let effect = "threads of the GPU read rows in place, over its link";
    (features.home == Home::Gpu).then(|| Family::one(before.change(vec![moved], effect)))
}
