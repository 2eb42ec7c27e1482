//! What is kept of a measurement: raw samples, one line of a file for each task.

use serde::{Deserialize, Serialize};

use super::timing::{median, scatter};
use super::{Conditions, Identity, Task};
use crate::split;

/// The first line of a file of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heading {
    /// Version of foretrain that measured.
    pub foretrain: String,
    /// What was measured.
    pub device: Identity,
    /// When: year, month, day.
    pub date: String,
    /// Probes that were asked for.
    pub suite: Vec<String>,
    /// Which order tasks were measured in follows from it.
    pub seed: u64,
}

/// The samples of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The probe that asked for it.
    pub probe: String,
    /// What was timed.
    pub of: Task,
    /// How often it was executed for each sample.
    pub executions: u32,
    /// Time of one execution, by sample, in the order they were taken (ns).
    pub samples_ns: Vec<f64>,
    /// What was noticed meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// Before the first sample.
    #[serde(default)]
    pub before: Conditions,
    /// After the last one.
    #[serde(default)]
    pub after: Conditions,
}

/// What keeps samples from being believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flag {
    /// They scatter, however often the task is timed.
    Noisy,
    /// Something kept the clocks down.
    Throttled,
    /// The device changed its speed while they were taken, and again when they were taken anew.
    Drifting,
}

impl Record {
    /// Whether it is of this task, as this probe asked for it.
    pub fn is_of(&self, probe: &str, task: &Task) -> bool {
        self.probe == probe && self.of == *task
    }

    /// Hash of its task, by which records are fitted or judge.
    pub fn hash(&self) -> u64 {
        split::hash(&[self.of.to_string()])
    }

    /// Whether it is in the test quarter, which nothing is fitted on.
    pub fn judges(&self) -> bool {
        split::judges(self.hash())
    }

    /// Time of one execution (s): the median.
    pub fn seconds(&self) -> f64 {
        median(&self.samples_ns) * 1e-9
    }

    /// Median absolute deviation of its samples, relative to the median.
    pub fn scatter(&self) -> f64 {
        scatter(&self.samples_ns)
    }

    /// Relative standard error of the median: of normal samples `1.253 x 1.483` median absolute deviations by the root of their
    /// number.
    pub fn median_error(&self) -> f64 {
        1.858 * self.scatter() / (self.samples_ns.len().max(1) as f64).sqrt()
    }

    /// Whether a law may be fitted to it: what is unstable is told as such, what a device did that was held back is not what
    /// it does.
    pub fn is_sound(&self) -> bool {
        !self.flags.contains(&Flag::Throttled)
    }

    /// Whether it might be another time on another day.
    pub fn is_unstable(&self) -> bool {
        self.flags.iter().any(|flag| matches!(flag, Flag::Noisy | Flag::Drifting))
    }
}
