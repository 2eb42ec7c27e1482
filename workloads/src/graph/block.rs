//! A piece of a model with its forward and backward pass, and which of its tensors live how long.
//!
//! Nobody declares what is saved for the backward pass: it is what the forward pass fills and backward operators read. So
//! recomputation is no more than forward operators in the backward list, and the bytes it saves follow.

use std::collections::BTreeSet;

use crate::graph::Phase;

use super::handed::Handed;
use super::operator::{Collective, Operator, Tensor, TensorId, Work};

/// Operators of a layer, of the embedding or of the head, of one micro-batch on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Tensors, indexed by [`TensorId`].
    pub tensors: Vec<Tensor>,
    /// What it starts from: the output of the block before, or tokens.
    pub input: TensorId,
    /// What the next block starts from; none for the head, which makes the loss.
    pub output: Option<TensorId>,
    /// The gradient that its backward pass starts from; none for the head.
    pub output_gradient: Option<TensorId>,
    /// The gradient of its input; that of tokens does not exist, and an embedding has some other tensor there or none.
    pub input_gradient: Option<TensorId>,
    /// Forward pass, in the order of issue.
    pub forward: Vec<Operator>,
    /// Backward pass with what is recomputed, in the order of issue; operators of the forward phase at its end follow the backward
    /// pass of the whole model ([`Block::afterwards`]).
    pub backward: Vec<Operator>,
    /// Of a layer of attention and MLP the tensors between the two: what the forward pass of the one fills for that of the other,
    /// and its gradient.
    pub middle: Option<[TensorId; 2]>,
    /// What it shares with its neighbours beside these.
    pub handed: Handed,
}

impl Block {
    /// A tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// How many operators of the forward pass come before the middle, and how many of the backward pass; none of a block without.
    pub fn halves(&self) -> Option<[u32; 2]> {
        let [between, gradient] = self.middle?;
        let filled = |list: &[Operator], tensor| {
            let last = list.iter().rposition(|op| op.writes.contains(&tensor))?;
            Some(last as u32 + 1)
        };
        Some([filled(&self.forward, between)?, filled(&self.backward, gradient)?])
    }

    /// Operators at the end of the backward pass that follow that of all blocks: metrics of the loss.
    pub fn afterwards(&self) -> usize {
        self.backward.iter().rev().take_while(|op| op.phase == Phase::Forward).count()
    }

    /// Tensors that live from the forward to the backward pass, including the input where it does.
    pub fn saved(&self) -> Vec<TensorId> {
        needed(&self.backward, self.there(&self.forward))
    }

    /// Tensors that the operators of a list fill, and those of the forward pass that are there before.
    fn there<'a>(&'a self, list: &'a [Operator]) -> impl Iterator<Item = &'a TensorId> {
        list.iter().flat_map(|op| &op.writes).chain([&self.input]).chain(&self.handed.forward.taken)
    }

    /// Bytes of [`Block::saved`].
    pub fn saved_bytes(&self) -> u64 {
        self.saved().into_iter().map(|id| self.tensor(id).bytes).sum()
    }

    /// Elements of weights that are multiplied in 8 bits.
    pub(crate) fn narrow_weights(&self) -> u64 {
        self.backward.iter().filter_map(|op| op.work.narrow_weights()).sum()
    }

    /// The backward pass without what only gradients of weights need (B of zero-bubble schedules).
    pub fn backward_input(&self) -> Vec<Operator> {
        self.backward.iter().filter(|op| op.phase != Phase::BackwardWeight).cloned().collect()
    }

    /// What only gradients of weights need (W of zero-bubble schedules).
    pub fn backward_weight(&self) -> Vec<Operator> {
        self.backward.iter().filter(|op| op.phase == Phase::BackwardWeight).cloned().collect()
    }

    /// Tensors that live from the gradient of the input to the gradients of the weights where the two are apart: inputs
    /// and output gradients of the linear layers.
    pub fn kept_for_weight(&self) -> Vec<TensorId> {
        let (input, weight) = (self.backward_input(), self.backward_weight());
        let gradients = input.iter().flat_map(|op| &op.writes).chain(&self.output_gradient);
        let made = self.there(&self.forward).chain(gradients).chain(&self.handed.backward.taken);
        needed(&weight, made)
    }
}

/// How many of the operators that follow the first one run beside it: if it is a collective that overlaps, those before
/// the first that reads what it fills.
pub fn beside(operators: &[Operator]) -> usize {
    let Some((first, following)) = operators.split_first() else { return 0 };
    if !matches!(first.work, Work::Collective(Collective { overlaps_next: true, .. })) {
        return 0;
    }
    let filled = if first.writes.is_empty() { &first.reads } else { &first.writes };
    following.iter().take_while(|op| !op.reads.iter().any(|tensor| filled.contains(tensor))).count()
}

/// The tensors among `made` that `operators` read, each once.
fn needed<'a>(operators: &[Operator], made: impl Iterator<Item = &'a TensorId>) -> Vec<TensorId> {
    let read: BTreeSet<TensorId> = operators.iter().flat_map(|op| &op.reads).copied().collect();
    let mut needed: Vec<TensorId> = Vec::new();
    for &tensor in made.filter(|tensor| read.contains(tensor)) {
        if !needed.contains(&tensor) {
            needed.push(tensor);
        }
    }
    needed
}
