//! Activation offload: what a forward pass saves leaves the GPU and comes back for the backward pass (Wu et al., SSDTrain, DAC
//! 2025; Rhu et al., vDNN, MICRO 2016).
//!
//! Tensors are taken one by one, so that one which two operators save is moved once. Small ones stay, for which a copy is mostly
//! its start, and of the others those that the backward pass needs first: they would hardly be away. What is next is asked for
//! a number of tensors ahead.

use std::ops::Range;

use crate::disposition::{Conflict, Disposition, Dispositions, Offload};
use crate::graph::{OpGraph, OpId, Phase, StorageId};
use crate::order::{Order, Visit};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "activation_offload";

/// What leaves, and when it is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivationOffload {
    /// Smaller tensors stay (bytes).
    pub smallest: u64,
    /// Of the others, which stay.
    pub keep: Keep,
    /// How many tensors, large enough to leave, are needed between the moment when one is asked for and that when it is needed.
    pub prefetch: u32,
    /// When copies begin.
    pub store: Store,
    /// Whether what is asked for before its copy has ended stays.
    pub forwarding: bool,
}

/// When the copy of a tensor begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// When it is filled (SSDTrain).
    Produced,
    /// After its last use in the forward pass (vDNN).
    LastUse,
}

/// What stays of each chunk and micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// So many bytes: those that are needed first.
    Bytes(u64),
    /// What the head and the loss save, and the last so many layers.
    Layers(u32),
    /// The same with the last layer where each micro-batch's backward pass follows its forward pass at once, and none elsewhere
    /// (SSDTrain).
    LastLayer,
}

/// The operators of a layer, of the embedding or of the head in the backward pass, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerOps {
    /// Its stage.
    pub stage: u32,
    /// Its chunk there.
    pub chunk: u32,
    /// Whether it is the head.
    pub is_head: bool,
    /// The whole backward pass.
    pub backward: Range<u32>,
}

/// A storage that may leave.
struct Candidate {
    storage: StorageId,
    bytes: u64,
    filled_by: OpId,
    leaves_after: OpId,
    needed_by: OpId,
    /// The last operator of the backward pass that needs it, of what saved it first.
    needed_last: OpId,
}

/// Decides what leaves each chunk. `layers` are in the order of the forward pass.
///
/// # Errors
/// If something else has decided about an activation.
pub fn decide(
    technique: &ActivationOffload,
    graph: &OpGraph,
    layers: &[LayerOps],
    order: &Order,
    table: &mut Dispositions,
) -> Result<(), Conflict> {
    let chain = order.shape.chain;
    let chunks = (0..chain.stages).flat_map(|stage| (0..chain.chunks).map(move |chunk| (stage, chunk)));
    for (stage, chunk) in chunks {
        let mut candidates = candidates(graph, stage, chunk);
        candidates.retain(|candidate| candidate.bytes >= technique.smallest);
        // What stays counts, too: what leaves is asked for ahead of it.
        let needed: Vec<(StorageId, OpId)> =
            candidates.iter().map(|candidate| (candidate.storage, candidate.needed_by)).collect();
        let of_chunk: Vec<&LayerOps> =
            layers.iter().filter(|layer| (layer.stage, layer.chunk) == (stage, chunk)).collect();
        match technique.keep {
            Keep::Bytes(bytes) => keep_bytes(&mut candidates, bytes),
            Keep::Layers(count) => keep_layers(&mut candidates, &of_chunk, count),
            Keep::LastLayer => {
                let count = u32::from(returns_at_once(order, stage, chunk));
                keep_layers(&mut candidates, &of_chunk, count);
            }
        }
        for Candidate { storage, filled_by, leaves_after, needed_by, .. } in candidates {
            let at = needed.iter().position(|&(known, _)| known == storage).unwrap_or_default();
            let (_, asked_before) = needed[at.saturating_sub(technique.prefetch as usize)];
            let copied_after = match technique.store {
                Store::Produced => filled_by,
                Store::LastUse => leaves_after,
            };
            let forwarded = technique.forwarding;
            let offload = Offload { copied_after, leaves_after, asked_before, needed_by, forwarded };
            table.decide(NAME, graph, storage, Disposition::Offload(offload))?;
        }
    }
    Ok(())
}

fn keep_bytes(candidates: &mut Vec<Candidate>, bytes: u64) {
    let mut kept = 0;
    candidates.retain(|candidate| {
        let stays = kept + candidate.bytes <= bytes;
        kept += if stays { candidate.bytes } else { 0 };
        !stays
    });
}

/// Keeps what the head and the last so many layers save. What several save is the first's.
fn keep_layers(candidates: &mut Vec<Candidate>, layers: &[&LayerOps], count: u32) {
    let leaving = layers.iter().filter(|layer| !layer.is_head).count().saturating_sub(count as usize);
    let leaving: Vec<&Range<u32>> =
        layers.iter().filter(|layer| !layer.is_head).take(leaving).map(|layer| &layer.backward).collect();
    candidates.retain(|candidate| leaving.iter().any(|layer| layer.contains(&candidate.needed_last.0)));
}

/// Whether the backward pass of each micro-batch is what a stage does after its forward pass.
fn returns_at_once(order: &Order, stage: u32, chunk: u32) -> bool {
    let visits = &order.stages[stage as usize];
    let of_chunk = |visit: &Visit| u32::from(visit.chunk) == chunk;
    let mut forward = visits.windows(2).filter(|pair| pair[0].phase == Phase::Forward && of_chunk(&pair[0]));
    forward.all(|pair| {
        pair[1].phase == Phase::Backward && of_chunk(&pair[1]) && pair[1].micro_batch == pair[0].micro_batch
    })
}

/// Activations that are used in both passes, in the order in which the backward pass needs them.
fn candidates(graph: &OpGraph, stage: u32, chunk: u32) -> Vec<Candidate> {
    let (forward, backward) =
        (graph.visit(stage, chunk, Phase::Forward), graph.visit(stage, chunk, Phase::Backward));
    let writes = |op: OpId, storage: StorageId| graph.get(op).writes.contains(&storage);
    let uses = |op: OpId, storage: StorageId| graph.get(op).reads.contains(&storage) || writes(op, storage);
    let mut found: Vec<Candidate> = Vec::new();
    for &needed_by in backward {
        for &storage in &graph.get(needed_by).reads {
            let stored = graph.stored(storage);
            if !stored.purpose.is_activation() || found.iter().any(|known| known.storage == storage) {
                continue;
            }
            let filled_by = forward.iter().rfind(|&&op| writes(op, storage));
            let leaves_after = forward.iter().rfind(|&&op| uses(op, storage));
            if let (Some(&filled_by), Some(&leaves_after)) = (filled_by, leaves_after) {
                let needed_last = backward.iter().rfind(|&&op| graph.get(op).reads.contains(&storage));
                let needed_last = *needed_last.unwrap_or(&needed_by);
                let bytes = stored.bytes;
                found.push(Candidate { storage, bytes, filled_by, leaves_after, needed_by, needed_last });
            }
        }
    }
    found
}
