//! Realises [updates by hosts](crate::host_update): each lane of a host does its tasks in turn, in the step's last call of the compute
//! lane, which waits for them where it came to the update.
//!
//! ```text
//! compute    ... sums, norm |                                   | next step
//! read                       read 0  |          read 1  |
//! update                              update 0 |         ...
//! write      gradients                          write 0 |
//! back                                          copy 0
//! ```
//!
//! Where updates are delayed the lane that copies begins when the passes of a step have ended with what the host made of the
//! gradients of the step before, which it had all of these passes for.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::OpId;
use crate::host_update::{HostEvent, HostLane, HostTask, HostUpdate};
use crate::schedule::{Call, Item, Lane, LaneKind, Nth, Schedule, SignalId, Why};

/// Adds the lanes of hosts, and what the compute lanes tell them and wait for; `exchanged` tells
/// of exchanges that have ended.
pub fn realise(schedule: &mut Schedule, updates: &[HostUpdate], exchanged: &BTreeMap<OpId, SignalId>) {
    for update in updates {
        let signals = Signals::of(schedule, update, exchanged);
        let Some(compute) = schedule.compute(update.stage) else { continue };
        hand_over(compute, update, &signals);
        let Some(last) = compute.calls.last().copied() else { continue };
        let reduces = |lane: &&mut Lane| (lane.stage, lane.kind) == (update.stage, LaneKind::Reduce);
        schedule.lanes.iter_mut().filter(reduces).for_each(|reduce| hold_back(reduce, update, &signals));
        for host_lane in [HostLane::Read, HostLane::Process, HostLane::Write, HostLane::Return] {
            let own = (0..).zip(&update.tasks).filter(|(_, task)| task.lane == host_lane);
            let items: Vec<Item> = own.flat_map(|(number, task)| signals.items(number, task)).collect();
            if items.is_empty() {
                continue;
            }
            let mut lane = Lane::new(update.stage, kind(host_lane));
            let block = lane.block(lane.kind.name(), items);
            lane.calls.push(Call { block, ..last });
            schedule.lanes.push(lane);
        }
    }
}

const fn kind(lane: HostLane) -> LaneKind {
    match lane {
        HostLane::Read => LaneKind::ReadStates,
        HostLane::Process => LaneKind::HostUpdate,
        HostLane::Write => LaneKind::WriteStates,
        HostLane::Return => LaneKind::Return,
    }
}

/// Signals of a stage, once a step each.
struct Signals<'a> {
    /// The compute lane has come to the update.
    begins: SignalId,
    /// By task that something waits for.
    ended: BTreeMap<usize, SignalId>,
    /// By operator of a task, the compute lane has come to where it stands.
    reached: BTreeMap<OpId, SignalId>,
    /// By last operator of an exchange.
    exchanged: &'a BTreeMap<OpId, SignalId>,
}

impl<'a> Signals<'a> {
    fn of(
        schedule: &mut Schedule,
        HostUpdate { stage, tasks, needed, awaited, held_back }: &HostUpdate,
        exchanged: &'a BTreeMap<OpId, SignalId>,
    ) -> Self {
        let mut signal = |what: &str| schedule.signal(format!("update of stage {stage}, {what}"));
        let begins = signal("may begin");
        let events = || tasks.iter().flat_map(|task| &task.after);
        let of_tasks = events().filter_map(|&event| match event {
            HostEvent::Ended(task) | HostEvent::Freed(task) | HostEvent::EndedBefore(task) => Some(task),
            HostEvent::Passes | HostEvent::Reached(_) | HostEvent::Exchanged(_) => None,
        });
        let reached = events().filter_map(|&event| match event {
            HostEvent::Reached(op) => Some((op, signal(&format!("has come to {}", op.0)))),
            _ => None,
        });
        let reached = reached.collect();
        let freeing = held_back.iter().map(|&(_, task)| task);
        let needed: BTreeSet<usize> =
            of_tasks.chain(needed.iter().chain(awaited).copied()).chain(freeing).collect();
        let ended = |task: usize| (task, signal(&format!("{} {task} ended", kind(tasks[task].lane).name())));
        Self { begins, ended: needed.into_iter().map(ended).collect(), reached, exchanged }
    }

