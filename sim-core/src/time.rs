//! Simulated time: whole picoseconds, so that order is exact and equal durations stay equal.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A moment or a duration in picoseconds (`u64` spans 213 days).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of the simulation, and the empty duration.
    pub const ZERO: Self = Self(0);
    /// Later than everything.
    pub const NEVER: Self = Self(u64::MAX);
    /// Stands for every moment that is too late to be told: what ends then outlasts a run, but it ends.
    pub(crate) const TOO_LATE: Self = Self(u64::MAX - 1);
    /// The latest moment a run may reach (half the range, so that sums of two valid times never wrap).
    pub const LAST: Self = Self(u64::MAX / 2);

    /// Whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// Whole microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000_000))
    }

    /// Whole milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000_000))
    }

    /// The duration in seconds, for people: not for arithmetic inside a run.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The sum: [`Time::NEVER`] with what is never, else at most the last moment before it.
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        match self.0.checked_add(other.0) {
            Some(sum) => Self(sum),
            None if self.0 == Self::NEVER.0 || other.0 == Self::NEVER.0 => Self::NEVER,
            None => Self::TOO_LATE,
        }
    }

    /// The difference, zero when `other` is later.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Time {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.as_secs())
    }
}
