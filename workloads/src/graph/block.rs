//! A piece of a model with its forward and backward pass, and which of its tensors live how long.
//!
//! Nobody declares what is saved for the backward pass: it is what the backward operators read and do not write. So
//! recomputation is no more than forward operators in the backward list, and the bytes it saves follow.

use crate::graph::Phase;

use super::operator::{Collective, Operator, Tensor, Work};

/// Operators of a layer, of the embedding or of the head, of one micro-batch on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it starts from: the output of the block before, or tokens.
    pub input: Tensor,
    /// The gradient that its backward pass starts from; none for the head, which makes the loss.
    pub output_gradient: Option<&'static str>,
    /// Forward pass, in the order of issue.
    pub forward: Vec<Operator>,
    /// Backward pass with what is recomputed, in the order of issue; operators of the forward phase at its end follow the backward
    /// pass of the whole model ([`Block::afterwards`]).
    pub backward: Vec<Operator>,
    /// Of a layer of attention and MLP the tensors between the two: what the forward pass of the one fills for that of the other,
    /// and its gradient.
    pub middle: Option<[&'static str; 2]>,
}

impl Block {
    /// What the next block starts from: the last operator that fills anything fills it first. None for the head.
    pub fn output(&self) -> Option<Tensor> {
        self.output_gradient?;
        last_filled(self.forward.iter())
    }

    /// The gradient that its backward pass starts from, as large as the output.
    pub fn gradient(&self) -> Option<Tensor> {
        self.output_gradient.zip(self.output()).map(|(name, output)| Tensor { name, bytes: output.bytes })
    }

    /// The gradient of a block's input, filled in the same way on the way to it; that of tokens does not exist, and an
    /// embedding has some other tensor there or none.
    pub fn input_gradient(&self) -> Option<Tensor> {
        last_filled(self.backward.iter().filter(|op| op.phase == Phase::BackwardInput))
    }

    /// How many operators of the forward pass come before the middle, and how many of the backward pass; none of a block without.
    pub fn halves(&self) -> Option<[u32; 2]> {
        let [between, gradient] = self.middle?;
        let filled = |list: &[Operator], name| {
            let last = list.iter().rposition(|op| op.writes.iter().any(|tensor| tensor.name == name))?;
            Some(last as u32 + 1)
        };
        Some([filled(&self.forward, between)?, filled(&self.backward, gradient)?])
    }

    /// Operators at the end of the backward pass that follow that of all blocks: metrics of the loss.
    pub fn afterwards(&self) -> usize {
        self.backward.iter().rev().take_while(|op| op.phase == Phase::Forward).count()
    }

    /// Tensors that live from the forward to the backward pass, including the input where it does.
    pub fn saved(&self) -> Vec<Tensor> {
        let made = self.forward.iter().flat_map(|op| &op.writes).chain([&self.input]);
        needed(&self.backward, made)
    }

    /// Bytes of [`Block::saved`].
    pub fn saved_bytes(&self) -> u64 {
        sum(&self.saved())
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
    pub fn kept_for_weight(&self) -> Vec<Tensor> {
        let (input, weight) = (self.backward_input(), self.backward_weight());
        let made = self.forward.iter().chain(&input).flat_map(|op| &op.writes).chain([&self.input]);
        let gradient = self.gradient();
        needed(&weight, made.chain(&gradient))
    }
}

/// How many of the operators that follow the first one run beside it: if it is a collective that overlaps, those before
/// the first that reads what it fills.
pub fn beside(operators: &[Operator]) -> usize {
    let Some((first, following)) = operators.split_first() else { return 0 };
    if !matches!(first.work, Work::Collective(Collective { overlaps_next: true, .. })) {
        return 0;
    }
    let in_place = first.writes.is_empty();
    let filled: Vec<&str> =
        if in_place { first.reads.clone() } else { first.writes.iter().map(|tensor| tensor.name).collect() };
    following.iter().take_while(|op| !op.reads.iter().any(|name| filled.contains(name))).count()
}

/// The tensors among `made` that `operators` read before they write them, each once.
fn needed<'a>(operators: &[Operator], made: impl Iterator<Item = &'a Tensor>) -> Vec<Tensor> {
    let mut needed: Vec<Tensor> = Vec::new();
    for tensor in made {
        let written = position(operators, |op| op.writes.iter().any(|other| other.name == tensor.name));
        let read = position(operators, |op| op.reads.contains(&tensor.name));
        if read < written && needed.iter().all(|other| other.name != tensor.name) {
            needed.push(*tensor);
        }
    }
    needed
}

fn last_filled<'a>(operators: impl DoubleEndedIterator<Item = &'a Operator>) -> Option<Tensor> {
    operators.rev().find_map(|op| op.writes.first().copied())
}

fn position(operators: &[Operator], is: impl Fn(&Operator) -> bool) -> usize {
    operators.iter().position(is).unwrap_or(usize::MAX)
}

fn sum(tensors: &[Tensor]) -> u64 {
    tensors.iter().map(|tensor| tensor.bytes).sum()
}
