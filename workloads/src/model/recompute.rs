//! Recomputation within a block: its backward pass begins with operators of the forward pass. What they fill again is not saved.

use std::collections::BTreeSet;

use crate::graph::Phase;
use crate::graph::operator::{CollectiveKind, Work};

use super::draft::{Drafted, Name};

/// Operators of a forward pass, executed again.
pub(crate) fn again(forward: &[Drafted]) -> Vec<Drafted> {
    forward.iter().map(|op| Drafted { phase: Phase::Recompute, ..op.clone() }).collect()
}

/// Drops what is recomputed behind the last tensor that is needed.
pub(crate) fn stop_early(operators: &mut Vec<Drafted>) {
    let recomputed = operators.iter().take_while(|op| op.phase == Phase::Recompute).count();
    let (again, backward) = operators.split_at(recomputed);
    let read = |(name, _): &(Name, u64)| backward.iter().any(|op| op.reads.contains(name));
    let needed = again.iter().rposition(|op| op.writes.iter().any(read)).map_or(0, |last| last + 1);
    operators.drain(needed..recomputed);
}

/// Drops what is recomputed of the operators whose results torchtitan's `selective` with option `op` keeps (attention, every second
/// product beginning with the first, reduce-scatters), and of what nobody needs then.
pub(crate) fn keep_some(operators: &mut Vec<Drafted>) {
    let recomputed = operators.iter().take_while(|op| op.phase == Phase::Recompute).count();
    let backward = operators.split_off(recomputed);
    let (mut products, mut kept) = (0, BTreeSet::new());
    operators.retain(|op| {
        products += u32::from(matches!(op.work, Work::Gemm(_)));
        let keeps = match op.work {
            Work::Gemm(_) => products % 2 == 1,
            Work::Attention(_) => true,
            Work::Collective(collective) => collective.kind == CollectiveKind::ReduceScatter,
            _ => false,
        };
        if keeps {
            kept.extend(op.writes.iter().map(|&(name, _)| name));
        }
        // What has changed a kept tensor in place has done so for good.
        let for_good = op.writes.is_empty() && op.reads.iter().any(|name| kept.contains(name));
        !(keeps || for_good)
    });
    let mut needed: BTreeSet<Name> = backward.iter().flat_map(|op| &op.reads).copied().collect();
    let mut again: Vec<Drafted> = Vec::new();
    for op in operators.drain(..).rev() {
        // What changes a tensor in place is needed where that is.
        let results: Vec<Name> = op.writes.iter().map(|&(name, _)| name).collect();
        let changed = if results.is_empty() { &op.reads } else { &results };
        if changed.iter().any(|name| needed.contains(name)) {
            needed.extend(&op.reads);
            again.push(op);
        }
    }
    again.reverse();
    again.extend(backward);
    *operators = again;
}
