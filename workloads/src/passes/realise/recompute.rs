//! Realises [`Disposition::Recompute`]: the forward pass does not allocate the storage; right before its first reader,
//! after any message that reader waits for, it is allocated and the operators that produce it again run.

use std::collections::BTreeSet;

use crate::graph::{Op, OpGraph, OpId, Phase, StorageId};
use crate::schedule::{Item, LaneKind, Schedule};
use crate::transfer::{Disposition, Dispositions, Tier};

/// Rewrites the blocks of the compute lanes.
pub fn realise(schedule: &mut Schedule, graph: &OpGraph, table: &Dispositions) {
    if !table.recomputes() {
        return;
    }
    let again = |storage: &StorageId| match table.get(*storage) {
        Some(Disposition::Recompute(ops)) => Some(ops.as_slice()),
        _ => None,
    };
    // The input gradient comes before the weight gradient of its micro-batch: what it has had recomputed is there.
    let is_input = |op: &&Op| matches!(op.phase, Phase::Backward | Phase::BackwardInput);
    let reads = graph.ops().iter().filter(is_input).flat_map(|op| &op.reads);
    let for_input: BTreeSet<OpId> = reads.filter_map(again).flatten().copied().collect();
    for lane in schedule.lanes.iter_mut().filter(|lane| lane.kind == LaneKind::Compute) {
        for block in &mut lane.blocks {
            let home = Tier::hbm(lane.stage);
            let (mut executed, mut allocated) = (BTreeSet::<OpId>::new(), BTreeSet::<StorageId>::new());
            let mut items = Vec::with_capacity(block.items.len());
            for &item in &block.items {
                let op = match item {
                    Item::Execute(op) => Some(graph.get(op)),
                    Item::Allocate(storage, _) if again(&storage).is_some() => continue,
                    _ => None,
                };
                let reads = op.filter(|op| op.phase != Phase::Forward).into_iter().flat_map(|op| &op.reads);
                let weight = op.is_some_and(|op| op.phase == Phase::BackwardWeight);
                for &op in reads.filter_map(again).flatten() {
                    if !(weight && for_input.contains(&op)) && executed.insert(op) {
                        // Of several operators that write one storage the first allocates it.
                        let new = graph.get(op).writes.iter().filter(|&&storage| allocated.insert(storage));
                        items.extend(new.map(|&storage| Item::Allocate(storage, home)));
                        items.push(Item::Execute(op));
                    }
                }
                items.push(item);
            }
            block.items = items;
        }
    }
}
