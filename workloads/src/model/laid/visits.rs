//! The visits of a chunk, and its storages tensor by tensor: each lives from the operator that fills it to the last that reads
//! it, as an eager framework allocates and frees it. The output of a block is the input of the next, the gradient that its backward
//! pass ends with the one that the block before starts from.

use crate::graph::cut::Piece;
use crate::graph::handed::Shared;
use crate::graph::operator::TensorId;
use crate::graph::{Phase, Purpose, Storage, StorageId};
use crate::model::transformer::Block;

use super::{Ends, Laying, List, Listed, Part, Uses};

/// The tensors of a block, and what they are for.
pub(super) struct Tensors<'a> {
    block: &'a Block,
    /// What it saves for its backward pass.
    saved: Vec<TensorId>,
    /// By tensor. One that is recomputed ends with the forward pass, though what is filled again
    /// may be kept.
    purposes: Vec<Purpose>,
}

impl<'a> Tensors<'a> {
    pub(super) fn of(block: &'a Block, split_backward: bool) -> Self {
        let (saved, mut purposes) = (block.saved(), vec![Purpose::Working; block.tensors.len()]);
        saved.iter().for_each(|tensor| purposes[tensor.0 as usize] = Purpose::Activation);
        // What the gradients of its weights read, where they are visits of their own.
        for tensor in split_backward.then(|| block.kept_for_weight()).into_iter().flatten() {
            purposes[tensor.0 as usize] = Purpose::WeightGradientInput;
        }
        Self { block, saved, purposes }
    }

    /// Purpose of a tensor.
    fn purpose(&self, tensor: TensorId) -> Purpose {
        self.purposes[tensor.0 as usize]
    }

    /// No storages yet.
    fn no_storages(&self) -> Storages {
        vec![None; self.purposes.len()]
    }

