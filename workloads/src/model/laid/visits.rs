//! The visits of a chunk, and its storages tensor by tensor: each lives from the operator that fills it to the last that reads
//! it, as an eager framework allocates and frees it. A tensor that is filled again under its name is another one; the output of a
//! block is the input of the next, the gradient that its backward pass ends with the one that the block before starts from.

use std::collections::BTreeMap;

use crate::graph::{Phase, Purpose, Storage, StorageId};
use crate::model::transformer::{Block, Tensor};

use super::{Ends, Laying, List, Listed, Part, PartKind, Uses};

/// The tensors of a block that others know.
#[derive(Clone, Debug)]
pub(super) struct Names {
    input: Tensor,
    output: Option<&'static str>,
    /// The gradient that its backward pass starts from.
    gradient: Option<Tensor>,
    input_gradient: Option<&'static str>,
    /// What it saves for its backward pass.
    saved: Vec<&'static str>,
    /// What the gradients of its weights read, where they are visits of their own.
    kept: Vec<&'static str>,
}

impl Names {
    pub(super) fn of(block: &Block, split_backward: bool) -> Self {
        let names = |tensors: Vec<Tensor>| tensors.into_iter().map(|tensor| tensor.name).collect();
        Self {
            input: block.input,
            output: block.output().map(|tensor| tensor.name),
            gradient: block.gradient(),
            input_gradient: block.input_gradient().map(|tensor| tensor.name),
            saved: names(block.saved()),
            kept: if split_backward { names(block.kept_for_weight()) } else { Vec::new() },
        }
    }

    /// What a tensor of the block is for that the forward pass fills, or begins with. One that is recomputed ends with the pass,
    /// though what fills it again may be kept.
    fn purpose(&self, name: &str) -> Purpose {
        if !self.saved.contains(&name) {
            Purpose::Working
        } else if self.kept.contains(&name) {
            Purpose::WeightGradientInput
        } else {
            Purpose::Activation
        }
    }

    /// The same of its input.
    fn of_input(&self) -> Purpose {
        self.purpose(self.input.name)
    }

    /// What a tensor is for that the backward pass of the block fills, or begins with.
    fn in_backward(&self, name: &str) -> Purpose {
        if self.kept.contains(&name) { Purpose::WeightGradientInput } else { Purpose::Working }
    }
}

/// The storage behind each name.
type Storages = BTreeMap<&'static str, StorageId>;

