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
use crate::graph::operator::{Collective, CollectiveKind, Group, Stream, StreamClass, Work};
use crate::model::names::name;

/// The operators with copies around what tensor ranks gather and scatter.
pub(super) fn joined(operators: Vec<Drafted>, parts: Parts) -> Vec<Drafted> {
    if parts == Parts::OneByOne {
        return operators;
    }
    let passes = parts == Parts::InPasses;
    let mut done: Vec<Drafted> = Vec::with_capacity(operators.len());
    for (at, op) in operators.iter().enumerate() {
        match op.work {
            Work::Collective(exchange) if whole(exchange, CollectiveKind::AllGather) => {
                let (filled, bytes) = op.writes[0];
                let taker = operators[at..].iter().find(|later| later.reads.contains(&filled));
                if passes && taker.is_some_and(is_pass) {
                    done.push(op.clone());
                    continue;
                }
                let apart = name("parts of", filled);
                done.push(Drafted { writes: vec![(apart, bytes)], ..op.clone() });
                done.push(copy(op, apart, filled, bytes));
            }
            Work::Collective(exchange) if whole(exchange, CollectiveKind::ReduceScatter) => {
                let cut = op.reads[0];
                let maker = done.iter().rfind(|earlier| earlier.writes.iter().any(|&(name, _)| name == cut));
                if passes && maker.is_some_and(is_pass) {
                    done.push(op.clone());
                    continue;
                }
                let apart = name("parts of", cut);
                done.push(copy(op, cut, apart, exchange.bytes));
                done.push(Drafted { reads: vec![apart], ..op.clone() });
            }
            _ => done.push(op.clone()),
        }
    }
    done
}

/// Whether ranks exchange parts of sequences at once; products in pieces find them where they lie.
fn whole(exchange: Collective, kind: CollectiveKind) -> bool {
    exchange.kind == kind && exchange.group == Group::Tensor && !exchange.copied
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
