//! The settings of a scenario, typed.
//!
//! The types here are the language: their documentation is what editors show, `document` turns them into a JSON
//! Schema, and `shape` answers questions about paths from that same schema. Choices are externally tagged and
//! nothing is flattened or untagged, because serde forgets positions in those forms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod count;
mod decimal;
pub(crate) mod document;
mod figure;
mod model;
mod parallelism;
mod per_stage;
mod quantity;
mod run;
pub(crate) mod shape;
mod techniques;
mod training;
pub(crate) mod written;

pub use count::Count;
pub use decimal::Decimal;
pub use document::json_schema;
pub use figure::{Figure, FigureKind};
pub(crate) use figure::{meaning, same_meaning};
pub use model::{Device, Model, ProfiledPipeline, Stages};
pub use parallelism::{Interleaved, MemoryAllowance, Parallelism, Schedule, Send, ZbAuto};
pub use per_stage::PerStage;
pub(crate) use quantity::split as split_quantity;
pub use quantity::{Bytes, Dimension, Duration, Memory, Quantity, Rate, Share, Time, Transfer, Unit, Whole};
pub use run::{Fold, Noise, Pause, Run, Segments, Steps};
pub use shape::Shape;
pub use techniques::{BPipe, EvictionPolicy, PairTransfer, Recompute, StageSet, Techniques};
pub use training::{MicroBatches, Training};

/// Everything that determines a run: what is trained, how, and with which techniques.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What is trained.
    pub model: Model,
    /// How much work one training step is.
    pub training: Training,
    /// How the work is spread over devices.
    #[serde(default)]
    pub parallelism: Parallelism,
    /// What limits memory.
    #[serde(default)]
    pub memory: MemoryLimit,
    /// Techniques that change what is executed, where and in which order; each at most once, their order has no meaning.
    #[serde(default)]
    pub techniques: Techniques,
    /// How the simulation itself runs.
    #[serde(default)]
    pub run: Run,
}

/// What limits memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryLimit {
    /// Memory of each stage that a plan may use; replaces `device.memory` less `device.reserved`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
}

impl Scenario {
    /// Stages of the pipeline.
    pub fn stages(&self) -> usize {
        let Model::ProfiledPipeline(pipeline) = &self.model;
        pipeline.stages.get() as usize
    }

    /// Memory that one stage may use, in bytes; `None` without a limit.
    pub fn memory_per_stage(&self) -> Option<u64> {
        let Model::ProfiledPipeline(pipeline) = &self.model;
        let device = pipeline.device.as_ref();
        let usable = device.map(|device| device.memory.bytes() - device.reserved.map_or(0, Bytes::bytes));
        self.memory.limit.map(Bytes::bytes).or(usable)
    }
}
