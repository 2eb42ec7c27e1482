//! Realises [transfers](crate::transfer::Transfer): copies run on two lanes of a stage, one out and
//! one back, launched and awaited by its compute lane.
//!
//! Where all micro-batches leave, a storage leaves when it is copied and the forward pass uses it
//! no more, and comes back where there is room for it (`room`); what finds none for a while waits, as
//! what is on its way out gives some back. What may stay stays if its copy out has not ended when
//! it is asked for: one that has not begun is left out, one that has is for nothing.
//!
//! Where hosts ask they do so as they issue operators, ahead of the GPU, and wait for what an
//! operator needs before they issue it, as hooks of autograd do; where they issue nothing, or whole
//! passes as graphs, all is asked for as the backward pass begins.
//!
//! Where listed micro-batches leave, a slot of the home stage is held from before the forward pass,
//! or from before the copy back, until the copy out has ended or the backward pass has; slots are
//! bounded, so a forward pass waits until a copy out has made room. The other tier must have room
//! for what it takes: as with a framework's allocator, it runs out of memory otherwise.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::PlanError;
use crate::graph::{OpGraph, OpId, StorageId};
use crate::passes::{Context, Kind, Pass, Plan};
use crate::schedule::{Call, Insertions, Item, Lane, LaneKind, Nth, Schedule, SignalId, Why};
use crate::transfer::{Asked, Dispositions, Listed, Stay, Tier, Transfer, Trips};

use super::launches::launched;
use super::room;

/// Copies to other tiers and back.
#[derive(Clone, Copy, Debug)]
pub struct Transfers;

impl Pass for Transfers {
    fn name(&self) -> &'static str {
        "transfers"
    }

    fn kind(&self) -> Kind {
        Kind::Realiser
    }

    fn follows(&self) -> &'static [&'static str] {
        &["visits"]
    }

    fn apply(&self, plan: &mut Plan, context: &Context<'_>) -> Result<(), PlanError> {
        let issue = context.estimates().issue.as_ref();
        let hosts_issue = issue.is_some_and(|issue| issue.graph.is_none());
        plan.realise(|schedule, of| realise(schedule, of.graph, of.table, hosts_issue));
        Ok(())
    }
}

/// Adds copy lanes and what launches and awaits them; hosts may issue operators one by one.
pub fn realise(schedule: &mut Schedule, graph: &OpGraph, table: &Dispositions, hosts_issue: bool) {
    // Nothing comes back where nothing leaves.
    let stages = if table.leave_gpus() { schedule.stages.len() as u32 } else { 0 };
    let room: BTreeMap<StorageId, OpId> = (0..stages)
        .filter_map(|stage| {
            let compute = schedule.lanes.get(stage as usize)?;
            Some(room::room(schedule, graph, table, compute, &Moments::of(schedule, stage)))
        })
        .flatten()
        .collect();
    let mut by_lanes: BTreeMap<([LaneKind; 2], u32), Vec<Copied<'_>>> = BTreeMap::new();
    for transfer in table.transfers() {
        let stage = transfer.from.owner;
        let memory = &mut schedule.stages[stage as usize];
        match &transfer.trips {
            Trips::Every(_) => memory.waits = true,
            Trips::Listed(listed) => memory.resident_bound = Some(listed.bound),
        }
        let copied = Copied::new(schedule, graph, transfer, &room, hosts_issue);
        by_lanes.entry((LaneKind::copies(transfer.to), stage)).or_default().push(copied);
    }
    for (([out, back], stage), transfers) in by_lanes {
        let moments = Moments::of(schedule, stage);
        let Some(compute) = schedule.compute(stage) else { continue };
        launch(compute, &transfers, &moments);
        let (copied, needed) = (|stay: &Stay| stay.copied_after, |stay: &Stay| stay.needed_by);
        let out = lane(compute, out, &transfers, Copied::leave, (copied, |item| moments.ends(item)));
        let back = lane(compute, back, &transfers, Copied::arrive, (needed, |item| moments.begins(item)));
        schedule.lanes.extend([out, back]);
    }
}

/// A transfer with its signals, each of which counts its trips.
struct Copied<'a> {
    transfer: &'a Transfer,
    /// It may be copied out.
    ready: SignalId,
    /// It shall come back.
    asked: SignalId,
    /// There is room for it, where the host asks, and the operator at whose issue it does.
    by_host: Option<(SignalId, OpId)>,
    /// The operator before which the compute lane asks, or lets it come.
    comes_before: Option<OpId>,
    /// It is away. `None`: copies back find out themselves, and no operator waits for it.
    away: Option<SignalId>,
    /// It is there.
    back: SignalId,
}

