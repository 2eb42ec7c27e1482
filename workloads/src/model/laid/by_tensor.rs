//! Storages tensor by tensor: each lives from the operator that fills it to the last that reads it, as an eager framework
//! allocates and frees it. A tensor that is filled again under its name is another one; the output of a block is the input of
//! the next, the gradient that its backward pass ends with the one that the block before starts from.

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
}

impl Names {
    pub(super) fn of(block: &Block) -> Self {
        Self {
            input: block.input,
            output: block.output().map(|tensor| tensor.name),
            gradient: block.gradient(),
            input_gradient: block.input_gradient().map(|tensor| tensor.name),
            saved: block.saved().into_iter().map(|tensor| tensor.name).collect(),
        }
    }

    fn saves_input(&self) -> bool {
        self.saved.contains(&self.input.name)
    }
}

/// The storage behind each name.
type Storages = BTreeMap<&'static str, StorageId>;

impl Laying {
    /// The visits of a chunk: blocks forward, then backward in reverse.
    pub(super) fn visits_by_tensor(
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
            let output_is_saved = blocks.get(n + 1).is_some_and(|(_, next, _)| next.names.saves_input());
            let is_saved =
                |name: &str| names.saved.contains(&name) || output_is_saved && names.output == Some(name);
            let (mut uses, mut storages) = (Uses::default(), Storages::new());
            self.start(names.input, output_before, names.saves_input(), &mut uses, &mut storages);
            if n == 0 {
                ends.input = storages.get(names.input.name).copied();
            }
            self.fill(&block.forward, &is_saved, &mut uses, &mut storages);
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
        let backward = if self.split_backward { Phase::BackwardInput } else { Phase::Backward };
        self.extend(backward, received_back, &Uses::default());
        let mut gradient_before = None;
        for (n, (((_, block, _), storages), part)) in
            blocks.iter().zip(&mut saved).zip(&mut parts).enumerate().rev()
        {
            let names = &block.names;
            let mut uses = Uses::default();
            if let Some(gradient) = names.gradient {
                self.start(gradient, gradient_before, false, &mut uses, storages);
                if n + 1 == blocks.len() {
                    ends.gradient = storages.get(gradient.name).copied();
                }
            }
            self.fill(&block.backward, &|_| false, &mut uses, storages);
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
                self.fill(&block.weight, &|_| false, &mut uses, storages);
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
        is_saved: bool,
        uses: &mut Uses,
        storages: &mut Storages,
    ) {
        let purpose = if is_saved { Purpose::Activation } else { Purpose::Working };
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
        List(list): &List,
        is_saved: &impl Fn(&str) -> bool,
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
                // One that is saved may be filled piece by piece.
                if let Some(&storage) = storages.get(name).filter(|_| is_saved(name)) {
                    uses.writes.push((at, storage));
                    continue;
                }
                let purpose = match (is_saved(name), entry.again) {
                    (true, _) => Purpose::Activation,
                    (false, true) => Purpose::Recomputed,
                    (false, false) => Purpose::Working,
                };
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