impl Laying {
    /// The visits of a chunk: blocks forward, then backward in reverse.
    pub(super) fn visits(
        &mut self,
        blocks: &[(PartKind, &Listed, [u64; 3])],
        received: &List,
        received_back: &List,
    ) {
        self.extend(Phase::Forward, received, &Uses::default());
        let (stage, chunk) = (self.stage, self.chunk);
        let mut parts = Vec::with_capacity(blocks.len());
        let mut saved = Vec::with_capacity(blocks.len());
        let (mut ends, mut output_before) = (Ends::default(), None);
        for (n, &(kind, block, [owned, read, experts])) in blocks.iter().enumerate() {
            let names = &block.names;
            let of_next = blocks.get(n + 1).map_or(Purpose::Working, |(_, next, _)| next.names.of_input());
            let purpose = |name: &str| match names.purpose(name) {
                Purpose::Working if names.output == Some(name) => of_next,
                purpose => purpose,
            };
            let (mut uses, mut storages) = (Uses::default(), Storages::new());
            self.start(names.input, output_before, names.of_input(), &mut uses, &mut storages);
            if n == 0 {
                ends.input = storages.get(names.input.name).copied();
            }
            self.fill((Phase::Forward, &block.forward), &purpose, &mut uses, &mut storages);
            output_before = names.output.and_then(|output| storages.get(output).copied());
            let forward = self.extend(Phase::Forward, &block.forward, &uses);
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
                read,
                experts,
            });
            storages.retain(|name, _| names.saved.contains(name));
            saved.push(storages);
        }
        ends.output = output_before;
        // A step that ends with the forward pass has no gradients.
        if blocks.iter().all(|(_, block, _)| block.backward.0.is_empty() && block.weight.0.is_empty()) {
            self.laid.ends.insert((stage, chunk), ends);
            self.laid.parts.extend(parts);
            return;
        }
        let backward = if self.split_backward { Phase::BackwardInput } else { Phase::Backward };
        self.extend(backward, received_back, &Uses::default());
        let mut gradient_before = None;
        for (n, (((_, block, _), storages), part)) in
            blocks.iter().zip(&mut saved).zip(&mut parts).enumerate().rev()
        {
            let names = &block.names;
            let mut uses = Uses::default();
            if let Some(gradient) = names.gradient {
                self.start(gradient, gradient_before, names.in_backward(gradient.name), &mut uses, storages);
                if n + 1 == blocks.len() {
                    ends.gradient = storages.get(gradient.name).copied();
                }
            }
            let of_next = n.checked_sub(1).map_or(Purpose::Working, |next| {
                let Listed { names, .. } = blocks[next].1;
                names.gradient.map_or(Purpose::Working, |gradient| names.in_backward(gradient.name))
            });
            let purpose = |name: &str| match names.in_backward(name) {
                Purpose::Working if names.input_gradient == Some(name) => of_next,
                purpose => purpose,
            };
            self.fill((backward, &block.backward), &purpose, &mut uses, storages);
            gradient_before = names.input_gradient.and_then(|name| storages.get(name).copied());
            part.backward = self.extend(backward, &block.backward, &uses);
            part.weight = part.backward.clone();
            part.middle = block
                .halves
                .map(|[forward, backward]| [part.forward.start + forward, part.backward.start + backward]);
        }
        ends.input_gradient = gradient_before;
        if self.split_backward {
            for (((_, block, _), storages), part) in blocks.iter().zip(&mut saved).zip(&mut parts).rev() {
                let mut uses = Uses::default();
                self.fill((Phase::BackwardWeight, &block.weight), &|_| Purpose::Working, &mut uses, storages);
                part.weight = self.extend(Phase::BackwardWeight, &block.weight, &uses);
            }
        }
        self.laid.ends.insert((stage, chunk), ends);
        self.laid.parts.extend(parts);
    }

    /// The tensor that a list of operators starts from: what the list before has left, or what is there from the first operator
    /// on.
    fn start(
        &mut self,
        Tensor { name, bytes }: Tensor,
        before: Option<StorageId>,
        purpose: Purpose,
        uses: &mut Uses,
        storages: &mut Storages,
    ) {
        let started = before.or_else(|| {
            let Laying { stage, chunk, .. } = *self;
            let arriving = || self.laid.graph.arriving(Storage { stage, chunk, purpose, bytes });
            let started = (bytes > 0).then(arriving)?;
            uses.writes.push((0, started));
            Some(started)
        });
        storages.extend(started.map(|storage| (name, storage)));
    }

    /// What operators read and fill, one after the other.
    fn fill(
        &mut self,
        (visit, List(list)): (Phase, &List),
        purpose: &impl Fn(&str) -> Purpose,
        uses: &mut Uses,
        storages: &mut Storages,
    ) {
        for (at, entry) in list.iter().enumerate() {
            let op = &self.laid.graph.operators()[entry.operator.0 as usize];
            let (writes, workspace) = (op.writes.clone(), op.workspace);
            for storage in op.reads.iter().filter_map(|name| storages.get(name)) {
                // What is there from this operator on is not read before.
                if !uses.reads.contains(&(at, *storage)) && !uses.writes.contains(&(at, *storage)) {
                    uses.reads.push((at, *storage));
                }
            }
            for Tensor { name, bytes } in writes {
                let purpose = match purpose(name) {
                    Purpose::Working if entry.again => Purpose::Recomputed,
                    purpose => purpose,
                };
                // One that is saved may be filled piece by piece.
                let in_pieces = visit == Phase::Forward && purpose.is_activation();
                if let Some(&storage) = storages.get(name).filter(|_| in_pieces) {
                    uses.writes.push((at, storage));
                    continue;
                }
                if let Some(storage) = self.storage(purpose, bytes) {
                    uses.writes.push((at, storage));
                    storages.insert(name, storage);
                }
            }
            let workspace = self.storage(Purpose::Workspace, workspace);
            uses.writes.extend(workspace.map(|workspace| (at, workspace)));
        }
    }
}
