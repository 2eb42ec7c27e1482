//! Tensors that a pass of a block needs at once.

use workloads::graph::operator::TensorId;
use workloads::model::transformer::{Block, Operator};

/// Most bytes alive at once in the forward pass, beyond what is saved.
pub(crate) fn in_forward(block: &Block) -> u64 {
    most(block, &block.forward, None, &block.saved())
}

/// Most bytes alive at once in the backward pass, beyond what was saved, as if that were held to the end.
pub(crate) fn in_backward(block: &Block) -> u64 {
    most(block, &block.backward, block.output_gradient, &[])
}

/// Most bytes alive at once of what `operators` write and of the tensor they `start` from, each tensor until its last reader, and of their
/// workspaces; without those that `outlive` them.
fn most(block: &Block, operators: &[Operator], start: Option<TensorId>, outlive: &[TensorId]) -> u64 {
    let counted = |tensor: &&TensorId| !outlive.contains(tensor);
    let alive_at = |now: usize| {
        let before = operators[..now].iter().flat_map(|op| &op.writes).chain(&start).filter(counted);
        let still = before.filter(|tensor| operators[now..].iter().any(|op| op.reads.contains(tensor)));
        let new = operators[now].writes.iter().filter(counted);
        still.chain(new).map(|&tensor| block.tensor(tensor).bytes).sum::<u64>() + operators[now].workspace
    };
    (0..operators.len()).map(alive_at).max().unwrap_or(0)
}
