//! Parts of sequences that tensor ranks exchange where batches are the first axis. A collective joins and cuts along the
//! first axis, so that `all_gather_tensor` of PyTorch's functional collectives copies what it has gathered into place
//! (`torch.cat(torch.chunk(..))`, for DTensor and so for torchtitan), and `reduce_scatter_tensor` what it is to cut:
//!
//! ```text
//! gather, copy: reads and writes the whole;     copy, scatter: the same
//! ```
//!
//! Compiled, a copy is part of the pass over memory that makes or takes the tensor, if a pass does: the sum of gradients, a
//! cast to 8 bits. Megatron-LM has sequences as the first axis and needs no copies.

use super::draft::{Drafted, Name};
use super::execution::Parts;
use crate::graph::operator::{CollectiveKind, Group, Stream, StreamClass, Work};
use crate::model::names::name;

/// The operators with copies around what tensor ranks gather and scatter.
pub(super) fn joined(operators: Vec<Drafted>, parts: Parts) -> Vec<Drafted> {
    if parts == Parts::OneByOne {
        return operators;
    }
    let copied_by = |pass: Option<&Drafted>| parts == Parts::InPasses && pass.is_some_and(is_pass);
    let mut done: Vec<Drafted> = Vec::with_capacity(operators.len());
    for (at, op) in operators.iter().enumerate() {
        let (filled, cut) = (op.writes.first().copied(), op.reads.first().copied());
        match (exchanged(op), filled, cut) {
            (Some((CollectiveKind::AllGather, _)), Some((filled, bytes)), _)
                if !copied_by(operators[at..].iter().find(|later| later.reads.contains(&filled))) =>
            {
                let apart = name("parts of", filled);
                done.push(Drafted { writes: vec![(apart, bytes)], ..op.clone() });
                done.push(copy(op, apart, filled, bytes));
            }
            (Some((CollectiveKind::ReduceScatter, bytes)), _, Some(cut))
                if !copied_by(
                    done.iter().rfind(|earlier| earlier.writes.iter().any(|write| write.0 == cut)),
                ) =>
            {
                let apart = name("parts of", cut);
                done.push(copy(op, cut, apart, bytes));
                done.push(Drafted { reads: vec![apart], ..op.clone() });
            }
            _ => done.push(op.clone()),
        }
    }
    done
}

/// Kind and bytes of what tensor ranks exchange at once; products in pieces find it where it lies.
fn exchanged(op: &Drafted) -> Option<(CollectiveKind, u64)> {
    match op.work {
        Work::Collective(exchange) if exchange.group == Group::Tensor && !exchange.copied => {
            Some((exchange.kind, exchange.bytes))
        }
        _ => None,
    }
}

fn is_pass(op: &Drafted) -> bool {
    matches!(op.work, Work::Stream(Stream { class: StreamClass::Elementwise, .. }))
}

fn copy(exchange: &Drafted, from: Name, to: Name, bytes: u64) -> Drafted {
    Drafted {
        name: name("copy", to).label(),
        work: Work::Stream(Stream::pass(StreamClass::Elementwise, (bytes, bytes))),
        reads: vec![from],
        writes: vec![(to, bytes)],
        ..exchange.clone()
    }
}
