//! The kernel that a group becomes. It reads once what it does not make itself, and writes only
//! what somebody else reads:
//!
//! ```text
//! scale: S -> A, mask: A in place, softmax: A -> P      3 S read, 3 S written
//! merged: S -> P                                        1 S read, 1 S written
//! ```

use hw_models::kernels::Arithmetic;

use crate::graph::math::{Precision, SOFTMAX};
use crate::graph::operator::{
    Attached, Fused, Label, Operator, Second, Stream, StreamClass, Tensor, TensorId, Work,
};

use super::groups::anchor;

/// Bytes and tensors that a group reads and writes.
struct Footprint {
    /// Beside the operands of an anchor (bytes).
    read: u64,
    written: u64,
    reads: Vec<TensorId>,
    writes: Vec<TensorId>,
}

/// The operator that does what a group does; `needed` says what others read of it.
pub(super) fn merged(
    group: &[&Operator],
    tensors: &[Tensor],
    precision: Precision,
    needed: impl Fn(TensorId) -> bool,
) -> Operator {
    let [first, .., last] = group else { return alone(group[0]) };
    let Footprint { read, written, reads, writes } = Footprint::of(group, tensors, needed);
    let passes = || group.iter().filter_map(|op| op.stream());
    let rows = passes().find(|stream| stream.class != StreamClass::Elementwise);
    let of = |members: &[&Operator]| {
        let each = members.iter().filter_map(|op| match op.stream()?.class {
            StreamClass::Softmax => Some(SOFTMAX),
            _ => op.math.map(|math| math.arithmetic(precision)),
        });
        each.fold(Arithmetic::default(), |sum, more| sum + more)
    };
    let mut parts = group.split(|op| anchor(op).is_some());
    let mut anchors = group.iter().filter_map(|op| anchor(op));
    let work = match anchors.next() {
        Some(anchor) => {
            let before = parts.next().filter(|members| !members.is_empty()).map(of);
            let behind = parts.next().map(of).unwrap_or_default();
            let second = anchors
                .next()
                .map(|anchor| Second { anchor, behind: parts.next().map(of).unwrap_or_default() });
            Work::Fused(Fused { anchor, attached: Attached { before, behind, read, written }, second })
        }
        None => Work::Stream(Stream {
            rows: rows.and_then(|stream| stream.rows),
            ..Stream::pass(rows.map_or(StreamClass::Elementwise, |stream| stream.class), (read, written))
        }),
    };
    Operator {
        name: Label::Owned(format!("{} to {}", first.name, last.name)),
        work,
        math: None,
        reads,
        writes,
        workspace: group.iter().map(|op| op.workspace).max().unwrap_or(0),
        members: group.iter().map(|op| op.members).sum(),
        views: 0,
        ..(*first).clone()
    }
}

/// An operator that is not merged. What looks up rows moves them whole, as copies do: of 256 MiB on
/// A100 in 0.326 instead of 0.863 ms (`benchmark/data` of github.com/linkedin/Liger-Kernel). Windows
/// of pools, whose generated code nobody timed, are taken alike.
fn alone(op: &Operator) -> Operator {
    let mut alone = op.clone();
    if let Work::Stream(stream) = &mut alone.work {
        stream.looked_up = 0;
        if stream.class == StreamClass::Embedding {
            stream.class = StreamClass::Permutation;
        }
    }
    alone
}

impl Footprint {
    fn of(group: &[&Operator], tensors: &[Tensor], needed: impl Fn(TensorId) -> bool) -> Self {
        let size = |tensor: TensorId| tensors[tensor.0 as usize].bytes;
        let (mut read, mut written) = (0, 0);
        // What the group makes, and changes in place.
        let mut made: Vec<TensorId> = Vec::new();
        let mut reads: Vec<TensorId> = Vec::new();
        // Of others, what it changes element by element.
        let mut changed: Vec<TensorId> = Vec::new();
        for op in group {
            let there = op.reads.iter().filter(|tensor| made.contains(tensor) || reads.contains(tensor));
            let known: u64 = there.map(|&tensor| size(tensor)).sum();
            match op.stream() {
                Some(stream) => {
                    read += stream.bytes_read.saturating_sub(known);
                    written += stream.bytes_written;
                    if op.writes.is_empty() {
                        // It changes what it reads first, which was written before if it was made
                        // here.
                        let own = op.reads[0];
                        let is_known = made.contains(&own) || changed.contains(&own);
                        written -= if is_known { size(own).min(stream.bytes_written) } else { 0 };
                        changed.extend((!is_known && op.math.is_some()).then_some(own));
                    }
                }
                None => written += op.writes.iter().map(|&tensor| size(tensor)).sum::<u64>(),
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
        let unread = changed.into_iter().filter(|&tensor| !needed(tensor));
        written = written.saturating_sub(inner.into_iter().chain(unread).map(size).sum());
        Self { read, written, reads, writes }
    }
}
