//! Activation offload: what a forward pass saves leaves the GPU after its last use there and comes back for the backward pass
//! (Wu et al., SSDTrain, DAC 2025, in the variant with host memory; Rhu et al., vDNN, MICRO 2016).
//!
//! Tensors are taken one by one, so that one which two operators save is moved once. Small ones stay, for which a copy is mostly
//! its start, and of the others those that the backward pass needs first, up to a number of bytes: they would hardly be away.
//! What is next is asked for a number of tensors ahead.

use crate::disposition::{Conflict, Disposition, Dispositions, Offload};
use crate::graph::{OpGraph, OpId, Phase, StorageId};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "activation_offload";

/// What leaves, and when it is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivationOffload {
    /// Smaller tensors stay (bytes).
    pub smallest: u64,
    /// Of each chunk and micro-batch so many bytes of the others stay: those that are needed first.
    pub keep: u64,
    /// Tensors that are asked for before they are needed.
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

/// A storage that may leave.
struct Candidate {
    storage: StorageId,
    bytes: u64,
    filled_by: OpId,
    leaves_after: OpId,
    needed_by: OpId,
}

/// Decides what leaves each chunk.
///
/// # Errors
/// If something else has decided about an activation.
pub fn decide(
    technique: &ActivationOffload,
    graph: &OpGraph,
    (stages, chunks): (u32, u32),
    table: &mut Dispositions,
) -> Result<(), Conflict> {
    for (stage, chunk) in (0..stages).flat_map(|stage| (0..chunks).map(move |chunk| (stage, chunk))) {
        let mut candidates = candidates(graph, stage, chunk);
        candidates.retain(|candidate| candidate.bytes >= technique.smallest);
        let mut kept = 0;
        candidates.retain(|candidate| {
            let stays = kept + candidate.bytes <= technique.keep;
            kept += if stays { candidate.bytes } else { 0 };
            !stays
        });
        for (at, candidate) in candidates.iter().enumerate() {
            let ahead = at.saturating_sub(technique.prefetch as usize);
            let asked_before = candidates[ahead].needed_by;
            let &Candidate { storage, filled_by, leaves_after, needed_by, .. } = candidate;
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
                found.push(Candidate { storage, bytes: stored.bytes, filled_by, leaves_after, needed_by });
            }
        }
    }
    found
}
