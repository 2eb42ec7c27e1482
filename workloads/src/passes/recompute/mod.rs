//! Activation recomputation (Chen et al. 2016): the forward pass keeps a checkpoint, and runs again right before the
//! backward pass.

mod blocks;
mod settings;

use crate::error::PlanError;
use crate::graph::cut::{Cut, Piece};
use crate::graph::operator::Work;
use crate::graph::{OpGraph, OpId, Phase, Purpose, Storage};
use crate::transfer::{Conflict, Disposition, Dispositions};

use super::{Context, Kind, Pass, Plan};

pub use blocks::recomputed;
pub use settings::{Mode, Recompute};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "recompute";

impl Pass for Recompute {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Rewriter
    }

    fn rewrite(&self, model: &mut Cut) {
        let mode = |piece: &Piece| piece.layer.map_or(Mode::None, |layer| self.mode(layer));
        model.rewrite(mode, |block, &mode| recomputed(block, mode));
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
        // Sources that know operators have written those of layers again already.
        .filter(|(_, op)| matches!(graph.work_of(op).work, Work::Opaque { .. }))
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
