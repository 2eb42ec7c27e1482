//! Tensors that a pass of a block needs at once.

use workloads::model::transformer::{Block, Operator, Tensor};

/// Most bytes alive at once in the forward pass, beyond what is saved.
pub(crate) fn in_forward(block: &Block) -> u64 {
    most(&block.forward, None, &block.saved())
}

/// Most bytes alive at once in the backward pass, beyond what was saved, as if that were held to the end.
pub(crate) fn in_backward(block: &Block) -> u64 {
    most(&block.backward, block.gradient(), &[])
}

/// Most bytes alive at once of what `operators` write and of the tensor they `start` from, each tensor until its last reader, and of their
/// workspaces; without those that `outlive` them.
fn most(operators: &[Operator], start: Option<Tensor>, outlive: &[Tensor]) -> u64 {
    let counted = |tensor: &&Tensor| outlive.iter().all(|other| other.name != tensor.name);
    let alive_at = |now: usize| {
        let before = operators[..now].iter().flat_map(|op| &op.writes).chain(&start).filter(counted);
        let still = before.filter(|tensor| operators[now..].iter().any(|op| op.reads.contains(&tensor.name)));
        let new = operators[now].writes.iter().filter(counted);
        still.chain(new).map(|tensor| tensor.bytes).sum::<u64>() + operators[now].workspace
    };
    (0..operators.len()).map(alive_at).max().unwrap_or(0)
}
