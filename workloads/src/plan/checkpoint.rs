//! Bytes of a checkpoint: parameters and states of the optimizer, by stage.
//!
//! Gradients are not in it, nor fp32 copies of gradients: a step makes them again. Replicas hold equal
//! bytes, so each byte is written once, by one of the ranks that hold it:
//!
//! ```text
//! elements of a stage = t (p - r - e) + r + t e E      p, r, e: of a rank: all, on every tensor
//!                                                      rank, experts; t tensor ranks, E expert ranks
//! ```
//!
//! An embedding that is tied is written by the first stage, not by the last one again. What is
//! frozen is not written: of a model with adapters its adapters are.

use crate::diagnostic::Diagnostic;
use crate::model::transformer::{MOMENTS, ShardedTransformer, StateBytes, States};

use super::transformer::parameters;
use super::{LayeredPlan, TransformerPlan};

/// Bytes that the ranks of a stage write and hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCheckpoint {
    /// Ranks of the stage.
    pub ranks: u32,
    /// Parameters as operators read them, each written once.
    pub parameters: u64,
    /// Moments, and the copies of parameters that the optimizer updates, each written once.
    pub optimizer: u64,
    /// Bytes that all ranks of the stage hold of both, replicas counted.
    pub held: u64,
}

impl StageCheckpoint {
    /// Bytes written.
    pub const fn written(&self) -> u64 {
        self.parameters + self.optimizer
    }
}

/// The checkpoint of a transformer in training.
///
/// # Errors
/// Faults of the model or its split.
pub fn checkpoint(plan: &TransformerPlan) -> Result<Vec<StageCheckpoint>, Vec<Diagnostic>> {
    let model = ShardedTransformer::new(&plan.model, &plan.execution)?;
    let split = &plan.execution.split;
    let chain = plan.deployment.pipelining.schedule.chain(split.stages);
    let (states, data, tensor) = (plan.execution.states, plan.data_parallel(), u64::from(split.tensor));
    let of_stage = |stage| {
        let rank = parameters(&model, chain, stage).trained();
        let tied = if stage + 1 == split.stages { rank.shared } else { 0 };
        let sliced = rank.total() - rank.replicated - rank.experts - tied;
        let experts = rank.experts * u64::from(split.expert);
        let elements = tensor * (sliced + experts) + rank.replicated;
        let ranks = split.tensor.saturating_mul(data.ranks);
        written(ranks, elements, model.state_bytes(&rank, &data), (states, MOMENTS))
    };
    Ok((0..split.stages).map(of_stage).collect())
}

/// The checkpoint of a list of layers in training.
pub fn checkpoint_layered(plan: &LayeredPlan) -> Vec<StageCheckpoint> {
    let execution = plan.model.execution();
    let moments = execution.optimizer.moments();
    let states = execution.states;
    let of_stage = |elements| {
        let held = states.bytes(elements, plan.sharding, plan.data);
        written(plan.data, elements, held, (states, moments))
    };
    plan.model.stage_parameters(plan.stages).into_iter().map(of_stage).collect()
}

/// The checkpoint of a stage with this many different elements; `rank` holds states of Adam.
fn written(ranks: u32, elements: u64, rank: StateBytes, (states, moments): (States, u64)) -> StageCheckpoint {
    /// Bytes of a moment.
    const SINGLE: u64 = 4;
    let each = states.copy_bytes() + SINGLE * moments;
    let updated = rank.optimizer / states.optimizer_bytes();
    StageCheckpoint {
        ranks,
        parameters: elements * states.parameter_bytes(),
        optimizer: elements * each,
        held: (rank.parameters + updated * each).saturating_mul(ranks.into()),
    }
}
