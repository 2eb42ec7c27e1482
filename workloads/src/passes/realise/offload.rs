//! Realises [`Disposition::Offload`](crate::transfer::Disposition::Offload): copies run on two lanes of a stage, one out and
//! one back, in the order in which the compute lane launches them.
//!
//! A storage leaves the GPU when it is copied and the forward pass uses it no more, and comes back where there is room for it; what
//! finds no room waits, as what is on its way out gives some back. What may stay stays if its copy out has not ended when it is
//! asked for: one that has not begun is left out, one that has is for nothing.

use std::collections::BTreeMap;

use crate::error::PlanError;
use crate::graph::{OpGraph, OpId, StorageId};
use crate::passes::{Context, Kind, Pass, Plan};
use crate::schedule::{Call, Item, Lane, LaneKind, Nth, Schedule, SignalId, Why};
use crate::transfer::{Dispositions, Offload, Tier};

/// Copies to hosts or drives and back.
#[derive(Clone, Copy, Debug)]
pub struct Offloads;

impl Pass for Offloads {
    fn name(&self) -> &'static str {
        "offloads"
    }

    fn kind(&self) -> Kind {
        Kind::Realiser
    }

    fn follows(&self) -> &'static [&'static str] {
        &["visits"]
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        plan.realise(|schedule, of| {
            if of.table.offloads().next().is_some() {
                realise(schedule, of.graph, of.table);
            }
        });
        Ok(())
    }
}

/// The signals of a storage; each counts micro-batches.
#[derive(Clone, Copy)]
struct Signals {
    /// It may be copied out.
    ready: SignalId,
    /// It shall come back.
    asked: SignalId,
    /// It is there.
    back: SignalId,
}

/// A storage that leaves.
#[derive(Clone, Copy)]
struct Trip<'a> {
    storage: StorageId,
    offload: &'a Offload,
    away: Tier,
    signals: Signals,
}

/// Adds copy lanes and what launches and awaits them.
pub fn realise(schedule: &mut Schedule, graph: &OpGraph, table: &Dispositions) {
    let mut by_stage: BTreeMap<u32, Vec<Trip<'_>>> = BTreeMap::new();
    for (storage, offload) in table.offloads() {
        let what = graph.describe(storage);
        let mut signal = |event: &str| schedule.signal(format!("{what} {} {event}", storage.0));
        let signals = Signals {
            ready: signal("may be copied"),
            asked: signal("is asked for"),
            back: signal("is back"),
        };
        let stage = graph.stored(storage).stage;
        let away = Tier { owner: stage, medium: offload.to };
        by_stage.entry(stage).or_default().push(Trip { storage, offload, away, signals });
    }
    for (stage, trips) in by_stage {
        schedule.stages[stage as usize].waits = true;
        let moments = Moments::of(schedule, stage);
        let Some(compute) = schedule.compute(stage) else { continue };
        launch(compute, &trips, &moments);
        let (copied, needed) = (at(&trips, |trip| trip.copied_after), at(&trips, |trip| trip.needed_by));
        let (end, begin) = (|item: &Item| moments.ends(item), |item: &Item| moments.begins(item));
        let out = copies(compute, LaneKind::Offload, (&copied, end), |trip| leave(&trips[trip]));
        let back = copies(compute, LaneKind::Reload, (&needed, begin), |trip| arrive(&trips[trip]));
        schedule.lanes.extend([out, back]);
    }
}

/// When operators begin and end, as the compute lane sees it: collectives that run beside it are launched and awaited.
struct Moments {
    launched: BTreeMap<SignalId, OpId>,
    done: BTreeMap<SignalId, OpId>,
}

impl Moments {
    fn of(schedule: &Schedule, stage: u32) -> Self {
        let (mut launched, mut done) = (BTreeMap::new(), BTreeMap::new());
        let beside =
            schedule.lanes.iter().filter(|lane| lane.stage == stage && lane.kind == LaneKind::Collective);
        for items in beside.flat_map(|lane| &lane.blocks).flat_map(|block| block.items.windows(3)) {
            if let [Item::Await { signal: launch, .. }, Item::Execute(op), Item::Signal(end)] = *items {
                launched.insert(launch, op);
                done.insert(end, op);
            }
        }
        Self { launched, done }
    }

