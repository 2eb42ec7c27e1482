//! What every device that is measured can do, be it real, recorded or made up.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Suite, Task};
use hw_models::collectives::InsideLink;

/// A device that tasks are timed on.
pub trait Device {
    /// What it is.
    fn identity(&self) -> Identity;

    /// The day of measurements that were made before. `None`: they are made now.
    fn measured_on(&self) -> Option<&str> {
        None
    }

    /// What measuring it needs, and whether it is there.
    fn capabilities(&self) -> Vec<Capability>;

    /// What is measured of it; `quick`: what scenarios ask for most.
    fn suite(&self, quick: bool) -> Suite;

    /// Makes ready what executing `task` needs; what earlier tasks needed may be given back.
    ///
    /// # Errors
    /// When the device cannot execute it.
    fn prepare(&mut self, task: &Task) -> Result<(), DeviceError>;

    /// Executes the task that was made ready `executions` times in a row and tells how long that took (s).
    ///
    /// # Errors
    /// When the device fails meanwhile.
    fn time(&mut self, executions: u32) -> Result<f64, DeviceError>;

    /// Gives back what the task that was made ready holds: another device is about to need the memory.
    fn rest(&mut self) {}

    /// Its clocks, temperature and power at this moment, as far as they can be read.
    fn conditions(&mut self) -> Conditions;

    /// Time since it was opened (s).
    fn elapsed(&self) -> f64;
}

/// What a device is: what a calibration holds for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Its name, as its driver or the operating system gives it.
    pub name: String,
    /// Version of its driver, or of the operating system.
    pub driver: String,
    /// Versions of libraries, and other facts that its speed depends on.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub facts: IndexMap<String, String>,
    /// What connects it with other GPUs; absent for one that is alone, or where nothing tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
}

/// What connects a GPU with the others of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// Kind of the links.
    pub inside: InsideLink,
    /// NVLinks between it and the one that peer copies go to; 0 over PCI Express.
    pub nvlinks: u32,
}

/// Something that measuring a device needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// What it is.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// What was found of it; or what is missing, and how to get it.
    #[serde(flatten)]
    pub found: Found,
    /// Nothing is measured without it.
    pub required: bool,
}

/// Whether something is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// It is: which.
    Present(String),
    /// It is not.
    Missing {
        /// Why it cannot be used.
        why: String,
        /// How to get it.
        remedy: String,
    },
}

impl Found {
    /// It cannot be used, and why; `remedy` says how to get it.
    pub fn missing(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Missing { why: why.into(), remedy: remedy.into() }
    }
}

/// State of a device while it is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Clock of its cores (MHz).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<f64>,
    /// Clock of its memory (MHz).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<f64>,
    /// Temperature (degrees Celsius).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
    /// What it draws (W).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// What keeps its clocks down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled_by: Vec<String>,
}

/// Why a task was not timed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceError {
    /// Something is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// The device has no such operation.
    #[error("{device} cannot do this: {why}")]
    Unable {
        /// The device.
        device: String,
        /// Why not.
        why: String,
    },
    /// Something it needs is used up: memory, space on a drive.
    #[error("{what} is used up: {remedy}")]
    Exhausted {
        /// What.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// It failed.
    #[error("{doing}: {why}")]
    Failed {
        /// What was being done.
        doing: String,
        /// What it said.
        why: String,
    },
}

impl DeviceError {
    /// `what` is missing; `remedy` says how to get it.
    pub fn missing(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Missing { what: what.into(), remedy: remedy.into() }
    }

    /// `device` has no such operation.
    pub fn unable(device: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unable { device: device.into(), why: why.into() }
    }

    /// `what` is used up; `remedy` says what to do about it.
    pub fn exhausted(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Exhausted { what: what.into(), remedy: remedy.into() }
    }

    /// It failed while it was `doing` something.
    pub fn failed(doing: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Failed { doing: doing.into(), why: why.into() }
    }
}
