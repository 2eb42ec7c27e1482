//! Realises [`Disposition::Offload`](crate::disposition::Disposition::Offload): copies run on two lanes of a stage, one out and
//! one back, in the order in which the compute lane launches them.
//!
//! A storage leaves the GPU when its copy out has ended and comes back where there is room for it; what finds no room waits, as
//! what is on its way out gives some back.

use std::collections::BTreeMap;

use crate::disposition::{Dispositions, Offload};
use crate::graph::{OpGraph, OpId, StorageId};
use crate::schedule::{Call, Item, Lane, LaneKind, Nth, Place, Schedule, SignalId, Why};

/// The name of this pass in errors.
pub const PASS: &str = "offload";

/// The signals of a storage; each counts micro-batches.
#[derive(Clone, Copy)]
struct Signals {
    /// It may leave.
    leaves: SignalId,
    /// Its copy out has ended.
    away: SignalId,
    /// It shall come back.
    asked: SignalId,
    /// It is back.
    back: SignalId,
}

/// A storage that leaves.
#[derive(Clone, Copy)]
struct Trip<'a> {
    storage: StorageId,
    offload: &'a Offload,
    signals: Signals,
}

/// Adds copy lanes and what launches and awaits them.
pub fn realise(schedule: &mut Schedule, graph: &OpGraph, table: &Dispositions) {
    let mut by_stage: BTreeMap<u32, Vec<Trip<'_>>> = BTreeMap::new();
    for (storage, offload) in table.offloads() {
        let what = graph.describe(storage);
        let mut signal = |event: &str| schedule.signal(format!("{what} {} {event}", storage.0));
        let signals = Signals {
            leaves: signal("leaves"),
            away: signal("is away"),
            asked: signal("is asked for"),
            back: signal("is back"),
        };
        by_stage.entry(graph.stored(storage).stage).or_default().push(Trip { storage, offload, signals });
    }
    for (stage, trips) in by_stage {
        schedule.stages[stage as usize].waits = true;
        let Some(compute) = schedule.compute(stage) else { continue };
        let [leaving, asked, needed] = [leaves_after, asked_before, needed_by].map(|event| at(&trips, event));
        launch(compute, &trips, [&leaving, &asked, &needed]);
        let places = (Place::Home(stage), Place::Host(stage));
        let out = copies(compute, LaneKind::Offload, &leaving, |trip| leave(&trips[trip], places));
        let back = copies(compute, LaneKind::Reload, &needed, |trip| arrive(&trips[trip], places));
        schedule.lanes.extend([out, back]);
    }
}

const fn leaves_after(offload: &Offload) -> OpId {
    offload.leaves_after
}

const fn asked_before(offload: &Offload) -> OpId {
    offload.asked_before
}

const fn needed_by(offload: &Offload) -> OpId {
    offload.needed_by
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

/// Makes the compute lane let storages leave, ask for them, and await those that an operator reads.
fn launch(lane: &mut Lane, trips: &[Trip<'_>], [leaving, asked, needed]: [&At; 3]) {
    for block in &mut lane.blocks {
        let mut items = Vec::with_capacity(block.items.len());
        for &item in &block.items {
            let Item::Execute(op) = item else {
                items.push(item);
                continue;
            };
            let of = |at: &At| {
                at.get(&op).into_iter().flatten().map(|&trip| trips[trip].signals).collect::<Vec<_>>()
            };
            items.extend(of(asked).into_iter().map(|signals| Item::Signal(signals.asked)));
            items.extend(of(needed).into_iter().map(|signals| Item::Await {
                signal: signals.back,
                nth: Nth::MicroBatch,
                why: Why::Transfer,
            }));
            items.push(item);
            items.extend(of(leaving).into_iter().map(|signals| Item::Signal(signals.leaves)));
        }
        block.items = items;
    }
}

/// A lane that makes trips in the order in which the compute lane comes to the operators that they belong to.
fn copies(compute: &Lane, kind: LaneKind, at: &At, items: impl Fn(usize) -> Vec<Item>) -> Lane {
    let mut lane = Lane::new(compute.stage, kind);
    let name = kind.name();
    let mut block_of: BTreeMap<usize, u32> = BTreeMap::new();
    for &trip in at.values().flatten() {
        let block = lane.block(name.clone(), items(trip));
        block_of.insert(trip, block);
    }
    let made = |items: &[Item]| -> Vec<u32> {
        let trips = items.iter().filter_map(|item| match item {
            Item::Execute(op) => at.get(op),
            _ => None,
        });
        trips.flatten().map(|trip| block_of[trip]).collect()
    };
    let by_block: Vec<Vec<u32>> = compute.blocks.iter().map(|block| made(&block.items)).collect();
    for visit in &compute.calls {
        let call = |&block: &u32| Call { block, micro_batch: visit.micro_batch, number: 0 };
        lane.calls.extend(by_block[visit.block as usize].iter().map(call));
    }
    lane
}

fn leave(&Trip { storage, signals, .. }: &Trip<'_>, (home, host): (Place, Place)) -> Vec<Item> {
    vec![
        Item::Await { signal: signals.leaves, nth: Nth::MicroBatch, why: Why::Bubble },
        Item::Allocate(storage, host),
        Item::Copy { storage, from: home, to: host },
        Item::Free(storage, home),
        Item::Signal(signals.away),
    ]
}

fn arrive(&Trip { storage, signals, .. }: &Trip<'_>, (home, host): (Place, Place)) -> Vec<Item> {
    vec![
        Item::Await { signal: signals.asked, nth: Nth::MicroBatch, why: Why::Bubble },
        Item::Await { signal: signals.away, nth: Nth::MicroBatch, why: Why::Transfer },
        Item::Allocate(storage, home),
        Item::Copy { storage, from: host, to: home },
        Item::Free(storage, host),
        Item::Signal(signals.back),
    ]
}
