//! Realises [updates by hosts](crate::host_update): one lane of the host updates groups in turn, others bring their states from drives
//! and back, or copy parameters to the GPU when they are updated. The compute lane waits for all of that where it came to the update.
//!
//! ```text
//! compute    ... sums, norm |                                   | next step
//! read                       read 0  |          read 1  |
//! update                              update 0 |         ...
//! write      gradients                          write 0 |
//! back                                          copy 0
//! ```
//!
//! A group is read when fewer than `buffers` are under way, and none before all gradients are on the drives.
//!
//! Where updates are delayed the lane that copies begins when the passes of a step have ended with what the host made of the
//! gradients of the step before, which it had all of these passes for.

use std::collections::BTreeMap;

use crate::graph::OpId;
use crate::host_update::{HostGradients, HostGroup, HostUpdate};
use crate::schedule::{Call, Item, Lane, LaneKind, Nth, Schedule, SignalId, Why};

/// Adds the lanes of hosts, and what the compute lanes tell them and wait for; `done` tells of gradients that have come.
pub fn realise(schedule: &mut Schedule, updates: &[HostUpdate], done: &BTreeMap<OpId, SignalId>) {
    for update in updates {
        let signals = Signals::of(schedule, update);
        let Some(compute) = schedule.compute(update.stage) else { continue };
        hand_over(compute, &update.groups, &signals);
        let Some(last) = compute.calls.last().copied() else { continue };
        let lanes = [
            (LaneKind::ReadStates, read(update, &signals)),
            (LaneKind::HostUpdate, update_groups(update, &signals, done)),
            (LaneKind::WriteStates, write(update, &signals)),
            (LaneKind::Return, give_back(update, &signals)),
        ];
        for (kind, items) in lanes.into_iter().filter(|(_, items)| !items.is_empty()) {
            let mut lane = Lane::new(update.stage, kind);
            let block = lane.block(kind.name(), items);
            lane.calls.push(Call { block, ..last });
            schedule.lanes.push(lane);
        }
    }
}

/// Once a step each.
struct Signals {
    /// The compute lane has come to the update.
    begins: SignalId,
    /// Gradients are in buffers, one by one, and all are on the drives.
    copied: Vec<SignalId>,
    kept: SignalId,
    /// A group is in host memory; it is updated; it is on the drives; it is on the GPU.
    read: Vec<SignalId>,
    updated: Vec<SignalId>,
    written: Vec<SignalId>,
    back: SignalId,
}

impl Signals {
    fn of(schedule: &mut Schedule, HostUpdate { stage, gradients, groups, .. }: &HostUpdate) -> Self {
        let mut signal = |what: &str| schedule.signal(format!("update of stage {stage}, {what}"));
        let mut each = |what, count: usize| (0..count).map(|_| signal(what)).collect::<Vec<_>>();
        let (copied, read, updated, written) = (
            each("gradients copied", gradients.len()),
            each("group read", groups.len()),
            each("group updated", groups.len()),
            each("group written", groups.len()),
        );
        let [begins, kept, back] = ["may begin", "gradients written", "back"].map(signal);
        Self { begins, copied, kept, read, updated, written, back }
    }
}

/// The compute lane lets the host update, and waits for all that it does then.
fn hand_over(compute: &mut Lane, groups: &[HostGroup], signals: &Signals) {
    let is_update =
        |item: &Item| matches!(item, Item::Execute(op) if groups.iter().any(|group| group.update == *op));
    let mut awaited = vec![Item::SignalStep(signals.begins)];
    let (written, updated) = groups.iter().zip(&signals.written).zip(&signals.updated).fold(
        (Vec::new(), Vec::new()),
        |(mut written, mut updated), ((group, &on_drives), &done)| {
            match (group.written.is_empty(), group.back) {
                (false, _) => written.push(on_drives),
                (true, None) => updated.push(done),
                (true, Some(_)) => {}
            }
            (written, updated)
        },
    );
    let back = groups.iter().any(|group| group.back.is_some()).then_some(signals.back);
    awaited.extend(
        written.into_iter().chain(updated).chain(back).map(|signal| Item::wait(signal, Why::Transfer)),
    );
    for block in &mut compute.blocks {
        let Some(first) = block.items.iter().position(is_update) else { continue };
        block.items.retain(|item| !is_update(item));
        block.items.splice(first..first, awaited.iter().copied());
    }
}

fn read(HostUpdate { gradients, groups, buffers, .. }: &HostUpdate, signals: &Signals) -> Vec<Item> {
    let mut items = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let Some(read) = group.read else { continue };
        if items.is_empty() {
            items.push(Item::wait(signals.begins, Why::Bubble));
            items.extend((!gradients.is_empty()).then_some(Item::wait(signals.kept, Why::Transfer)));
        }
        let before = number.checked_sub(*buffers as usize).map(|before| signals.written[before]);
        items.extend(before.map(|written| Item::wait(written, Why::Memory)));
        items.extend([Item::Execute(read), Item::SignalStep(signals.read[number])]);
    }
    items
}

/// The processors copy gradients, then update.
fn update_groups(
    HostUpdate { gradients, groups, .. }: &HostUpdate,
    signals: &Signals,
    done: &BTreeMap<OpId, SignalId>,
) -> Vec<Item> {
    let mut items = Vec::new();
    for (HostGradients { received, copied, .. }, &signal) in gradients.iter().zip(&signals.copied) {
        items.extend(done.get(received).map(|&received| Item::wait(received, Why::Bubble)));
        items.extend([Item::Execute(*copied), Item::SignalStep(signal)]);
    }
    items.push(Item::wait(signals.begins, Why::Bubble));
    for ((group, &read), &updated) in groups.iter().zip(&signals.read).zip(&signals.updated) {
        items.extend(group.read.map(|_| Item::wait(read, Why::Transfer)));
        items.extend([Item::Execute(group.update), Item::SignalStep(updated)]);
    }
    items
}

fn write(HostUpdate { gradients, groups, .. }: &HostUpdate, signals: &Signals) -> Vec<Item> {
    let mut items = Vec::new();
    for (gradients, &copied) in gradients.iter().zip(&signals.copied) {
        items.extend([Item::wait(copied, Why::Bubble), Item::Execute(gradients.written)]);
    }
    items.extend((!gradients.is_empty()).then_some(Item::SignalStep(signals.kept)));
    for ((group, &updated), &written) in groups.iter().zip(&signals.updated).zip(&signals.written) {
        if group.written.is_empty() {
            continue;
        }
        items.push(Item::wait(updated, Why::Bubble));
        items.extend(group.written.iter().copied().map(Item::Execute));
        items.push(Item::SignalStep(written));
    }
    items
}

/// Copies to the GPU, of this step's update or of the one before.
fn give_back(HostUpdate { groups, delayed, .. }: &HostUpdate, signals: &Signals) -> Vec<Item> {
    let nth = if *delayed { Nth::StepBefore } else { Nth::MicroBatch };
    let copies =
        groups.iter().zip(&signals.updated).filter_map(|(group, &signal)| Some((group.back?, signal)));
    let mut items: Vec<Item> = copies
        .flat_map(|(back, signal)| [Item::Await { signal, nth, why: Why::Transfer }, Item::Execute(back)])
        .collect();
    if items.is_empty() {
        return items;
    }
    if *delayed {
        items.insert(0, Item::wait(signals.begins, Why::Bubble));
    }
    items.push(Item::SignalStep(signals.back));
    items
}
