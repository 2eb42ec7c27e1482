//! Skew of collectives: the part of their time in which they wait for their peers.

use std::collections::BTreeMap;

use super::recording::NameId;

/// Collectives that take as long but for their waiting: their name and bytes.
pub(super) type Alike = (NameId, Option<u64>);

/// Durations of the shortest collectives, in any unit: others that are alike waited for peers.
#[derive(Debug, Default)]
pub(super) struct Shortest(BTreeMap<Alike, u64>);

impl Shortest {
    pub(super) fn add(&mut self, alike: Alike, duration: u64) {
        let shortest = self.0.entry(alike).or_insert(duration);
        *shortest = duration.min(*shortest);
    }

    /// How much longer a collective takes.
    pub(super) fn beyond(&self, alike: Alike, duration: u64) -> u64 {
        self.0.get(&alike).map_or(0, |shortest| duration.saturating_sub(*shortest))
    }
}
