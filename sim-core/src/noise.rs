//! Random variation of durations in three parts (`core.md` section 9).

use crate::time::Time;

/// Relative variations; all zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Standard deviation of a device's lasting speed, relative; drawn once per device.
    pub device: f64,
    /// Standard deviation of each operation's duration, relative.
    pub operation: f64,
    /// Rare pauses of a device.
    pub pause: Option<Pause>,
}

/// A pause that hits a stream now and then (garbage collection, clock throttling).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    /// Mean busy time between two pauses.
    pub every: Time,
    /// Mean length; uniform from half to one and a half times it.
    pub lasting: Time,
}
