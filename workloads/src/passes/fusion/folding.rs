//! First steps of compilers of inference. Normalisations by known statistics go into the
//! convolutions before them: the factor into the weights, before any input comes, so that the
//! addition of a bias is left. What nobody reads is not written.

use crate::graph::block::Block;
use crate::graph::operator::{Math, Operator, TensorId, Work};

/// A block without normalisations that follow a convolution, each by what is left of it.
pub(super) fn folded(block: &Block) -> Block {
    let mut block = block.clone();
    for n in 0..block.forward.len() {
        let Some(made) = convolved(&block, n) else { continue };
        let Some(norm) = block.forward.iter().position(|op| normalises(op, made)) else { continue };
        let op = &mut block.forward[norm];
        op.math = Some(Math::Bias);
        let scaled = op.writes.pop();
        if let Some(scaled) = scaled {
            rename(&mut block, scaled, made);
        }
    }
    without_unread(&mut block);
    block
}

/// Leaves out what passes of inference write and nobody reads: the places of maxima.
fn without_unread(block: &mut Block) {
    if !block.backward.is_empty() {
        return;
    }
    let read: Vec<TensorId> =
        block.forward.iter().flat_map(|op| &op.reads).copied().chain(block.output).collect();
    for op in &mut block.forward {
        let (Work::Stream(stream), [_, _, ..]) = (&mut op.work, &op.writes[..]) else { continue };
        let (kept, unread): (Vec<TensorId>, Vec<TensorId>) =
            op.writes.iter().partition(|tensor| read.contains(tensor));
        let bytes: u64 = unread.iter().map(|tensor| block.tensors[tensor.0 as usize].bytes).sum();
        if !kept.is_empty() {
            stream.bytes_written = stream.bytes_written.saturating_sub(bytes);
            op.writes = kept;
        }
    }
}

/// Result of a convolution, if a normalisation alone reads it.
fn convolved(block: &Block, n: usize) -> Option<TensorId> {
    let op = &block.forward[n];
    let made = *op.writes.first().filter(|_| matches!(op.work, Work::Convolution(_)))?;
    let biases = |op: &&Operator| op.math == Some(Math::Bias);
    let mut readers = block.forward.iter().filter(|op| op.reads.contains(&made) && !biases(op));
    let alone = readers.next().is_some_and(|op| normalises(op, made)) && readers.next().is_none();
    (alone && block.output != Some(made)).then_some(made)
}

fn normalises(op: &Operator, made: TensorId) -> bool {
    op.math == Some(Math::Normalise) && op.reads.first() == Some(&made) && op.writes.len() == 1
}

/// Has whoever reads a tensor read another.
fn rename(block: &mut Block, from: TensorId, to: TensorId) {
    let reads = block.forward.iter_mut().chain(&mut block.backward).flat_map(|op| &mut op.reads);
    reads.filter(|tensor| **tensor == from).for_each(|tensor| *tensor = to);
    if block.output == Some(from) {
        block.output = Some(to);
    }
}
