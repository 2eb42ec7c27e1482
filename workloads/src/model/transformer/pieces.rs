//! Asynchronous tensor parallelism (Wang et al., ASPLOS 2023; PyTorch's `_micro_pipeline_tp`): a product and the gather of its
//! operand, or the sum of its result, go in as many pieces as there are tensor ranks. While a rank multiplies one piece its
//! copy engines move the next, so that the exchange holds no SMs.
//!
//! ```text
//! gather, product:     the piece at hand, t - 2 others ..  while all are gathered;  then the last
//! product, scatter:    the first piece;  t - 1 others while parts are sent;  then the sum of t parts
//! ```
//!
//! Pieces are equal, so that it does not matter for the end which of them waits: the last does. A product whose operand is
//! cast after the gather goes in one piece, and so does one that is added to others before the sum.

use super::draft::Drafted;
use crate::graph::operator::{Collective, CollectiveKind, Group, Label, Layout, Stream, StreamClass, Work};

/// The operators of a layer of `ranks` tensor ranks, with products in pieces where they meet an exchange.
pub(super) fn in_pieces(mut operators: Vec<Drafted>, ranks: u64) -> Vec<Drafted> {
    let mut done = Vec::with_capacity(operators.len());
    while !operators.is_empty() {
        let op = operators.remove(0);
        match op.work {
            Work::Collective(exchange) if waits(exchange, CollectiveKind::AllGather) => {
                let after = gathered(&op, &mut operators, ranks);
                done.push(if after.is_empty() { op } else { beside(op) });
                done.extend(after);
            }
            Work::Gemm(_) if is_scattered(&op, operators.first()) => {
                let sum = operators.remove(0);
                let parts = parts(&sum);
                let mut pieces = pieces(op, ranks).into_iter();
                done.extend(pieces.next());
                done.push(beside(sum));
                done.extend(pieces);
                done.push(parts);
            }
            _ => done.push(op),
        }
    }
    done
}

/// Whether what follows an exchange among tensor ranks waits for it.
fn waits(exchange: Collective, kind: CollectiveKind) -> bool {
    exchange.kind == kind && exchange.group == Group::Tensor && !exchange.overlaps_next
}

/// Takes from `operators` what runs beside a gather: the products that read what it fills, all but their last pieces; those
/// follow. Nothing if other operators read it first.
fn gathered(gather: &Drafted, operators: &mut Vec<Drafted>, ranks: u64) -> Vec<Drafted> {
    let ((filled, _), at_hand) = (gather.writes[0], gather.reads[0]);
    let reads = |op: &Drafted| op.reads.contains(&filled);
    let multiplies =
        |op: &Drafted| matches!(op.work, Work::Gemm(gemm) if gemm.layout != Layout::WeightGradient);
    // The products before any other reader, and what stands between them.
    let end = operators.iter().position(|op| reads(op) && !multiplies(op)).unwrap_or(operators.len());
    let Some(last) = operators[..end].iter().rposition(reads) else { return Vec::new() };
    let (mut first_pieces, mut last_pieces) = (Vec::new(), Vec::new());
    for op in operators.drain(..=last) {
        if !reads(&op) {
            first_pieces.push(op);
            continue;
        }
        let mut all = pieces(op, ranks);
        last_pieces.extend(all.pop());
        for piece in &mut all {
            piece.reads.iter_mut().filter(|name| **name == filled).for_each(|name| *name = at_hand);
        }
        first_pieces.extend(all);
    }
    first_pieces.extend(last_pieces);
    first_pieces
}

/// Whether ranks sum what a product writes, in parts.
fn is_scattered(product: &Drafted, next: Option<&Drafted>) -> bool {
    let sums = |op: &Drafted| match op.work {
        Work::Collective(exchange) => {
            waits(exchange, CollectiveKind::ReduceScatter)
                && product.writes.iter().any(|&(sum, _)| op.reads == [sum])
        }
        _ => false,
    };
    next.is_some_and(sums)
}

/// A product of fewer rows, so many times; the first allocates the result of all.
fn pieces(product: Drafted, ranks: u64) -> Vec<Drafted> {
    let mut piece = product;
    if let Work::Gemm(gemm) = &mut piece.work {
        gemm.m /= ranks;
    }
    let others = Drafted {
        reads: piece.reads.iter().copied().chain(piece.writes.iter().map(|&(name, _)| name)).collect(),
        writes: Vec::new(),
        ..piece.clone()
    };
    let others = std::iter::repeat_n(others, ranks as usize - 1);
    std::iter::once(piece).chain(others).collect()
}

/// The exchange by copies, beside what follows.
fn beside(mut exchange: Drafted) -> Drafted {
    if let Work::Collective(collective) = &mut exchange.work {
        collective.overlaps_next = true;
        collective.copied = true;
    }
    exchange
}

/// The sum of the parts that a rank has got.
fn parts(exchange: &Drafted) -> Drafted {
    let whole = match exchange.work {
        Work::Collective(collective) => collective.bytes,
        _ => 0,
    };
    let written = exchange.writes.iter().map(|&(_, bytes)| bytes).sum();
    Drafted {
        name: Label::Borrowed("sum parts"),
        work: Work::Stream(Stream::pass(StreamClass::Elementwise, (whole, written))),
        reads: exchange.writes.iter().map(|&(name, _)| name).collect(),
        writes: Vec::new(),
        ..exchange.clone()
    }
}