    /// The operator that begins with an item.
    fn begins(&self, item: &Item) -> Option<OpId> {
        match item {
            Item::Execute(op) => Some(*op),
            Item::Signal(signal) => self.launched.get(signal).copied(),
            _ => None,
        }
    }

    /// The operator that has ended after an item.
    fn ends(&self, item: &Item) -> Option<OpId> {
        match item {
            Item::Execute(op) => Some(*op),
            Item::Await { signal, .. } => self.done.get(signal).copied(),
            _ => None,
        }
    }
}

/// By operator, the trips that something happens to there, by number.
type At = BTreeMap<OpId, Vec<usize>>;

fn at(trips: &[Trip<'_>], event: fn(&Offload) -> OpId) -> At {
    let mut at = At::new();
    for (number, trip) in trips.iter().enumerate() {
        at.entry(event(trip.offload)).or_default().push(number);
    }
    at
}

/// Makes the compute lane let storages leave, ask for them, await those that an operator reads, and give them back.
fn launch(lane: &mut Lane, trips: &[Trip<'_>], moments: &Moments) {
    let copied = at(trips, |trip| trip.copied_after);
    let leaving = at(trips, |trip| trip.leaves_after);
    let asked = at(trips, |trip| trip.asked_before);
    let needed = at(trips, |trip| trip.needed_by);
    let departs = |storage| trips.binary_search_by_key(&storage, |trip| trip.storage).is_ok();
    let of = |at: &At, op: Option<OpId>| -> Vec<Trip<'_>> {
        op.and_then(|op| at.get(&op)).into_iter().flatten().map(|&trip| trips[trip]).collect()
    };
    for block in &mut lane.blocks {
        let mut items = Vec::with_capacity(block.items.len());
        for &item in &block.items {
            let (begins, ends) = (moments.begins(&item), moments.ends(&item));
            for Trip { storage, offload, signals, .. } in of(&asked, begins) {
                items.extend(offload.forwarded.then_some(Item::Recall(storage)));
                items.push(Item::Signal(signals.asked));
            }
            items.extend(of(&needed, begins).into_iter().map(|trip| Item::Await {
                signal: trip.signals.back,
                nth: Nth::MicroBatch,
                why: Why::Transfer,
            }));
            items.push(match item {
                Item::Free(storage, tier) if tier.is_hbm() && departs(storage) => Item::Dismiss(storage),
                _ => item,
            });
            items.extend(of(&leaving, ends).into_iter().map(|trip| Item::Idle(trip.storage)));
            items.extend(of(&copied, ends).into_iter().map(|trip| Item::Signal(trip.signals.ready)));
        }
        block.items = items;
    }
}

/// A lane that makes trips in the order in which the compute lane comes to the `moment` of the operators that they belong to.
fn copies(
    compute: &Lane,
    kind: LaneKind,
    (at, moment): (&At, impl Fn(&Item) -> Option<OpId>),
    items: impl Fn(usize) -> Vec<Item>,
) -> Lane {
    let mut lane = Lane::new(compute.stage, kind);
    let name = kind.name();
    let mut block_of: BTreeMap<usize, u32> = BTreeMap::new();
    for &trip in at.values().flatten() {
        let block = lane.block(name.clone(), items(trip));
        block_of.insert(trip, block);
    }
    let made = |items: &[Item]| -> Vec<u32> {
        let trips = items.iter().filter_map(&moment).filter_map(|op| at.get(&op));
        trips.flatten().map(|trip| block_of[trip]).collect()
    };
    let by_block: Vec<Vec<u32>> = compute.blocks.iter().map(|block| made(&block.items)).collect();
    for visit in &compute.calls {
        let call = |&block: &u32| Call { block, micro_batch: visit.micro_batch, number: 0 };
        lane.calls.extend(by_block[visit.block as usize].iter().map(call));
    }
    lane
}

fn leave(&Trip { storage, away: to, signals, .. }: &Trip<'_>) -> Vec<Item> {
    vec![
        Item::Await { signal: signals.ready, nth: Nth::MicroBatch, why: Why::Bubble },
        Item::Depart { storage, to },
    ]
}

fn arrive(&Trip { storage, away: from, signals, .. }: &Trip<'_>) -> Vec<Item> {
    vec![
        Item::Await { signal: signals.asked, nth: Nth::MicroBatch, why: Why::Bubble },
        Item::Return { storage, from },
        Item::Signal(signals.back),
    ]
}
