//! Activation recomputation (Chen et al. 2016): the forward pass keeps a checkpoint, and runs again right before the
//! backward pass.

use hw_models::settings::{Bytes, Count, Duration, PerStage, StageSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::PlanError;
use crate::graph::{OpGraph, OpId, Phase, Purpose, Storage};
use crate::model::transformer::{LayerRecompute, Recompute as RecomputeMode};
use crate::transfer::{Conflict, Disposition, Dispositions};

use super::{Context, Kind, Pass, Plan};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "recompute";

/// Recompute activations before the backward pass instead of keeping them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recompute {
    /// What layers of a transformer recompute; `full` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RecomputeMode>,
    /// `full` ends with the last tensor that the backward pass needs, as PyTorch's checkpoints without
    /// reentrance do from 2.1 on, rather than with the layer, as Megatron-LM's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<bool>,
    /// First layers of each chunk of a stage that do; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Count<1, 4_096>>,
    /// What the other layers recompute; nothing when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<RecomputeMode>,
    /// Time of the extra forward pass of a profiled pipeline; the stage's forward time when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<PerStage<Duration>>,
    /// Stages of a profiled pipeline that recompute; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageSet>,
    /// Checkpoint that a stage of a profiled pipeline keeps of each micro-batch; nothing when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
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

impl Pass for Recompute {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Rewriter
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        Ok(decide(self, plan.chain.chunks, &mut plan.graph, &mut plan.decisions)?)
    }
}

/// Adds checkpoints and recompute operators to the graph and decides that the rest is recomputed. What the weight
/// gradient needs stays as large as it is, if the checkpoint leaves that much.
///
/// # Errors
/// If something else has decided about an activation.
pub fn decide(
    recompute: &Recompute,
    chunks: u32,
    graph: &mut OpGraph,
    table: &mut Dispositions,
) -> Result<(), Conflict> {
    let forwards: Vec<_> = (0u32..)
        .map(OpId)
        .zip(graph.ops())
        .filter(|(_, op)| op.phase == Phase::Forward && recompute.covers(op.stage))
        .map(|(id, op)| (id, op.stage, op.chunk, op.writes.clone()))
        .collect();
    for (forward, stage, chunk, saved) in forwards {
        let backward = [Phase::BackwardInput, Phase::Backward];
        let Some(backward) =
            backward.into_iter().find_map(|phase| graph.visit(stage, chunk, phase).first().copied())
        else {
            continue;
        };
        let keeps = recompute.kept(stage) / u64::from(chunks);
        let mut reads = Vec::new();
        if keeps > 0 {
            // The checkpoint takes from what the input gradient needs first, then from what the weight gradient needs.
            let mut left = keeps;
            for &storage in &saved {
                let bytes = &mut graph.stored_mut(storage).bytes;
                let taken = left.min(*bytes);
                (*bytes, left) = (*bytes - taken, left - taken);
            }
            let purpose = Purpose::Checkpoint;
            let checkpoint = graph.storage(Storage { stage, chunk, purpose, bytes: keeps - left });
            reads.push(checkpoint);
            graph.get_mut(backward).reads.push(checkpoint);
            graph.get_mut(forward).writes.push(checkpoint);
        }
        let again = graph.opaque((stage, chunk), Phase::Recompute, [reads, saved.clone()]);
        for storage in saved {
            table.decide(NAME, graph, storage, Disposition::Recompute(vec![again]))?;
        }
    }
    Ok(())
}
