//! Layers of a chunk, as its operators show them, with the inputs that leave.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::graph::operator::Work;
use crate::graph::{OpGraph, OpId, Phase, Purpose, StorageId};
use crate::liveness::{Gap, gaps};

use super::Offload;

/// Layers of a chunk in both passes.
pub(super) struct Layers {
    pub(super) forward: Vec<OpId>,
    pub(super) backward: Vec<OpId>,
    /// Layers of the forward pass. Each begins with an operator that fills a tensor; what works in
    /// place belongs to the one before, with which it shares its buffer.
    pub(super) reading: Vec<Range<usize>>,
    /// Layers of the backward pass: operators one after the other that read the same gradient.
    pub(super) returning: Vec<Range<usize>>,
    /// By layer of the backward pass, whether it is a convolution.
    convolution: Vec<bool>,
    /// Stage and chunk.
    of: (u32, u32),
}

/// An input of a layer that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offloaded {
    pub(super) storage: StorageId,
    pub(super) bytes: u64,
    /// Layer of the forward pass that reads it last, which its copy overlaps.
    pub(super) reader: usize,
    /// Operator that reads it last there, and its position.
    pub(super) freed_after: OpId,
    pub(super) left: usize,
    /// Layer of the backward pass that needs it.
    pub(super) needed: usize,
    /// Layer of the backward pass that prefetches it, or the one that needs it.
    pub(super) asked: usize,
}

impl Layers {
    /// Layers of a chunk of a stage.
    pub(super) fn of(graph: &OpGraph, stage: u32, chunk: u32) -> Self {
        let ops = |phase| graph.visit(stage, chunk, phase).to_vec();
        let (forward, backward) = (ops(Phase::Forward), ops(Phase::Backward));
        let reading = runs(forward.len(), |at| fills(graph, forward[at]));
        let mut gradients: BTreeSet<StorageId> = BTreeSet::new();
        let returning = runs(backward.len(), |at| {
            let is_saved = |it: &&StorageId| graph.stored(**it).purpose.is_activation();
            let (saved, read): (Vec<&StorageId>, Vec<&StorageId>) =
                graph.get(backward[at]).reads.iter().partition(is_saved);
            let fills = fills(graph, backward[at]);
            // What adds to sums of gradients belongs to the layer that made them.
            let begins = (fills || !saved.is_empty()) && !read.iter().any(|it| gradients.contains(it));
            if begins {
                gradients.clear();
            }
            gradients.extend(read);
            if !fills && !saved.is_empty() {
                // It has changed its gradient in place: who reads that is another layer.
                gradients.clear();
            }
            begins
        });
        let is_convolution =
            |layer: &Range<usize>| backward[layer.clone()].iter().any(|&op| convolves(graph, op));
        let convolution = returning.iter().map(is_convolution).collect();
        Self { forward, backward, reading, returning, convolution, of: (stage, chunk) }
    }

    /// Inputs that leave, in the order in which the backward pass needs them, each with the layer
    /// that prefetches it (`findPrefetchLayer` of the paper).
    pub(super) fn offloaded(&self, graph: &OpGraph, offload: Offload) -> Vec<Offloaded> {
        let all = gaps(graph, self.of.0, self.of.1);
        let mut leaving: Vec<Offloaded> =
            all.iter().filter_map(|gap| self.leaving(graph, offload, gap)).collect();
        let needing: BTreeSet<usize> = leaving.iter().map(|it| it.needed).collect();
        let mut prefetched: BTreeSet<usize> = BTreeSet::new();
        for layer in 0..self.returning.len() {
            let ahead = layer + 1..self.returning.len();
            // The search ends at a convolution, so that nothing comes long before it is needed.
            let found = ahead
                .map(|next| (next, needing.contains(&next) && !prefetched.contains(&next)))
                .find(|&(next, wanted)| wanted || self.convolution[next]);
            prefetched.insert(layer);
            if let Some((next, true)) = found {
                prefetched.insert(next);
                leaving.iter_mut().filter(|it| it.needed == next).for_each(|it| it.asked = layer);
            }
        }
        leaving
    }

    fn leaving(&self, graph: &OpGraph, offload: Offload, gap: &Gap) -> Option<Offloaded> {
        let &Gap { storage, bytes, last_used_by, at: [filled, left, needed], .. } = gap;
        let reader = layer_of(&self.reading, left)?;
        let of_kind = match offload {
            Offload::All | Offload::Dynamic => true,
            Offload::Conv => convolves(graph, last_used_by),
            Offload::None => false,
        };
        // An input was filled by a layer before.
        let input = filled < self.reading[reader].start && !graph.arrives(storage);
        if !of_kind || !input || left >= self.classifier(graph) {
            return None;
        }
        let needed = layer_of(&self.returning, needed)?;
        let freed_after = last_used_by;
        Some(Offloaded { storage, bytes, reader, freed_after, left, needed, asked: needed })
    }

    /// Position of the first matrix product behind the last convolution of the forward pass.
    fn classifier(&self, graph: &OpGraph) -> usize {
        let last = self.forward.iter().rposition(|&op| convolves(graph, op));
        let product = |&op: &OpId| matches!(graph.operator(op).work, Work::Gemm(_) | Work::Grouped(_));
        last.map_or(0, |last| {
            let behind = self.forward[last..].iter().position(product);
            behind.map_or(self.forward.len(), |behind| last + behind)
        })
    }
}

fn convolves(graph: &OpGraph, op: OpId) -> bool {
    matches!(graph.operator(op).work, Work::Convolution(_))
}

/// True if an operator fills a tensor, rather than changing one in place.
fn fills(graph: &OpGraph, op: OpId) -> bool {
    graph.get(op).writes.iter().any(|&storage| graph.stored(storage).purpose != Purpose::Workspace)
}

/// Runs of a list, each of which begins where `begins` says so.
fn runs(count: usize, mut begins: impl FnMut(usize) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in 0..count {
        let new = begins(at);
        match runs.last_mut() {
            Some(run) if !new => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

fn layer_of(layers: &[Range<usize>], at: usize) -> Option<usize> {
    layers.iter().position(|layer| layer.contains(&at))
}
