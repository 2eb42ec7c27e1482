//! How the simulation itself runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Count, Duration, Share};

/// How the simulation itself runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Training steps that are simulated.
    pub steps: Steps,
    /// State in which steps find the write caches of drives and those that throttle.
    pub drives: DriveState,
    /// Iterations of a program; 200 if not given.
    pub iterations: Option<Count<1, 100_000>>,
    /// Repetitions with different random numbers; without noise, and branches that are drawn, they
    /// would all be alike.
    pub seeds: Count<1, 10_000>,
    /// Random variation of durations; none when absent.
    pub noise: Option<Noise>,
    /// Folding: identical ranks are simulated once.
    pub fold: Fold,
    /// Segments: operations that synchronise with nobody are simulated as one.
    pub segments: Segments,
    /// Activities that a plan may have at most.
    pub limit: Count<1, { u64::MAX }>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            steps: Steps::default(),
            drives: DriveState::default(),
            iterations: None,
            seeds: Count::new(1).expect("within the limits"),
            noise: None,
            fold: Fold::default(),
            segments: Segments::default(),
            limit: Count::new(2_000_000_000).expect("within the limits"),
        }
    }
}

/// Training steps that are simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Steps {
    /// Steps before the measured ones, so that these find the pipeline as they leave it.
    pub warm_up: Count<0, 1_000>,
    /// Steps whose distance gives the step time.
    pub measured: Count<1, 1_000>,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            warm_up: Count::new(0).expect("within the limits"),
            measured: Count::new(1).expect("within the limits"),
        }
    }
}

/// State in which steps find the write caches of drives and those that throttle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriveState {
    /// As long training leaves them: steps end with as much of each cache free, and drives as hot, as
    /// they began. Ask so for the life of drives.
    #[default]
    Lasting,
    /// New: caches free, drives cold. Benchmarks of a few steps are often measured so.
    New,
}

/// Random variation of durations, in three parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Standard deviation of a device's lasting speed. When absent, products of several GPUs are as
    /// slow as the slowest of so many is expected to be; 0 % makes all alike.
    pub device: Option<Share>,
    /// Standard deviation of each operation's duration.
    pub operation: Option<Share>,
    /// Pauses that hit a device now and then.
    pub pause: Option<Pause>,
}

/// Pauses that hit a device now and then: garbage collection, throttling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Mean busy time between two pauses.
    pub every: Duration,
    /// Mean length of a pause.
    pub lasting: Duration,
}

/// Folding: identical ranks are simulated once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fold {
    /// Identical ranks are folded where that changes nothing.
    #[default]
    Auto,
    /// Every rank is simulated.
    Never,
}

/// Segments: operations that synchronise with nobody are simulated as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Segments {
    /// Such operations are joined; the result is the same.
    #[default]
    On,
    /// Every operation is simulated.
    Never,
}