impl<'a> Copied<'a> {
    fn new(
        schedule: &mut Schedule,
        graph: &OpGraph,
        transfer: &'a Transfer,
        room: &BTreeMap<StorageId, OpId>,
        hosts_issue: bool,
    ) -> Self {
        let first = transfer.storages[0];
        let what = graph.describe(first);
        let mut signal = |event: &str| schedule.signal(format!("{what} {} {event}", first.0));
        let (ready, asked) = (signal("may be copied"), signal("is asked for"));
        let told =
            matches!(transfer.trips, Trips::Listed(_) | Trips::Every(Stay { gone_after: Some(_), .. }));
        let away = told.then(|| signal("is away"));
        let back = signal("is back");
        let issued = match transfer.trips {
            Trips::Every(Stay { asked: Asked::Issued(op), .. }) if hosts_issue => Some(op),
            _ => None,
        };
        let by_host = issued.map(|op| (signal("has room"), op));
        if by_host.is_some() {
            schedule.by_hosts.extend([asked, back]);
        }
        let comes_before = room.get(&first).copied();
        Self { transfer, ready, asked, by_host, comes_before, away, back }
    }

    /// Waits for the count of a signal that is the call's own.
    fn wait(&self, signal: SignalId, why: Why) -> Item {
        let nth = match self.transfer.trips {
            Trips::Every(_) => Nth::MicroBatch,
            Trips::Listed(_) => Nth::Number(0),
        };
        Item::Await { signal, nth, why }
    }

    fn leave(&self) -> Vec<Item> {
        let &Transfer { ref storages, from, to, ref trips } = self.transfer;
        let mut items = vec![self.wait(self.ready, Why::Bubble)];
        match *trips {
            Trips::Every(_) => items.extend(storages.iter().map(|&storage| Item::Depart { storage, to })),
            Trips::Listed(Listed { away, .. }) => {
                items.push(Item::Await { signal: self.back, nth: Nth::Number(away), why: Why::Transfer });
                items.extend(carried(storages, from, to));
            }
        }
        items.extend(self.away.map(Item::Signal));
        items
    }

    fn arrive(&self) -> Vec<Item> {
        let &Transfer { ref storages, from: home, to: from, ref trips } = self.transfer;
        let mut items = vec![self.wait(self.asked, Why::Bubble)];
        items.extend(self.by_host.map(|(room, _)| self.wait(room, Why::Memory)));
        if let (Some(_), Trips::Every(Stay { forwarded: true, .. })) = (self.by_host, trips) {
            items.extend(storages.iter().map(|&storage| Item::Recall(storage)));
        }
        items.extend(self.away.map(|away| self.wait(away, Why::Transfer)));
        match trips {
            Trips::Every(_) => items.extend(storages.iter().map(|&storage| Item::Return { storage, from })),
            Trips::Listed(_) => items.extend(carried(storages, from, home)),
        }
        items.push(Item::Signal(self.back));
        items
    }
}

/// All storages find room, are copied one after the other, and leave.
fn carried(storages: &[StorageId], from: Tier, to: Tier) -> impl Iterator<Item = Item> {
    let allocated = storages.iter().map(move |&storage| Item::Allocate(storage, to));
    let copied = storages
        .iter()
        .flat_map(move |&storage| [Item::Copy { storage, from, to }, Item::Free(storage, from)]);
    std::iter::once(Item::Enter(to)).chain(allocated).chain(copied).chain([Item::Leave(from)])
}

/// When operators begin and end, as the compute lane sees it: collectives that run beside it are
/// launched and awaited.
pub(super) struct Moments {
    launched: BTreeMap<SignalId, (OpId, bool)>,
    done: BTreeMap<SignalId, OpId>,
}

impl Moments {
    pub(super) fn of(schedule: &Schedule, stage: u32) -> Self {
        let beside = schedule.lanes.iter().filter(|it| it.stage == stage && it.kind == LaneKind::Collective);
        let pairs = beside.flat_map(|lane| &lane.blocks).flat_map(|block| block.items.windows(2));
        let done = pairs.filter_map(|pair| match *pair {
            [Item::Execute(op), Item::Signal(end)] => Some((end, op)),
            _ => None,
        });
        Self { launched: launched(schedule, stage, LaneKind::Collective), done: done.collect() }
    }

    /// The operator that begins with an item.
    pub(super) fn begins(&self, item: &Item) -> Option<OpId> {
        match item {
            Item::Execute(op) => Some(*op),
            Item::Signal(signal) => self.launched.get(signal).map(|&(op, _)| op),
            _ => None,
        }
    }

    /// The operator that has ended after an item.
    pub(super) fn ends(&self, item: &Item) -> Option<OpId> {
        match item {
            Item::Execute(op) => Some(*op),
            Item::Await { signal, .. } => self.done.get(signal).copied(),
            _ => None,
        }
    }
}

/// A moment of a compute lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// An operator begins.
    Before(OpId),
    /// An operator has ended.
    After(OpId),
    /// A visit begins, and what it receives has come.
    Begin(u32),
    /// A visit has ended.
    End(u32),
}

