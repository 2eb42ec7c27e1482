//! The numbers of demands, each distinct combination kept once: a hop is small, and equal ones share a cache
//! line.

use std::collections::BTreeMap;

use crate::fixed::{Rate, Ratio};
use crate::platform::Demand;

/// What a demand asks, apart from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Terms {
    pub(super) coefficient: Ratio,
    pub(super) weight: Ratio,
    pub(super) multiplicity: u32,
    pub(super) port: Option<u32>,
    /// Weight of all the activities behind the demand, 2^-14.
    pub(super) load_weight: u64,
}

/// All combinations seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Dictionary {
    terms: Vec<Terms>,
    index: BTreeMap<Terms, u32>,
    latest: u32,
}

impl Dictionary {
    /// The id of the terms of a demand. Neighbouring demands are often alike.
    pub(super) fn id(&mut self, demand: &Demand) -> u32 {
        let terms = Terms {
            coefficient: demand.coefficient,
            weight: demand.weight,
            multiplicity: demand.multiplicity,
            port: demand.port.map(|port| port.0),
            load_weight: load_weight(demand),
        };
        if self.terms.get(self.latest as usize) != Some(&terms) {
            self.latest = *self.index.entry(terms).or_insert_with(|| {
                self.terms.push(terms);
                self.terms.len() as u32 - 1
            });
        }
        self.latest
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &Terms {
        &self.terms[id as usize]
    }
}

impl Terms {
    /// The least level above the rate `cap`.
    #[inline]
    pub(super) fn ceiling(&self, cap: Rate) -> u64 {
        ceiling(cap, self.coefficient, u64::from(self.weight.0))
    }

    /// The load at that level, 2^-54 unit/ps.
    #[inline]
    pub(super) fn ceiling_load(&self, cap: Rate) -> u128 {
        u128::from(self.load_weight) * u128::from(self.ceiling(cap))
    }
}

/// The load (2^-54 unit/ps) that an activity with this cap puts on the fluid at most. While the sum over the
/// activities of a fluid stays within its capacity, none of them is slowed by it.
pub fn cap_load(demand: &Demand, cap: Rate) -> u128 {
    u128::from(load_weight(demand)) * u128::from(ceiling(cap, demand.coefficient, u64::from(demand.weight.0)))
}

/// The rate just below a level: ⌊(λ - 1) v / a⌋.
#[inline]
pub(super) fn share(level: u64, weight: u64, coefficient: Ratio) -> Rate {
    let below = level - 1;
    if u64::from(coefficient.0) == weight {
        return Rate(below);
    }
    let rate = u128::from(below) * u128::from(weight) / u128::from(coefficient.0);
    Rate(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Weight of all the activities behind a demand, 2^-14.
pub(super) fn load_weight(demand: &Demand) -> u64 {
    u64::from(demand.weight.0) * u64::from(demand.multiplicity)
}

/// The least level at which a demand is above the rate `cap`: ⌈cap a / v⌉ + 1.
#[inline]
pub(super) fn ceiling(cap: Rate, coefficient: Ratio, weight: u64) -> u64 {
    if u64::from(coefficient.0) == weight {
        return cap.0.saturating_add(1);
    }
    let level = (u128::from(cap.0) * u128::from(coefficient.0)).div_ceil(u128::from(weight)) + 1;
    u64::try_from(level).unwrap_or(u64::MAX)
}
