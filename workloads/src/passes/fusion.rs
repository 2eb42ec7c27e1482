//! Merges passes over memory that follow each other, as compilers of graphs do (`torch.compile`: Ansel et al., ASPLOS 2024,
//! section 4): an operator joins the ones before it if it reads what they make or read, tensor by tensor or row by row.
//! Products, attention, sums over columns and collectives stay what they are, and nothing is merged across them or between
//! blocks.
//!
//! A merged kernel reads once what it does not make itself, and writes only what somebody else reads:
//!
//! ```text
//! scale: S -> A, mask: A in place, softmax: A -> P      3 S read, 3 S written
//! merged: S -> P                                        1 S read, 1 S written
//! ```

use crate::graph::block::Block;
use crate::graph::cut::Cut;
use crate::graph::operator::{Label, Operator, Stream, StreamClass, Tensor, TensorId, Work};

use super::{Kind, Pass};

/// Fusion of passes over memory.
#[derive(Clone, Copy, Debug)]
pub struct Fusion;

impl Pass for Fusion {
    fn name(&self) -> &'static str {
        "fusion"
    }

    fn kind(&self) -> Kind {
        Kind::Rewriter
    }

    /// What is executed again is fused like what was executed first.
    fn follows(&self) -> &'static [&'static str] {
        &["recompute", "no_sums"]
    }

    fn rewrite(&self, model: &mut Cut) {
        model.rewrite(|_| (), |block, ()| fused(block));
    }
}

/// A block with its passes merged.
pub fn fused(block: &Block) -> Block {
    let read = |tensor: TensorId| block.backward.iter().any(|op| op.reads.contains(&tensor));
    let forward = merge(&block.forward, &block.tensors, |id| block.output == Some(id) || read(id));
    let backward = merge(&block.backward, &block.tensors, |id| block.input_gradient == Some(id));
    Block { forward, backward, ..block.clone() }
}

/// Merges the operators of a list; `outlives` says which tensors are read behind it.
fn merge(list: &[Operator], tensors: &[Tensor], outlives: impl Fn(TensorId) -> bool) -> Vec<Operator> {
    let mut merged: Vec<Operator> = Vec::new();
    let mut start = 0;
    while start < list.len() {
        let mut end = start + 1;
        while end < list.len() && joins(&list[start..end], &list[end]) {
            end += 1;
        }
        let needed =
            |tensor: TensorId| outlives(tensor) || list[end..].iter().any(|op| op.reads.contains(&tensor));
        merged.push(one(&list[start..end], tensors, needed));
        start = end;
    }
    merged
}

/// Whether an operator is merged with those before it.
fn joins(group: &[Operator], next: &Operator) -> bool {
    let passes = |op: &Operator| !op.awaited && stream(op).is_some_and(|stream| merges(stream.class));
    let knows = |op: &Operator, tensor: &TensorId| op.writes.contains(tensor) || op.reads.contains(tensor);
    group.iter().all(passes)
        && passes(next)
        && group.iter().all(|op| op.phase == next.phase)
        && next.reads.iter().any(|tensor| group.iter().any(|op| knows(op, tensor)))
}

/// Whether passes of a class work tensor by tensor or row by row.
const fn merges(class: StreamClass) -> bool {
    matches!(
        class,
        StreamClass::Elementwise | StreamClass::Softmax | StreamClass::LayerNorm | StreamClass::RmsNorm
    )
}

const fn stream(op: &Operator) -> Option<&Stream> {
    match &op.work {
        Work::Stream(stream) => Some(stream),
        _ => None,
    }
}

/// An operator that is not merged. What looks up rows moves them whole, as copies do: of 256 MiB on A100 in 0.326 instead of
/// 0.863 ms (`benchmark/data` of github.com/linkedin/Liger-Kernel).
fn alone(op: &Operator) -> Operator {
    let mut alone = op.clone();
    if let Work::Stream(stream) = &mut alone.work
        && stream.class == StreamClass::Embedding
    {
        (stream.class, stream.looked_up) = (StreamClass::Permutation, 0);
    }
    alone
}

/// The operator that does what a group does.
fn one(group: &[Operator], tensors: &[Tensor], needed: impl Fn(TensorId) -> bool) -> Operator {
    let [first, .., last] = group else { return alone(&group[0]) };
    let size = |tensor: TensorId| tensors[tensor.0 as usize].bytes;
    let (mut read, mut written) = (0, 0);
    // What the group makes, and changes in place.
    let mut made: Vec<TensorId> = Vec::new();
    let mut reads: Vec<TensorId> = Vec::new();
    for op in group {
        let Some(stream) = stream(op) else { continue };
        let there = op.reads.iter().filter(|tensor| made.contains(tensor) || reads.contains(tensor));
        let known: u64 = there.map(|&tensor| size(tensor)).sum();
        read += stream.bytes_read.saturating_sub(known);
        written += stream.bytes_written;
        if op.writes.is_empty() {
            // It changes what it reads first, which was written before if it was made here.
            let changed = op.reads[0];
            written -= if made.contains(&changed) { size(changed).min(stream.bytes_written) } else { 0 };
        }
        for &tensor in op.reads.iter().filter(|tensor| !made.contains(tensor)) {
            if !reads.contains(&tensor) {
                reads.push(tensor);
            }
        }
        made.extend(&op.writes);
    }
    let (writes, inner): (Vec<TensorId>, Vec<TensorId>) =
        made.into_iter().partition(|&tensor| needed(tensor));
    written = written.saturating_sub(inner.into_iter().map(size).sum());
    let rows = group.iter().filter_map(stream).find(|stream| stream.class != StreamClass::Elementwise);
    Operator {
        name: Label::Owned(format!("{} to {}", first.name, last.name)),
        work: Work::Stream(Stream {
            class: rows.map_or(StreamClass::Elementwise, |stream| stream.class),
            bytes_read: read,
            bytes_written: written,
            bytes_cached: 0,
            rows: rows.and_then(|stream| stream.rows),
            looked_up: 0,
        }),
        reads,
        writes,
        workspace: group.iter().map(|op| op.workspace).max().unwrap_or(0),
        members: group.iter().map(|op| op.members).sum(),
        views: 0,
        ..first.clone()
    }
}
