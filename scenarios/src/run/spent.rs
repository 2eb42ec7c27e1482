//! Time of threads and streams by cause, in a stretch of it.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use reports::state;
use sim_core::time::Time;
use workloads::lanes::{Simulation, cause};

/// Causes of time in which a lane waits.
pub(super) const WAITS: [&str; 10] = [
    cause::DEVICE,
    cause::THREAD,
    cause::QUEUE,
    cause::LAUNCH,
    cause::STREAM,
    cause::FEED,
    cause::PATH,
    cause::BATCH,
    cause::LOCK,
    cause::SKEW,
];

/// Time of a lane by cause.
pub(super) struct Lane {
    pub(super) name: String,
    spent: BTreeMap<&'static str, Time>,
}

impl Lane {
    pub(super) fn total(&self, counts: impl Fn(&str) -> bool) -> Time {
        let counted = self.spent.iter().filter(|(cause, _)| counts(cause));
        Time(counted.map(|(_, time)| time.0).sum())
    }

    pub(super) fn works(&self) -> Time {
        self.total(|cause| !WAITS.contains(&cause) && cause != state::IDLE)
    }

    /// One of `count` equal parts of it (s).
    pub(super) fn per_step(&self, count: f64) -> IndexMap<String, f64> {
        let in_order = cause::ALL.iter().chain([&state::IDLE]);
        let spent = in_order.filter_map(|word| Some(((*word).to_owned(), self.spent.get(word)?)));
        spent.map(|(word, time)| (word, time.as_secs() / count)).collect()
    }
}

/// Lanes of these names as they spend a stretch of time; one that has ended idles.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn lanes(
    simulation: &Simulation<'_>,
    names: impl Iterator<Item = String>,
    window: [Time; 2],
) -> Result<Vec<Lane>, String> {
    let mut lanes: Vec<Lane> = names.map(|name| Lane { name, spent: BTreeMap::new() }).collect();
    simulation
        .watch(window, |span| {
            let word = cause::ALL.iter().find(|known| **known == span.cause).copied();
            *lanes[span.lane].spent.entry(word.unwrap_or(state::IDLE)).or_default() += span.end - span.start;
        })
        .map_err(|error| error.to_string())?;
    for lane in &mut lanes {
        let idle = Time((window[1] - window[0]).0.saturating_sub(lane.total(|_| true).0));
        if idle > Time::ZERO {
            *lane.spent.entry(state::IDLE).or_default() += idle;
        }
    }
    Ok(lanes)
}
