//! Fixed-point quantities of fluid sharing. Sums of integers do not depend on their order, which is what makes
//! folded equal unfolded and incremental equal from scratch, bit for bit (`f64` sums do not: long closed runs are
//! chaotic, and the last bit decides who comes first).
//!
//! | quantity | unit | why |
//! |---|---|---|
//! | [`Rate`] | 2^-40 unit/ps | 1 GB/s is resolved to 1e-9; range 16 M units/ps |
//! | [`Ratio`] | 2^-14 | coefficients and weights; 1 is exact |
//! | load = weight x level | 2^-54 unit/ps | one fluid carries at most 1,000 units/ps = 10^15 units/s |

/// Fractional bits of a [`Rate`].
pub const RATE_BITS: u32 = 40;
/// Fractional bits of a [`Ratio`].
pub const RATIO_BITS: u32 = 14;

/// Units (of work, usually bytes) per picosecond in 2^-40.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// No cap.
    pub const UNLIMITED: Self = Self(u64::MAX);
    /// The largest capacity of a fluid: 1,000 units/ps, so that loads fit `u64`.
    pub const MAX_CAPACITY: Self = Self(1_000 << RATE_BITS);

    /// `units` per second, rounded to the nearest 2^-40 unit/ps, at least one such quantum. Intended for
    /// rates from 10^5 to 10^15 units per second; choose the unit of work accordingly.
    ///
    /// # Panics
    /// If `units` is not finite or not positive.
    pub fn per_second(units: f64) -> Self {
        assert!(units.is_finite() && units > 0.0, "a rate is finite and positive, not {units}");
        let quanta = (units / 1e12 * (1u64 << RATE_BITS) as f64).round();
        Self((quanta as u64).clamp(1, u64::MAX - 1))
    }

    /// The rate in units per second, for people.
    pub fn units_per_second(self) -> f64 {
        self.0 as f64 / (1u64 << RATE_BITS) as f64 * 1e12
    }
}

/// A coefficient or a weight in 2^-14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(pub u32);

impl Ratio {
    /// Exactly one.
    pub const ONE: Self = Self(1 << RATIO_BITS);

    /// The nearest ratio, at least 2^-14 and below 2^18.
    ///
    /// # Panics
    /// If `value` is not finite or not positive.
    pub fn new(value: f64) -> Self {
        assert!(value.is_finite() && value > 0.0, "a ratio is finite and positive, not {value}");
        Self((value * f64::from(1u32 << RATIO_BITS)).round().clamp(1.0, f64::from(u32::MAX)) as u32)
    }
}
