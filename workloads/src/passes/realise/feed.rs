//! Realises [batches on their way](crate::feed): a lane for each part, which waits for a free
//! buffer and for the lane before, and a compute lane that waits for the last.
//!
//! ```text
//! sample   0 | 1 | 2 | 3 |
//! gather       0   | 1   | 2   |
//! compute            0 |   1 |   2 |       one buffer between each two
//! ```

use crate::feed::{FeedLane, FeedPart, Freed};
use crate::schedule::{Call, Item, Lane, LaneKind, Multiprocessors, Nth, Schedule, SignalId, Why};

/// Adds the lanes of the first stage, and what its compute lane waits for, whose kernels get
/// `training`.
pub fn realise(schedule: &mut Schedule, lanes: &[FeedLane], training: Multiprocessors) {
    if lanes.is_empty() {
        return;
    }
    schedule.compute(0).into_iter().for_each(|lane| lane.multiprocessors = training);
    let freed_late = lanes.iter().any(|lane| lane.freed == Freed::Trained);
    let trained = freed_late.then(|| schedule.signal("batches that are trained".to_owned()));
    let mut before: Option<SignalId> = None;
    // By lane, what frees its buffers.
    let mut taken: Vec<SignalId> = Vec::new();
    for lane in lanes {
        let name = kind(lane.part).name();
        let own = |schedule: &mut Schedule| schedule.signal(format!("batches that are taken from {name}"));
        taken.push(trained.filter(|_| lane.freed == Freed::Trained).unwrap_or_else(|| own(schedule)));
    }
    for (at, lane) in lanes.iter().enumerate() {
        let mut items =
            vec![Item::Await { signal: taken[at], nth: Nth::Before(lane.buffers), why: Why::Memory }];
        items.extend(before.map(|signal| Item::wait(signal, Why::Bubble)));
        items.extend(lane.tasks.iter().map(|&op| Item::Execute(op)));
        let made = schedule.signal(format!("batches that {} has made", kind(lane.part).name()));
        items.push(Item::Signal(made));
        items.extend(frees(lanes, &taken, at).map(Item::Signal));
        let mut of_part = Lane::new(0, kind(lane.part));
        of_part.multiprocessors = lane.multiprocessors;
        let block = of_part.block(of_part.kind.name(), items);
        let call = |micro_batch| Call { block, micro_batch, number: 0 };
        of_part.calls.extend((0..schedule.micro_batches).map(call));
        schedule.lanes.push(of_part);
        before = Some(made);
    }
    let last = lanes.len();
    let freed: Vec<Item> = frees(lanes, &taken, last).map(Item::SignalStep).collect();
    let Some((made, compute)) = before.zip(schedule.compute(0)) else { return };
    take(compute, made, trained.map(Item::SignalStep).into_iter().chain(freed).collect());
}

/// The signal that frees a buffer of the lane before, if who comes next does.
fn frees<'a>(lanes: &'a [FeedLane], taken: &'a [SignalId], at: usize) -> impl Iterator<Item = SignalId> + 'a {
    let before = at.checked_sub(1).filter(|&before| lanes[before].freed == Freed::Taken);
    before.into_iter().map(|before| taken[before])
}

const fn kind(part: FeedPart) -> LaneKind {
    match part {
        FeedPart::Sample => LaneKind::Sample,
        FeedPart::Gather => LaneKind::GatherRows,
        FeedPart::Copy => LaneKind::CopyRows,
    }
}

/// The first visit of each micro-batch waits for it, the end of the step frees its buffers.
fn take(compute: &mut Lane, made: SignalId, ended: Vec<Item>) {
    let mut waits: Vec<u32> = Vec::new();
    let mut seen = Vec::new();
    for call in &compute.calls {
        if !seen.contains(&call.micro_batch) {
            seen.push(call.micro_batch);
            waits.push(call.block);
        }
    }
    waits.sort_unstable();
    waits.dedup();
    for block in waits {
        compute.blocks[block as usize].items.insert(0, Item::wait(made, Why::Transfer));
    }
    if let Some(last) = compute.calls.last().map(|call| call.block as usize) {
        let items = &mut compute.blocks[last].items;
        let at = items.iter().rposition(|item| *item == Item::Mark).unwrap_or(items.len());
        items.splice(at..at, ended);
    }
}