/// Makes the compute lane let storages leave, ask for them, await those that it needs, and give
/// them back.
fn launch(lane: &mut Lane, transfers: &[Copied<'_>], moments: &Moments) {
    // At each moment, first the items of one kind for all transfers, then those of the other.
    let mut at: BTreeMap<Moment, [Vec<Item>; 2]> = BTreeMap::new();
    let mut departing: BTreeSet<StorageId> = BTreeSet::new();
    for copied in transfers {
        let &Copied { transfer, ready, asked, by_host, comes_before, away, back } = copied;
        let Transfer { storages, trips, .. } = transfer;
        let needed = copied.wait(back, Why::Transfer);
        let mut add = |moment, kind: usize, item| at.entry(moment).or_default()[kind].push(item);
        match trips {
            Trips::Every(stay) => {
                departing.extend(storages);
                let comes = Moment::Before(comes_before.unwrap_or(stay.needed_by));
                for &storage in storages {
                    if stay.forwarded && by_host.is_none() {
                        add(comes, 0, Item::Recall(storage));
                    }
                    add(Moment::After(stay.freed_after), 0, Item::Idle(storage));
                }
                match by_host {
                    Some((room, issued)) => {
                        add(Moment::Before(issued), 0, Item::Signal(asked));
                        add(comes, 0, Item::Signal(room));
                    }
                    None => add(comes, 0, Item::Signal(asked)),
                }
                add(Moment::Before(stay.needed_by), 1, needed);
                add(Moment::After(stay.copied_after), 1, Item::Signal(ready));
                if let (Some(op), Some(away)) = (stay.gone_after, away) {
                    add(Moment::After(op), 1, copied.wait(away, Why::Transfer));
                }
            }
            Trips::Listed(Listed { trips, .. }) => {
                for (number, trip) in (0u32..).zip(trips) {
                    add(Moment::Begin(trip.needed_by), 0, needed);
                    add(Moment::End(trip.copied_after), 0, Item::Signal(ready));
                    add(Moment::End(trip.asked_after), 1, Item::Signal(asked));
                    lane.calls[trip.needed_by as usize].number = number;
                }
                lane.numbers = trips.len() as u32;
            }
        }
    }
    let at = |moment| at.get(&moment).into_iter().flatten().flatten().copied();
    for block in &mut lane.blocks {
        let mut items = Vec::with_capacity(block.items.len());
        for item in &block.items {
            items.extend(moments.begins(item).map(|op| at(Moment::Before(op))).into_iter().flatten());
            items.push(match *item {
                Item::Free(storage, tier) if tier.is_hbm() && departing.contains(&storage) => {
                    Item::Dismiss(storage)
                }
                item => item,
            });
            items.extend(moments.ends(item).map(|op| at(Moment::After(op))).into_iter().flatten());
        }
        block.items = items;
    }
    let of_call = |(number, call): (u32, &Call)| {
        let items = &lane.blocks[call.block as usize].items;
        // After the message: only what a copy back delays beyond that is exposed.
        let first = items.iter().take_while(|item| matches!(item, Item::Await { .. })).count();
        let moments = [(first, Moment::Begin(number)), (items.len(), Moment::End(number))];
        let inserted = moments.map(|(place, moment)| (place, at(moment).collect::<Vec<_>>()));
        inserted.into_iter().filter(|(_, items)| !items.is_empty()).collect::<Insertions>()
    };
    let insertions = (0u32..).zip(&lane.calls).map(of_call).collect();
    lane.insert(insertions);
}

/// A lane of copies, in the order of listed trips, or in that in which the compute lane comes to
/// the `moment` of the operators that they belong to.
fn lane<'a>(
    compute: &Lane,
    kind: LaneKind,
    transfers: &[Copied<'a>],
    items: fn(&Copied<'a>) -> Vec<Item>,
    (op, moment): (fn(&Stay) -> OpId, impl Fn(&Item) -> Option<OpId>),
) -> Lane {
    let mut lane = Lane::new(compute.stage, kind);
    let mut by_op: BTreeMap<OpId, Vec<u32>> = BTreeMap::new();
    for copied in transfers {
        let block = lane.block(kind.name(), items(copied));
        match &copied.transfer.trips {
            Trips::Every(stay) => by_op.entry(op(stay)).or_default().push(block),
            Trips::Listed(Listed { trips, .. }) => {
                let calls = (0..).zip(trips);
                lane.calls.extend(calls.map(|(number, trip)| Call {
                    block,
                    micro_batch: trip.micro_batch,
                    number,
                }));
                lane.numbers = trips.len() as u32;
            }
        }
    }
    let of_block = |items: &[Item]| -> Vec<u32> {
        items.iter().filter_map(&moment).filter_map(|op| by_op.get(&op)).flatten().copied().collect()
    };
    let by_block: Vec<Vec<u32>> = compute.blocks.iter().map(|block| of_block(&block.items)).collect();
    for visit in &compute.calls {
        let call = |&block: &u32| Call { block, micro_batch: visit.micro_batch, number: 0 };
        lane.calls.extend(by_block[visit.block as usize].iter().map(call));
    }
    lane
}
