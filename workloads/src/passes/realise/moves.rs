//! Realises [`Disposition::Move`](crate::transfer::Disposition::Move): copies run on lanes of their own, one out and one back, launched by the compute lane.
//!
//! A slot of the home stage is held from before the forward pass, or from before the copy back, until the copy out has
//! ended or the backward pass has; slots are bounded, so a forward pass waits until an eviction has made room. The
//! partner must have room for what it takes: as with a framework's allocator, it runs out of memory otherwise.

use crate::error::PlanError;
use crate::graph::StorageId;
use crate::passes::{Context, Kind, Pass, Plan};
use crate::schedule::{Call, Item, Lane, LaneKind, Nth, Schedule, SignalId, Variants, Why};
use crate::transfer::{Dispositions, Move, Tier, Trip};

/// Copies to partner stages and back.
#[derive(Clone, Copy, Debug)]
pub struct Moves;

impl Pass for Moves {
    fn name(&self) -> &'static str {
        "moves"
    }

    fn kind(&self) -> Kind {
        Kind::Realiser
    }

    fn follows(&self) -> &'static [&'static str] {
        &["visits"]
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        plan.realise(|schedule, of| realise(schedule, of.table));
        Ok(())
    }
}

/// The count that belongs to a call's own trip.
const OWN: Nth = Nth::Number(0);

/// The signals between the lanes of a stage that lends storages.
#[derive(Clone, Copy)]
struct Signals {
    launch_out: SignalId,
    launch_back: SignalId,
    away: SignalId,
    back: SignalId,
}

/// Adds copy lanes and what launches and awaits them.
pub fn realise(schedule: &mut Schedule, table: &Dispositions) {
    for (&Move { from: stage, to, ref trips, bound, away }, storages) in table.moves() {
        let mut signal = |what: &str| schedule.signal(format!("{what} of stage {stage}"));
        let signals = Signals {
            launch_out: signal("launched evictions"),
            launch_back: signal("launched loads"),
            away: signal("evictions"),
            back: signal("loads"),
        };
        schedule.stages[stage as usize].resident_bound = Some(bound);
        if let Some(lane) = schedule.compute(stage) {
            launch(lane, trips, signals);
        }
        let places = (Tier::hbm(stage), Tier::hbm(to));
        schedule.lanes.push(evictions(&storages, places, trips, away, signals));
        schedule.lanes.push(loads(&storages, places, trips, signals));
    }
}

/// Makes the compute lane launch copies at the end of visits, and await loads before the visits that need them.
fn launch(lane: &mut Lane, trips: &[Trip], signals: Signals) {
    #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
    struct Edit {
        out: u32,
        back: u32,
        awaits: bool,
    }
    let mut edits = vec![Edit::default(); lane.calls.len()];
    for (number, trip) in (0u32..).zip(trips) {
        edits[trip.out_after as usize].out += 1;
        edits[trip.back_after as usize].back += 1;
        edits[trip.needed_by as usize].awaits = true;
        lane.calls[trip.needed_by as usize].number = number;
    }
    let mut variants = Variants::default();
    for (call, edit) in edits.into_iter().enumerate().filter(|(_, edit)| *edit != Edit::default()) {
        variants.apply(lane, call, edit, |items| {
            if edit.awaits {
                // After the message: only what a load delays beyond that is exposed.
                let at = items.iter().take_while(|item| matches!(item, Item::Await { .. })).count();
                let signal = signals.back;
                items.insert(at, Item::Await { signal, nth: OWN, why: Why::Transfer });
            }
            let launched = [(signals.launch_out, edit.out), (signals.launch_back, edit.back)];
            for (signal, count) in launched {
                items.extend((0..count).map(|_| Item::Signal(signal)));
            }
        });
    }
    lane.numbers = trips.len() as u32;
}

/// The lane that copies out: as long as `away` are at the partner, it waits for one to return.
fn evictions(
    storages: &[StorageId],
    (home, partner): (Tier, Tier),
    trips: &[Trip],
    away: u32,
    signals: Signals,
) -> Lane {
    let begin = [
        Item::Await { signal: signals.launch_out, nth: OWN, why: Why::Bubble },
        Item::Await { signal: signals.back, nth: Nth::Number(away), why: Why::Transfer },
    ];
    let items = trip(begin, storages, (home, partner), signals.away);
    copies(Lane::new(home.owner, LaneKind::Evict), "evict", items, trips)
}

/// The lane that copies back.
fn loads(storages: &[StorageId], (home, partner): (Tier, Tier), trips: &[Trip], signals: Signals) -> Lane {
    let begin = [
        Item::Await { signal: signals.launch_back, nth: OWN, why: Why::Bubble },
        Item::Await { signal: signals.away, nth: OWN, why: Why::Transfer },
    ];
    let items = trip(begin, storages, (partner, home), signals.back);
    copies(Lane::new(home.owner, LaneKind::Load), "load", items, trips)
}

/// A trip in one direction: all storages find room, are copied one after the other, and leave.
fn trip(begin: [Item; 2], storages: &[StorageId], (from, to): (Tier, Tier), done: SignalId) -> Vec<Item> {
    let mut items = begin.to_vec();
    items.push(Item::Enter(to));
    items.extend(storages.iter().map(|&storage| Item::Allocate(storage, to)));
    for &storage in storages {
        items.extend([Item::Copy { storage, from, to }, Item::Free(storage, from)]);
    }
    items.extend([Item::Leave(from), Item::Signal(done)]);
    items
}

fn copies(mut lane: Lane, name: &str, items: Vec<Item>, trips: &[Trip]) -> Lane {
    let block = lane.block(name, items);
    let call = |(number, trip): (u32, &Trip)| Call { block, micro_batch: trip.micro_batch, number };
    lane.calls = (0u32..).zip(trips).map(call).collect();
    lane.numbers = trips.len() as u32;
    lane
}