    fn items(&self, number: usize, task: &HostTask) -> Vec<Item> {
        let waits = task.after.iter().filter_map(|&event| self.wait(task.lane, event));
        let executed = task.ops.iter().copied().map(Item::Execute);
        let ended = self.ended.get(&number).map(|&ended| Item::SignalStep(ended));
        waits.chain(executed).chain(ended).collect()
    }

    /// The wait of a lane for an event, unless it never happens.
    fn wait(&self, lane: HostLane, event: HostEvent) -> Option<Item> {
        let (signal, nth, why) = match event {
            HostEvent::Passes => (self.begins, Nth::MicroBatch, Why::Bubble),
            HostEvent::Reached(op) => (self.reached[&op], Nth::MicroBatch, Why::Bubble),
            HostEvent::Exchanged(op) => (*self.exchanged.get(&op)?, Nth::MicroBatch, Why::Bubble),
            // Before that there is nothing to be written.
            HostEvent::Ended(task) if lane == HostLane::Write => {
                (self.ended[&task], Nth::MicroBatch, Why::Bubble)
            }
            HostEvent::Ended(task) => (self.ended[&task], Nth::MicroBatch, Why::Transfer),
            HostEvent::Freed(task) => (self.ended[&task], Nth::MicroBatch, Why::Memory),
            HostEvent::EndedBefore(task) => (self.ended[&task], Nth::StepBefore, Why::Transfer),
        };
        Some(Item::Await { signal, nth, why })
    }
}

/// Copies of gradients wait for their buffers; what is summed after them waits behind.
fn hold_back(reduce: &mut Lane, HostUpdate { held_back, .. }: &HostUpdate, signals: &Signals<'_>) {
    let freed: BTreeMap<OpId, SignalId> =
        held_back.iter().map(|&(copy, task)| (copy, signals.ended[&task])).collect();
    let instead = |item: &Item| {
        let freed = match item {
            Item::Execute(op) => freed.get(op),
            _ => None,
        };
        freed.map(|&freed| Item::wait(freed, Why::Memory)).into_iter().chain([*item]).collect::<Vec<_>>()
    };
    for block in &mut reduce.blocks {
        block.items = block.items.iter().flat_map(instead).collect();
    }
}

/// The compute lane lets the host update where it comes to the first of the host's operators, tells
/// where it comes to others, and waits for what it needs there, and for all that the host does in
/// the end where it comes to the last.
fn hand_over(
    compute: &mut Lane,
    HostUpdate { tasks, needed, awaited, .. }: &HostUpdate,
    signals: &Signals<'_>,
) {
    let ops: BTreeSet<OpId> = tasks.iter().flat_map(|task| task.ops.iter().copied()).collect();
    let of_host = |item: &Item| match item {
        Item::Execute(op) if ops.contains(op) => Some(*op),
        _ => None,
    };
    let wait = |task: &usize| Item::wait(signals.ended[task], Why::Transfer);
    for block in &mut compute.blocks {
        let Some(first) = block.items.iter().position(|item| of_host(item).is_some()) else { continue };
        let last = block.items.iter().rposition(|item| of_host(item).is_some());
        let instead = |(at, item): (usize, &Item)| {
            let Some(op) = of_host(item) else { return vec![*item] };
            let begins = (at == first).then_some(Item::SignalStep(signals.begins));
            let reached = signals.reached.get(&op).copied().map(Item::SignalStep);
            let here = needed.iter().filter(|&&task| tasks[task].ops.contains(&op)).map(wait);
            let all = awaited.iter().filter(|_| Some(at) == last).map(wait);
            begins.into_iter().chain(reached).chain(here).chain(all).collect()
        };
        block.items = block.items.iter().enumerate().flat_map(instead).collect();
    }
}
