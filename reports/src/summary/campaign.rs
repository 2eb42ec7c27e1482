//! A whole training run: time, failures, checkpoints, money.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// A training run made of the steps that were simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Steps.
    pub steps: u64,
    /// Tokens of all steps, where samples have any.
    pub tokens: Option<f64>,
    /// Samples of all steps.
    pub samples: Option<f64>,
    /// GPUs with ranks.
    pub gpus: u64,
    /// Time of the steps alone.
    pub work_s: f64,
    /// Checkpoints; absent where none is written.
    pub checkpoint: Option<Checkpoint>,
    /// Failures; absent where nothing fails.
    pub failures: Option<JobFailures>,
    /// Expected time from the first step to the last. Absent where training never ends: less than
    /// 0.1 % of the time makes progress.
    pub expected_s: Option<f64>,
    /// Share of that time that makes progress, 0 to 1.
    pub goodput: Option<f64>,
    /// Simulated histories of the same run.
    pub histories: Option<Histories>,
    /// GPU hours paid for.
    pub gpu_hours: Option<f64>,
    /// GPU hours of steps that count.
    pub effective_gpu_hours: f64,
    /// Cost of the expected time; absent without prices.
    pub cost: Option<Cost>,
}

/// A checkpoint, and how often it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Place: `host`, `drives`, `storage`.
    pub to: String,
    /// Bytes written, each once.
    pub bytes: u64,
    /// These bytes by kind.
    pub by_kind_bytes: IndexMap<String, u64>,
    /// Bytes that all ranks hold of it, replicas counted.
    pub held_bytes: u64,
    /// Time that training waits.
    pub pause_s: f64,
    /// Time from there until a checkpoint in the background is durable.
    pub lag_s: Option<f64>,
    /// Work between two.
    pub interval_s: f64,
    /// The interval of least expected time; absent without failures.
    pub best_interval_s: Option<f64>,
    /// First-order estimate of it, sqrt(2 x pause x mean time between failures): Young 1974.
    pub young_interval_s: Option<f64>,
    /// Higher-order estimate: Daly 2006.
    pub daly_interval_s: Option<f64>,
}

/// Failures of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobFailures {
    /// Mean time between two.
    pub mean_time_between_s: f64,
    /// Time from one to the next step.
    pub restart_s: f64,
    /// Failures expected; absent where training never ends.
    pub expected: Option<f64>,
}

/// Simulated histories: random failures, lost work played again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histories {
    /// Number of histories.
    pub seeds: u64,
    /// Mean time from the first step to the last.
    pub mean_s: f64,
    /// Times that nine of ten histories lie within: the 5th and the 95th of a hundred.
    pub nine_of_ten_s: [f64; 2],
    /// Failures on average.
    pub failures: f64,
    /// Share of the time that goes into work done twice.
    pub lost_share: f64,
}

/// Cost of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Currency of every number.
    pub currency: String,
    /// All of it.
    pub total: f64,
    /// Per million tokens, where samples have any.
    pub per_million_tokens: Option<f64>,
    /// Per million samples, where they have no tokens.
    pub per_million_samples: Option<f64>,
    /// Its parts.
    pub parts: Vec<CostPart>,
}

/// A part of a cost: units times a price.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostPart {
    /// Unit: `gpu_hour`, `node_hour`, `terabyte_written`.
    pub of: String,
    /// Number of units.
    pub units: f64,
    /// Price of a unit.
    pub price: f64,
    /// Evidence of the price.
    pub source: String,
    /// Day on which it was valid.
    pub date: String,
}

impl Cost {
    /// Cost of a million tokens, or of a million samples where samples have no tokens.
    pub fn per_million(&self) -> Option<f64> {
        self.per_million_tokens.or(self.per_million_samples)
    }

    /// Cost of one of these.
    pub fn per_unit(&self) -> Option<f64> {
        self.per_million().map(|million| million * 1e-6)
    }
}
