//! Realises collectives that run beside operators: on a lane of their own, launched where they stand in the visit, and
//! awaited before the first operator that does not run beside them.

use std::collections::BTreeMap;

use crate::graph::{Op, OpGraph, OpId};
use crate::schedule::{Call, Item, Lane, LaneKind, Schedule, SignalId, Why};

/// Moves such collectives to the collective lane of their stage.
pub fn realise(schedule: &mut Schedule, graph: &OpGraph) {
    if graph.ops().iter().all(|op| op.beside == 0) {
        return;
    }
    let mut lanes = Vec::new();
    for stage in 0..schedule.stages.len() as u32 {
        let mut signals: BTreeMap<OpId, (SignalId, SignalId)> = BTreeMap::new();
        for (id, op) in
            (0u32..).map(OpId).zip(graph.ops()).filter(|(_, op)| op.stage == stage && op.beside > 0)
        {
            let mut signal = |what: &str| {
                let name = format!("{} collective {} of stage {stage}, {what}", op.phase.name(), id.0);
                schedule.signal(name)
            };
            signals.insert(id, (signal("launched"), signal("done")));
        }
        if signals.is_empty() {
            continue;
        }
        let Some(compute) = schedule.compute(stage) else { continue };
        let mut lane = Lane::new(stage, LaneKind::Collective);
        // Per block of the compute lane, the block that runs its collectives.
        let mut beside: Vec<Option<u32>> = Vec::with_capacity(compute.blocks.len());
        for block in &mut compute.blocks {
            let collectives = launch(&mut block.items, graph, &signals);
            beside.push((!collectives.is_empty()).then(|| lane.block(block.name.clone(), collectives)));
        }
        let call = |call: &Call| Some(Call { block: beside[call.block as usize]?, ..*call });
        lane.calls = compute.calls.iter().filter_map(call).collect();
        lanes.push(lane);
    }
    schedule.lanes.extend(lanes);
}

/// A collective that has been launched and not awaited yet.
struct UnderWay {
    op: OpId,
    done: SignalId,
    /// How many operators still run beside it.
    left: u32,
    /// What the operators that follow are done with, but it is not.
    frees: Vec<Item>,
}

/// Launches the collectives of a block instead of executing them, and waits for each; gives what their lane does.
fn launch(
    items: &mut Vec<Item>,
    graph: &OpGraph,
    signals: &BTreeMap<OpId, (SignalId, SignalId)>,
) -> Vec<Item> {
    let end = |under_way: UnderWay| {
        std::iter::once(Item::wait(under_way.done, Why::Communication)).chain(under_way.frees)
    };
    let mut collectives = Vec::new();
    let mut rewritten = Vec::with_capacity(items.len());
    let mut under_way: Vec<UnderWay> = Vec::new();
    for &item in items.iter() {
        let Item::Execute(op) = item else {
            // They end one after the other.
            let user = under_way.iter_mut().rfind(|under_way| uses(graph, under_way.op, item));
            user.map_or(&mut rewritten, |user| &mut user.frees).push(item);
            continue;
        };
        rewritten.extend(under_way.extract_if(.., |under_way| under_way.left == 0).flat_map(end));
        for UnderWay { left, .. } in &mut under_way {
            *left -= 1;
        }
        let Some(&(launched, done)) = signals.get(&op) else {
            rewritten.push(item);
            continue;
        };
        rewritten.push(Item::Signal(launched));
        collectives.extend([Item::wait(launched, Why::Bubble), item, Item::Signal(done)]);
        under_way.push(UnderWay { op, done, left: graph.get(op).beside, frees: Vec::new() });
    }
    // The visit ends with its last collective; what follows in the block (messages, frees) comes after it.
    let last = rewritten.iter().rposition(|item| matches!(item, Item::Execute(_) | Item::Signal(_)));
    let rest = rewritten.split_off(last.map_or(0, |at| at + 1));
    rewritten.extend(under_way.into_iter().flat_map(end));
    rewritten.extend(rest);
    *items = rewritten;
    collectives
}

/// Whether an item frees a storage that an operator uses.
fn uses(graph: &OpGraph, op: OpId, item: Item) -> bool {
    let Op { reads, writes, .. } = graph.get(op);
    matches!(item, Item::Free(storage, _) if reads.contains(&storage) || writes.contains(&storage))
}
