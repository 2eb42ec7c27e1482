//! Laws: how the times of some tasks follow from a few constants of a device.
//!
//! A law is what is fitted to records ([`super::estimate`]), and what a device that is made up obeys
//! ([`Synthetic`](super::measure::Synthetic)).

mod framework;
mod gpu;
pub(super) mod gpus;
mod host;

use serde::{Deserialize, Serialize};

use super::measure::Task;

const MICRO: f64 = 1e-6;
const MEGA: f64 = 1e6;
const GIGA: f64 = 1e9;
const TERA: f64 = 1e12;

/// A law.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// Its name, which those of its constants begin with.
    pub name: &'static str,
    /// The constants.
    pub constants: &'static [Constant],
    /// Time of one execution of a task (s) with constants of these values; none for tasks that it says nothing of.
    pub seconds: fn(&[f64], &Task) -> Option<f64>,
}

/// A constant of a law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// Its name within the law.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// A value to search from: that of an ordinary device.
    pub usual: f64,
}

/// Units of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Decimal gigabytes per second.
    #[serde(rename = "GB/s")]
    GbPerS,
    /// Microseconds.
    #[serde(rename = "us")]
    Us,
    /// Thousands of operations per second.
    #[serde(rename = "kIOPS")]
    Kiops,
    /// Gigahertz.
    #[serde(rename = "GHz")]
    Ghz,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Decimal megabytes.
    #[serde(rename = "MB")]
    Mb,
    /// Millions per second.
    #[serde(rename = "M/s")]
    MegaPerS,
    /// Trillions of floating-point operations per second.
    #[serde(rename = "TFLOP/s")]
    TeraflopPerS,
    /// A share of something else.
    #[serde(rename = "of 1")]
    Share,
}

impl Unit {
    /// As it is written after a value.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::GbPerS => "GB/s",
            Self::Us => "us",
            Self::Kiops => "kIOPS",
            Self::Ghz => "GHz",
            Self::Bytes => "B",
            Self::Mb => "MB",
            Self::MegaPerS => "M/s",
            Self::TeraflopPerS => "TFLOP/s",
            Self::Share => "of 1",
        }
    }
}

impl Constant {
    const fn new(name: &'static str, unit: Unit, usual: f64) -> Self {
        Self { name, unit, usual }
    }
}

/// Every law.
pub fn laws() -> impl Iterator<Item = &'static Law> {
    host::LAWS.iter().chain(&gpu::LAWS).chain(&gpus::LAWS).chain(&framework::LAWS)
}

/// The law that a task obeys.
pub fn law_of(task: &Task) -> Option<&'static Law> {
    laws().find(|law| law.tells(task))
}

/// Time of moving so many bytes by a law of a start (us) and a rate (GB/s).
fn at_rate(constants: &[f64], bytes: u64) -> Option<f64> {
    let &[start, rate] = constants else { return None };
    Some(start * MICRO + bytes as f64 / (rate * GIGA))
}

impl Law {
    const fn new(
        name: &'static str,
        constants: &'static [Constant],
        seconds: fn(&[f64], &Task) -> Option<f64>,
    ) -> Self {
        Self { name, constants, seconds }
    }

    /// The constants of an ordinary device.
    pub fn usual(&self) -> Vec<f64> {
        self.constants.iter().map(|constant| constant.usual).collect()
    }

    /// Whether it says something of a task.
    pub fn tells(&self, task: &Task) -> bool {
        (self.seconds)(&self.usual(), task).is_some()
    }
}
