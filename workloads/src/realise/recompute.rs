//! Realises [`Disposition::Recompute`]: the forward pass does not allocate the storage; right before its first reader,
//! after any message that reader waits for, it is allocated and the operator that produces it again runs.

use crate::disposition::{Disposition, Dispositions};
use crate::graph::{OpGraph, OpId, Phase};
use crate::schedule::{Item, LaneKind, Place, Schedule};

/// The name of this pass in errors.
pub const PASS: &str = "recompute";

/// Rewrites the blocks of the compute lanes.
pub fn realise(schedule: &mut Schedule, graph: &OpGraph, table: &Dispositions) {
    let again = |op: OpId| {
        let reads = &graph.get(op).reads;
        reads.iter().find_map(|&storage| match table.get(storage) {
            Some(&Disposition::Recompute(again)) => Some(again),
            _ => None,
        })
    };
    for lane in schedule.lanes.iter_mut().filter(|lane| lane.kind == LaneKind::Compute) {
        for block in &mut lane.blocks {
            let executes = |item: &Item| match *item {
                Item::Execute(op) => Some(op),
                _ => None,
            };
            let Some(op) = block.items.iter().find_map(executes) else { continue };
            match graph.get(op).phase {
                Phase::Forward => block.items.retain(|item| {
                    !matches!(item, Item::Allocate(s, _) if matches!(table.get(*s), Some(Disposition::Recompute(_))))
                }),
                Phase::Backward | Phase::BackwardInput => {
                    let Some(again) = again(op) else { continue };
                    let at = block.items.iter().position(|item| executes(item).is_some()).unwrap_or(0);
                    let home = Place::Home(lane.stage);
                    let writes = graph.get(again).writes.iter().map(|&s| Item::Allocate(s, home));
                    block.items.splice(at..at, writes.chain([Item::Execute(again)]));
                }
                Phase::BackwardWeight | Phase::Recompute => {}
            }
        }
    }
}
