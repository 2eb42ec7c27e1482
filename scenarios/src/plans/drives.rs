//! What a scenario keeps on drives.

use hw_models::storage::PathParameters;
use workloads::feed::Home;
use workloads::passes::OnDrives;
use workloads::plan::{DriveArray, Drives};

use crate::catalogue;
use crate::schema::{self, Rate, Scenario, Share};

/// The array of a scenario that names none.
const ALL: &str = "drives";

/// The arrays of a checked scenario, and what is on which.
pub(super) fn drives(scenario: &Scenario) -> Drives {
    let arrays = declared_arrays(scenario);
    let numbers = |names: &[String]| match names {
        [] => vec![0],
        names => names.iter().filter_map(|name| scenario.storage.get_index_of(name)).collect(),
    };
    let kept = |from_gpus: bool| {
        let kept = kept(scenario).find(|of| of.from_gpus == from_gpus);
        kept.map_or(Vec::new(), |of| numbers(of.names))
    };
    let (states, activations) = (kept(false), kept(true));
    let rows = features(scenario).filter(|of| of.there).map_or(Vec::new(), |of| numbers(of.names));
    if states.is_empty() && activations.is_empty() && rows.is_empty() {
        return Drives::NONE;
    }
    Drives { arrays, states, activations, rows, levels: scenario.levels.clone() }
}

/// The arrays of a checked scenario in the order of its file; without any all drives of a node.
pub(crate) fn declared_arrays(scenario: &Scenario) -> Vec<DriveArray> {
    match scenario.storage.is_empty() {
        true => vec![array(ALL, &schema::DriveArray::default())],
        false => scenario.storage.iter().map(|(name, settings)| array(name, settings)).collect(),
    }
}

/// True if a scenario keeps anything on drives.
pub(crate) fn on_drives(scenario: &Scenario) -> bool {
    kept(scenario).chain(features(scenario)).any(|of| of.there)
}

/// Features of a graph network, which can be on drives.
pub(crate) fn features(scenario: &Scenario) -> Option<OnDrives<'_>> {
    let features = scenario.features.as_ref()?;
    Some(OnDrives {
        what: "features",
        from_gpus: false,
        kept: "features.home",
        there: features.home == Home::Drives,
        names: features.drives.as_ref().map_or(&[], |drives| &drives.arrays),
        arrays: "features.drives.arrays",
    })
}

/// Things that the techniques of a scenario keep on drives.
fn kept(scenario: &Scenario) -> impl Iterator<Item = OnDrives<'_>> {
    let facts = scenario.techniques.all().map(|technique| technique.facts(1));
    facts.filter_map(|facts| facts.drives).filter(|of| of.there)
}

fn array(name: &str, settings: &schema::DriveArray) -> DriveArray {
    let path = |usual: &str| {
        let paths = catalogue::storage_paths();
        // A path that does not exist has been reported; the rest is checked with the usual one.
        let path = settings.path.as_ref().and_then(|path| paths.get(path)).unwrap_or(&paths[usual]);
        PathParameters {
            block_kib: settings.block.map_or(path.block_kib, |block| block.bytes() >> 10),
            depth: settings.depth.map_or(path.depth, |depth| depth.get() as u32),
            issue_us: settings.issue.map_or(path.issue_us, |issue| issue.picoseconds() as f64 * 1e-6),
            ..path.clone()
        }
    };
    let schema::DriveArray { rated_amplification, amplification, retention, at_most, .. } = settings;
    let rate = |rate: Rate| rate.bytes_per_second() as f64;
    DriveArray {
        name: name.to_owned(),
        members: settings.drives.clone(),
        to_host: path("direct"),
        to_gpu: path("gpu-direct"),
        at_most: at_most.map_or([f64::INFINITY; 2], |rates| [rates.write, rates.read].map(rate)),
        wear: [rated_amplification, amplification, retention].map(|times| times.map_or(1.0, Share::as_f64)),
    }
}
