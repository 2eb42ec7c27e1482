//! Settings of recomputation. The time of a profiled pipeline's extra forward pass is a fact of its stages, which the
//! decision does not see.

use hw_models::settings::{Bytes, Count, Duration, PerStage, StageSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::transformer::{LayerRecompute, Recompute as RecomputeMode};

/// Recompute activations before the backward pass instead of keeping them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recompute {
    /// What layers of a transformer recompute; `full` when absent.
    pub mode: Option<RecomputeMode>,
    /// `full` ends with the last tensor that the backward pass needs, as PyTorch's checkpoints without
    /// reentrance do from 2.1 on, rather than with the layer, as Megatron-LM's.
    pub early_stop: Option<bool>,
    /// First layers of each chunk of a stage that do; all when absent.
    pub layers: Option<Count<1, 4_096>>,
    /// What the other layers recompute; nothing when absent.
    pub others: Option<RecomputeMode>,
    /// Time of the extra forward pass of a profiled pipeline; the stage's forward time when absent.
    pub forward: Option<PerStage<Duration>>,
    /// Stages of a profiled pipeline that recompute; all when absent.
    pub stages: Option<StageSet>,
    /// Checkpoint that a stage of a profiled pipeline keeps of each micro-batch; nothing when absent.
    pub keeps: Option<PerStage<Bytes>>,
}

impl Recompute {
    /// Modes of the layers of a transformer.
    pub fn of_layers(&self) -> LayerRecompute {
        let early = self.early_stop == Some(true);
        let mode = |mode| match mode {
            RecomputeMode::Full if early => RecomputeMode::FullEarlyStop,
            mode => mode,
        };
        LayerRecompute {
            first: mode(self.mode.unwrap_or(RecomputeMode::Full)),
            layers: self.layers.map(|layers| layers.get() as u32),
            others: mode(self.others.unwrap_or(RecomputeMode::None)),
        }
    }

    /// Whether a stage recomputes.
    pub fn covers(&self, stage: u32) -> bool {
        self.stages.as_ref().is_none_or(|stages| stages.contains(stage))
    }

    /// Bytes a stage keeps per micro-batch.
    pub fn kept(&self, stage: u32) -> u64 {
        self.keeps.as_ref().map_or(0, |keeps| keeps.at(stage as usize).bytes())
    }
}
