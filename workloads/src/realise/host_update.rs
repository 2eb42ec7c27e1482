//! Realises [updates by hosts](crate::host_update): one lane of the host updates groups in turn, another copies each to the GPU when
//! it is updated, and the compute lane waits for the last of them where it came to the update.
//!
//! ```text
//! compute    ... sums, norm |                              | next step
//! update                      update 0 | update 1 | ...
//! back                                 | copy 0   | ...
//! ```
//!
//! Where updates are delayed the lane that copies begins when the passes of a step have ended with what the host made of the
//! gradients of the step before, which it had all of these passes for.

use crate::graph::OpId;
use crate::host_update::{HostGroup, HostUpdate};
use crate::schedule::{Call, Item, Lane, LaneKind, Nth, Schedule, SignalId, Why};

/// The name of this pass in errors.
pub const PASS: &str = "host update";

/// Adds the lanes of hosts, and what the compute lanes tell them and wait for.
pub fn realise(schedule: &mut Schedule, updates: &[HostUpdate]) {
    for HostUpdate { stage, groups, delayed } in updates {
        let mut signal = |what: &str| schedule.signal(format!("update of stage {stage}, {what}"));
        let [begins, done] = ["may begin", "done"].map(&mut signal);
        let updated: Vec<SignalId> = groups.iter().map(|_| signal("of a group")).collect();
        let Some(compute) = schedule.compute(*stage) else { continue };
        hand_over(compute, groups, [begins, done]);
        let Some(last) = compute.calls.last().copied() else { continue };
        let await_begin = Item::Await { signal: begins, nth: Nth::MicroBatch, why: Why::Bubble };
        let mut update = vec![await_begin];
        let mut back: Vec<Item> = delayed.then_some(await_begin).into_iter().collect();
        let nth = if *delayed { Nth::StepBefore } else { Nth::MicroBatch };
        for (group, &signal) in groups.iter().zip(&updated) {
            update.extend([Item::Execute(group.update), Item::SignalStep(signal)]);
            back.extend([Item::Await { signal, nth, why: Why::Transfer }, Item::Execute(group.back)]);
        }
        back.push(Item::SignalStep(done));
        for (kind, items) in [(LaneKind::HostUpdate, update), (LaneKind::Return, back)] {
            let mut lane = Lane::new(*stage, kind);
            let block = lane.block(kind.name(), items);
            lane.calls.push(Call { block, ..last });
            schedule.lanes.push(lane);
        }
    }
}

/// The compute lane lets the host update, and waits for it.
fn hand_over(compute: &mut Lane, groups: &[HostGroup], [begins, done]: [SignalId; 2]) {
    let is_update = |item: &Item| matches!(item, Item::Execute(op) if is_of(groups, *op));
    for block in &mut compute.blocks {
        let Some(first) = block.items.iter().position(is_update) else { continue };
        block.items.retain(|item| !is_update(item));
        let wait = Item::Await { signal: done, nth: Nth::MicroBatch, why: Why::Transfer };
        block.items.splice(first..first, [Item::SignalStep(begins), wait]);
    }
}

fn is_of(groups: &[HostGroup], op: OpId) -> bool {
    groups.binary_search_by_key(&op, |group| group.update).is_ok()
}
