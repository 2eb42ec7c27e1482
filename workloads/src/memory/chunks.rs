//! What a stage executes in the visits of a chunk, with numbers in place of storages: a step executes the same few lists very
//! often.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::cut::PartKind;
use crate::graph::operator::{Gemm, GroupedGemm, Operator, Work};
use crate::graph::{Op, OpGraph, OpId, OperatorId, Phase, Purpose, StorageId};
use crate::model::laid::{Ends, Laid, Part};

/// A storage of a chunk.
pub(super) type Slot = usize;

/// A chunk of a stage.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Its storages, ascending: that of each slot.
    pub(super) storages: Vec<StorageId>,
    /// Bytes of its input.
    pub(super) input_bytes: u64,
    pub(super) input: Option<Slot>,
    pub(super) output: Option<Slot>,
    pub(super) gradient: Option<Slot>,
    pub(super) input_gradient: Option<Slot>,
    visits: BTreeMap<Phase, Visited>,
}

/// What a visit executes.
#[derive(Debug, Default)]
pub(super) struct Visited {
    /// One block after the other.
    pub(super) blocks: Vec<Listed>,
    /// What follows all blocks, when the result has been left for the next chunk.
    pub(super) afterwards: Vec<Listed>,
}

/// An operator.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) op: OpId,
    pub(super) operator: OperatorId,
    /// Its block, in the order of the forward pass.
    pub(super) block: u32,
    pub(super) is_recomputed: bool,
    pub(super) workspace: u64,
    pub(super) reads: Vec<Slot>,
    /// What it fills, with its bytes.
    pub(super) fills: Vec<(Slot, u64)>,
    /// A weight gradient that it adds to a sum.
    pub(super) adds: Option<WeightGradient>,
}

/// A weight gradient.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightGradient {
    /// Rows and columns.
    pub(super) shape: (u64, u64),
    pub(super) bytes: u64,
    /// Whether it is a layer's, rather than that of the logits.
    pub(super) of_layer: bool,
}

impl Chunk {
    /// The chunk `chunk` of `stage`; storages of `graph` are tensors, and its blocks are those of `laid`.
    pub(super) fn of(laid: &Laid, graph: &OpGraph, (stage, chunk): (u32, u32)) -> Self {
        let is_own = |part: &&Part| (part.stage, part.chunk) == (stage, chunk);
        let parts: Vec<&Part> = laid.parts.iter().filter(is_own).collect();
        let mut listing = Listing::of(graph, (stage, chunk));
        let phases = [Phase::Forward, Phase::Backward, Phase::BackwardInput, Phase::BackwardWeight];
        let visits =
            phases.map(|phase| (phase, listing.visit(&parts, graph.visit(stage, chunk, phase), phase)));
        let Ends { input, output, gradient, input_gradient } =
            laid.ends.get(&(stage, chunk)).copied().unwrap_or_default();
        let slot = |storage: Option<StorageId>| listing.slot(storage?);
        Self {
            input_bytes: input.map_or(0, |input| graph.stored(input).bytes),
            input: slot(input),
            output: slot(output),
            gradient: slot(gradient),
            input_gradient: slot(input_gradient),
            visits: visits.into(),
            storages: listing.storages,
        }
    }

    /// The slot of a storage; none of one that is another chunk's.
    pub(super) fn slot(&self, storage: StorageId) -> Option<Slot> {
        self.storages.binary_search(&storage).ok()
    }

    /// What a visit executes.
    pub(super) fn visit(&self, phase: Phase) -> &Visited {
        &self.visits[&phase]
    }
}

/// The operators of a chunk on the way to their lists.
struct Listing<'a> {
    graph: &'a OpGraph,
    /// Its storages, ascending; each has its position as number.
    storages: Vec<StorageId>,
    /// Those that have been filled.
    filled: BTreeSet<StorageId>,
}

impl<'a> Listing<'a> {
    fn of(graph: &'a OpGraph, of: (u32, u32)) -> Self {
        let storages = (0u32..).map(StorageId).zip(graph.storages());
        let own = storages.filter(|(_, storage)| (storage.stage, storage.chunk) == of);
        Self { graph, storages: own.map(|(id, _)| id).collect(), filled: BTreeSet::new() }
    }

    fn slot(&self, storage: StorageId) -> Option<Slot> {
        self.storages.binary_search(&storage).ok()
    }

    /// What a visit of blocks executes behind what takes in a message.
    fn visit(&mut self, parts: &[&Part], ops: &[OpId], phase: Phase) -> Visited {
        let (mut visited, mut again) = (Visited::default(), Vec::new());
        let of_part = |part: &Part| match phase {
            Phase::Forward => part.forward.clone(),
            Phase::BackwardWeight => part.weight.clone(),
            _ => part.backward.clone(),
        };
        for &op in ops {
            let Some(block) = parts.iter().position(|part| of_part(part).contains(&op.0)) else {
                // What is produced again belongs to the operator that reads it.
                again.extend((self.graph.get(op).phase == Phase::Recompute).then_some(op));
                continue;
            };
            let part = parts[block];
            for op in again.drain(..) {
                visited.blocks.push(self.listed(op, block as u32, part));
            }
            let is_backward = matches!(phase, Phase::Backward | Phase::BackwardInput);
            let follows = is_backward && op.0 + part.afterwards >= part.backward.end;
            let list = if follows { &mut visited.afterwards } else { &mut visited.blocks };
            list.push(self.listed(op, block as u32, part));
        }
        visited.afterwards.sort_by_key(|op| op.block);
        visited
    }

    fn listed(&mut self, op: OpId, block: u32, part: &Part) -> Listed {
        let &Op { operator, phase, ref reads, ref writes, .. } = self.graph.get(op);
        let Operator { work, workspace, .. } = self.graph.operator(op);
        // What is exchanged lives as the allocator of the framework does, not as the device needs it.
        let is_tensor = |storage: StorageId| {
            let purpose = self.graph.stored(storage).purpose;
            !matches!(purpose, Purpose::Workspace | Purpose::Gathered | Purpose::Unreduced)
        };
        let (mut fills, mut read) = (Vec::new(), reads.clone());
        for storage in writes.iter().copied().filter(|&storage| is_tensor(storage)) {
            // What arrives is there, and so is what is filled piece by piece after the first.
            if self.graph.arrives(storage) || !self.filled.insert(storage) {
                read.push(storage);
            } else {
                fills.push(storage);
            }
        }
        let bytes = |storage: StorageId| self.graph.stored(storage).bytes;
        let fills = fills.into_iter().filter_map(|storage| Some((self.slot(storage)?, bytes(storage))));
        Listed {
            op,
            operator,
            block,
            is_recomputed: phase == Phase::Recompute,
            workspace: *workspace,
            fills: fills.collect(),
            reads: read.into_iter().filter_map(|storage| self.slot(storage)).collect(),
            adds: WeightGradient::of(work, part),
        }
    }
}

impl WeightGradient {
    /// What a product adds to a sum over micro-batches.
    fn of(work: &Work, part: &Part) -> Option<Self> {
        let (Work::Gemm(gemm) | Work::Grouped(GroupedGemm { groups: gemm })) = work else { return None };
        let Gemm { m, n, dtype, .. } = *gemm;
        let of_layer = part.kind != PartKind::Head;
        gemm.accumulate.is_some().then_some(Self { shape: (m, n), bytes: m * n * dtype.bytes(), of_layer })
    }
}