    /// Purpose of a tensor that the forward pass fills: what the blocks behind, `next`, need it for
    /// where its own does not.
    fn purpose_before(&self, next: &[(&Piece, &Listed<'_>)], tensor: TensorId) -> Purpose {
        let own = self.purpose(tensor);
        let Some(((_, Listed { tensors, .. }), rest)) = next.split_first() else { return own };
        let there = match self.block.output == Some(tensor) {
            true => Some(tensors.block.input),
            false => self.block.handed.forward.name_in(&tensors.block.handed.forward.taken, tensor),
        };
        if own != Purpose::Working {
            own
        } else {
            there.map_or(own, |there| tensors.purpose_before(rest, there))
        }
    }

    /// The same of a tensor that the backward pass fills, and the blocks before it.
    fn purpose_behind(&self, before: &[(&Piece, &Listed<'_>)], tensor: TensorId) -> Purpose {
        let own = self.purpose(tensor);
        let Some(((_, Listed { tensors, .. }), rest)) = before.split_last() else { return own };
        let there = match self.block.input_gradient == Some(tensor) {
            true => tensors.block.output_gradient,
            false => self.block.handed.backward.name_in(&tensors.block.handed.backward.taken, tensor),
        };
        if own != Purpose::Working {
            own
        } else {
            there.map_or(own, |there| tensors.purpose_behind(rest, there))
        }
    }
}

impl Shared {
    /// Names storages that a block has left for the next.
    fn take(&self, left: Storages, storages: &mut Storages) {
        self.taken.iter().zip(left).for_each(|(tensor, storage)| storages[tensor.0 as usize] = storage);
    }

    /// Storages that it leaves for the next.
    fn leave(&self, storages: &Storages) -> Storages {
        self.given.iter().map(|tensor| storages[tensor.0 as usize]).collect()
    }
}

/// The storage behind each tensor of a block.
type Storages = Vec<Option<StorageId>>;

impl Laying {
    /// The visits of a chunk: blocks forward, then backward in reverse.
    pub(super) fn visits(&mut self, blocks: &[(&Piece, &Listed<'_>)], received: &List, received_back: &List) {
        self.extend(Phase::Forward, received, Uses::none(received));
        let (stage, chunk) = (self.stage, self.chunk);
        let mut parts = Vec::with_capacity(blocks.len());
        let mut saved = Vec::with_capacity(blocks.len());
        let (mut ends, mut output_before, mut handed) = (Ends::default(), None, Storages::new());
        for (n, &(piece, block)) in blocks.iter().enumerate() {
            let &Piece { kind, owned, trained, read, experts, .. } = piece;
            let tensors = &block.tensors;
            let purpose = |tensor| tensors.purpose_before(&blocks[n + 1..], tensor);
            let (mut uses, mut storages) = (Uses::none(&block.forward), tensors.no_storages());
            let input = tensors.block.input;
            self.start(tensors, input, output_before, &mut uses, &mut storages);
            tensors.block.handed.forward.take(handed, &mut storages);
            if n == 0 {
                ends.input = storages[input.0 as usize];
            }
            self.fill(tensors, &block.forward, &purpose, &mut uses, &mut storages);
            output_before = tensors.block.output.and_then(|output| storages[output.0 as usize]);
            handed = tensors.block.handed.forward.leave(&storages);
            let forward = self.extend(Phase::Forward, &block.forward, uses);
            parts.push(Part {
                stage,
                chunk,
                kind,
                forward,
                backward: 0..0,
                weight: 0..0,
                afterwards: block.afterwards,
                middle: None,
                owned,
                trained,
                read,
                experts,
            });
            let mut left = tensors.no_storages();
            tensors.saved.iter().map(|tensor| tensor.0 as usize).for_each(|n| left[n] = storages[n]);
            saved.push(left);
        }
        ends.output = output_before;
        // A step that ends with the forward pass has no gradients.
        if blocks.iter().all(|(_, block)| block.backward.0.is_empty() && block.weight.0.is_empty()) {
            self.laid.ends.insert((stage, chunk), ends);
            self.laid.parts.extend(parts);
            return;
        }
        let backward = if self.split_backward { Phase::BackwardInput } else { Phase::Backward };
        self.extend(backward, received_back, Uses::none(received_back));
        let (mut gradient_before, mut handed) = (None, Storages::new());
        for (n, (((_, block), storages), part)) in
            blocks.iter().zip(&mut saved).zip(&mut parts).enumerate().rev()
        {
            let tensors = &block.tensors;
            let mut uses = Uses::none(&block.backward);
            if let Some(gradient) = tensors.block.output_gradient {
                self.start(tensors, gradient, gradient_before, &mut uses, storages);
                if n + 1 == blocks.len() {
                    ends.gradient = storages[gradient.0 as usize];
                }
            }
            tensors.block.handed.backward.take(handed, storages);
            let purpose = |tensor| tensors.purpose_behind(&blocks[..n], tensor);
            self.fill(tensors, &block.backward, &purpose, &mut uses, storages);
            gradient_before = tensors.block.input_gradient.and_then(|gradient| storages[gradient.0 as usize]);
            handed = tensors.block.handed.backward.leave(storages);
            part.backward = self.extend(backward, &block.backward, uses);
            part.weight = part.backward.clone();
            part.middle = block
                .halves
                .map(|[forward, backward]| [part.forward.start + forward, part.backward.start + backward]);
        }
        ends.input_gradient = gradient_before;
        if self.split_backward {
            for (((_, block), storages), part) in blocks.iter().zip(&mut saved).zip(&mut parts).rev() {
                let mut uses = Uses::none(&block.weight);
                self.fill(&block.tensors, &block.weight, &|_| Purpose::Working, &mut uses, storages);
                part.weight = self.extend(Phase::BackwardWeight, &block.weight, uses);
            }
        }
        self.laid.ends.insert((stage, chunk), ends);
        self.laid.parts.extend(parts);
    }

    /// The tensor that a list of operators starts from: what the list before has left, or what is there from the first operator
    /// on.
    fn start(
        &mut self,
        tensors: &Tensors<'_>,
        tensor: TensorId,
        before: Option<StorageId>,
        uses: &mut Uses,
        storages: &mut Storages,
    ) {
        let started = before.or_else(|| {
            let Laying { stage, chunk, .. } = *self;
            let (purpose, bytes) = (tensors.purpose(tensor), tensors.block.tensor(tensor).bytes);
            let arriving = || self.laid.graph.arriving(Storage { stage, chunk, purpose, bytes });
            let started = (bytes > 0).then(arriving)?;
            uses.writes.first_mut().unwrap_or(&mut self.arrived).push(started);
            Some(started)
        });
        storages[tensor.0 as usize] = started.or(storages[tensor.0 as usize]);
    }

    /// What operators read and fill, one after the other.
    fn fill(
        &mut self,
        tensors: &Tensors<'_>,
        List(list): &List,
        purpose: &impl Fn(TensorId) -> Purpose,
        uses: &mut Uses,
        storages: &mut Storages,
    ) {
        for (at, entry) in list.iter().enumerate() {
            let op = &self.laid.graph.operators()[entry.operator.0 as usize];
            let (writes, workspace) = (op.writes.clone(), op.workspace);
            let (read, written) = (&mut uses.reads[at], &mut uses.writes[at]);
            for storage in op.reads.iter().filter_map(|tensor| storages[tensor.0 as usize]) {
                // What is there from this operator on is not read before.
                if !read.contains(&storage) && !written.contains(&storage) {
                    read.push(storage);
                }
            }
            for tensor in writes {
                let purpose = match purpose(tensor) {
                    Purpose::Working if entry.again => Purpose::Recomputed,
                    purpose => purpose,
                };
                // One that is saved may be filled piece by piece.
                let begun = storages[tensor.0 as usize];
                let storage = begun.or_else(|| self.storage(purpose, tensors.block.tensor(tensor).bytes));
                storages[tensor.0 as usize] = storage;
                written.extend(storage);
            }
            written.extend(self.storage(Purpose::Workspace, workspace));
        }
    }
}
