//! One tier of a fluid: its prior or its ordinary demands.

/// One tier of a fluid. Loads are in 2^-54 unit/ps, levels in 2^-40.
#[derive(Clone, Debug)]
pub(super) struct Tier {
    /// What its flows may load it with.
    pub(super) capacity: u64,
    /// Load of fixed flows whose level is not the tier's. While the tier is left out of a sweep it may grow to
    /// many times the capacity.
    pub(super) fixed: u128,
    /// Weight of fixed flows at the tier's level.
    pub(super) group: u64,
    /// Weight of free flows.
    pub(super) free: u64,
    /// Where it overflows; [`NEVER`] if it does not. Finite only while flows are fixed there.
    pub(super) level: u64,
    /// The lowest level at which it waits in the sweep's queue; [`NEVER`] if it does not.
    pub(super) queued: u64,
}

impl Tier {
    pub(super) fn new(capacity: u64) -> Self {
        Self { capacity, fixed: 0, group: 0, free: 0, level: NEVER, queued: NEVER }
    }

    /// The least level at which fixed flows, as they are, and free ones together overflow it; no more than
    /// its final level.
    #[inline]
    pub(super) fn overflow(&self) -> u64 {
        let weight = self.free + self.group;
        match u128::from(self.capacity).checked_sub(self.fixed) {
            None => 0,
            Some(_) if weight == 0 => NEVER,
            Some(room) => room as u64 / weight + 1,
        }
    }

    /// The level at which flows are fixed because of this tier.
    #[inline]
    pub(super) fn held(&self) -> u64 {
        if self.group > 0 { self.level } else { NEVER }
    }

    /// The level at which it may have to fix or free flows next.
    #[inline]
    pub(super) fn turn(&self) -> u64 {
        self.overflow().min(self.held())
    }

    /// Whether its flows are fixed, none of them by it, and leave half of it: it will hardly overflow.
    #[inline]
    pub(super) fn is_light(&self) -> bool {
        self.free + self.group == 0 && self.fixed <= u128::from(self.capacity / 2)
    }

    /// Whether fixed flows alone are too much for it.
    #[inline]
    pub(super) fn is_overfull(&self) -> bool {
        self.fixed > u128::from(self.capacity)
    }

    /// Counts a flow fixed at `level`.
    #[inline]
    pub(super) fn fix(&mut self, weight: u64, level: u64) {
        if self.level == level {
            self.group += weight;
        } else {
            self.fixed += u128::from(weight) * u128::from(level);
        }
    }

    /// No longer counts a flow fixed at `level`.
    #[inline]
    pub(super) fn unfix(&mut self, weight: u64, level: u64) {
        if self.level == level {
            self.group -= weight;
            if self.group == 0 {
                self.level = NEVER;
            }
        } else {
            self.fixed -= u128::from(weight) * u128::from(level);
        }
    }
}

/// A level that is not reached.
pub(super) const NEVER: u64 = u64::MAX;
