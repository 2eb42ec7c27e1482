//! Operators that a block executes for its neighbour: the first of a pass of the one that follows,
//! behind its own.
//!
//! ```text
//!   before     A: ... add -> x      | B: norm(x) -> n, product(n), ...
//!   handed     A: ... add, norm -> x, n | B: product(n), ...
//! ```
//!
//! What they make, or find of their own block, are tensors that both blocks have from then on.

use std::collections::BTreeMap;

use super::block::Block;
use super::operator::{Operator, TensorId};

/// Tensors that a block shares with its neighbours, beside inputs, outputs and their gradients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// In the forward pass, from block to block; the backward passes read some of them.
    pub forward: Shared,
    /// In the backward pass, from block to block in reverse.
    pub backward: Shared,
}

/// Tensors that a pass shares with those of the blocks executed before and after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Its own names of those that the block executed before has left, in the order of its `given`.
    pub taken: Vec<TensorId>,
    /// Tensors that it leaves for the block executed next.
    pub given: Vec<TensorId>,
}

impl Shared {
    /// The name that the next block has for a tensor, which itself has `taken`.
    pub fn name_in(&self, taken: &[TensorId], tensor: TensorId) -> Option<TensorId> {
        let at = self.given.iter().position(|&given| given == tensor)?;
        taken.get(at).copied()
    }

    /// Takes out the first tensor that the next block finds, which starts from it instead of one that
    /// it does not read.
    fn first(&mut self, next: &mut Self) -> Option<(TensorId, TensorId)> {
        let both = !self.given.is_empty() && !next.taken.is_empty();
        both.then(|| (self.given.remove(0), next.taken.remove(0)))
    }

    fn pairs<'a>(&'a self, next: &'a Self) -> impl Iterator<Item = (TensorId, TensorId)> {
        next.taken.iter().copied().zip(self.given.iter().copied())
    }
}

impl Block {
    /// Executes the first `count` operators of the forward pass of the block that follows.
    pub fn take_forward(&mut self, next: &mut Self, count: usize) {
        let mut names: BTreeMap<TensorId, TensorId> =
            self.handed.forward.pairs(&next.handed.forward).collect();
        names.extend(self.output.map(|output| (next.input, output)));
        let moved: Vec<Operator> = next.forward.drain(..count).collect();
        let mut copied = Vec::new();
        for op in &moved {
            let own = self.renamed(op, next, &mut names, &mut copied);
            self.forward.push(own);
        }
        let left = next.forward.iter().chain(&next.backward).flat_map(|op| &op.reads).chain(&next.output);
        let left: Vec<TensorId> = left.copied().collect();
        let made = |tensor: &TensorId| moved.iter().any(|op| op.writes.contains(tensor));
        for tensor in copied.into_iter().filter(|tensor| made(tensor) && left.contains(tensor)) {
            self.handed.forward.given.push(names[&tensor]);
            next.handed.forward.taken.push(tensor);
        }
        if !left.contains(&next.input)
            && let Some((given, taken)) = self.handed.forward.first(&mut next.handed.forward)
        {
            (self.output, next.input) = (Some(given), taken);
        }
    }

    /// Executes the first `count` operators of the backward pass of the block before it, which
    /// leaves it what they read of its forward pass.
    pub fn take_backward(&mut self, before: &mut Self, count: usize) {
        let handed = &before.handed.forward;
        let forward = handed.given.iter().copied().zip(self.handed.forward.taken.iter().copied());
        let mut names: BTreeMap<TensorId, TensorId> = forward.collect();
        names.extend(self.handed.backward.pairs(&before.handed.backward));
        names.extend(before.output.map(|output| (output, self.input)));
        names.extend(before.output_gradient.zip(self.input_gradient));
        let moved: Vec<Operator> = before.backward.drain(..count).collect();
        let (at, mut copied) = (self.backward.len() - self.afterwards(), Vec::new());
        let own: Vec<Operator> =
            moved.iter().map(|op| self.renamed(op, before, &mut names, &mut copied)).collect();
        self.backward.splice(at..at, own);
        let made = |tensor: &TensorId| moved.iter().any(|op| op.writes.contains(tensor));
        let reads = before.backward.iter().flat_map(|op| &op.reads).chain(&before.input_gradient);
        let left: Vec<TensorId> = reads.copied().collect();
        let (gradients, saved): (Vec<TensorId>, Vec<TensorId>) = copied.into_iter().partition(made);
        for tensor in gradients.into_iter().filter(|tensor| left.contains(tensor)) {
            self.handed.backward.given.push(names[&tensor]);
            before.handed.backward.taken.push(tensor);
        }
        let unread = before.output_gradient.is_some_and(|start| !left.contains(&start));
        if unread && let Some((given, taken)) = self.handed.backward.first(&mut before.handed.backward) {
            (self.input_gradient, before.output_gradient) = (Some(given), Some(taken));
        }
        for tensor in saved {
            before.handed.forward.given.push(tensor);
            self.handed.forward.taken.push(names[&tensor]);
        }
    }

    /// An operator of a neighbour on its own tensors; those that it has no name for are `copied`.
    fn renamed(
        &mut self,
        op: &Operator,
        neighbour: &Self,
        names: &mut BTreeMap<TensorId, TensorId>,
        copied: &mut Vec<TensorId>,
    ) -> Operator {
        let mut own = |&tensor: &TensorId| {
            *names.entry(tensor).or_insert_with(|| {
                copied.push(tensor);
                self.tensors.push(neighbour.tensor(tensor).clone());
                TensorId(self.tensors.len() as u32 - 1)
            })
        };
        let reads = op.reads.iter().map(&mut own).collect();
        let writes = op.writes.iter().map(own).collect();
        Operator { reads, writes, ..op.clone() }
    }
}
