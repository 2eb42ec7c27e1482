//! How much work one training step is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Count;

/// Micro-batches of one step.
pub type MicroBatches = Count<1, 65_536>;

/// How much work one training step is. `global_batch = micro_batch x micro_batches`: two of them give the third;
/// `micro_batches` alone is enough when samples do not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "micro_batches": 8 }]))]
pub struct Training {
    /// Samples of one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_batch: Option<Count<1, 1_000_000_000>>,
    /// Samples of one micro-batch; needed for samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<Count<1, 1_000_000>>,
    /// Micro-batches of one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<MicroBatches>,
    /// Whether every step ends before the next one begins on the same stage.
    #[serde(default = "yes")]
    pub flush: bool,
}

fn yes() -> bool {
    true
}

impl Training {
    /// Micro-batches of one step; always there once the scenario has been checked.
    pub fn micro_batches(&self) -> u64 {
        self.micro_batches.map_or(0, Count::get)
    }
}
