//! Room for what comes back: the operator of a backward pass from which on a storage that is away
//! may take memory again, so that nobody waits for ever.
//!
//! Storages come back in the order in which they are needed, and what has come keeps its memory
//! until its last use. So one that comes before operator `e` has room in time if, at every operator
//! from `e` to its last use,
//!
//! ```text
//! what is there without it + what came before it and is still used + its own bytes <= room of the
//! stage
//! ```
//!
//! A storage that leaves counts as gone after its last use of the forward pass: its copy out waits
//! for nobody who waits for memory. Nor do sums of gradients: what they read counts as gone when they
//! are launched. Gathers of parameters count from their launch, those of a host from the begin of their
//! visit.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{OpGraph, OpId, StorageId};
use crate::schedule::{Item, Lane, LaneKind, Schedule, SignalId};
use crate::transfer::{Asked, Dispositions, Stay};

use super::launches::launched;
use super::transfers::Moments;

/// By storage that every micro-batch has elsewhere, the operator before which it may come back at
/// the earliest: that at which a GPU asks, or a later one with room for it; the one that needs it
/// where there is room for nothing ahead.
pub(super) fn room(
    schedule: &Schedule,
    graph: &OpGraph,
    table: &Dispositions,
    compute: &Lane,
    moments: &Moments,
) -> BTreeMap<StorageId, OpId> {
    let stays: BTreeMap<StorageId, Stay> = table
        .offloads()
        .filter(|(_, transfer, _)| transfer.from.owner == compute.stage)
        .map(|(storage, _, &stay)| (storage, stay))
        .collect();
    if stays.is_empty() {
        return BTreeMap::new();
    }
    let room = schedule.stages[compute.stage as usize].room();
    let gathers = launched(schedule, compute.stage, LaneKind::Gather);
    let mut gone: BTreeMap<OpId, u64> = BTreeMap::new();
    for (&storage, stay) in &stays {
        *gone.entry(stay.freed_after).or_default() += graph.stored(storage).bytes;
    }
    let gathered = gathers.values().flat_map(|(op, _)| graph.get(*op).writes.iter().copied()).collect();
    let summed = summed(schedule, graph, compute.stage);
    let mut found: BTreeMap<StorageId, (usize, OpId)> = BTreeMap::new();
    let mut there = There { graph, stays: &stays, gone, gathers, gathered, summed, bytes: 0 };
    for call in &compute.calls {
        let items = &compute.blocks[call.block as usize].items;
        let visit = there.visit(items, moments);
        for (storage, earliest, op) in visit.earliest(graph, &stays, room) {
            let known = found.entry(storage).or_insert((earliest, op));
            *known = (*known).max((earliest, op));
        }
    }
    found.into_iter().map(|(storage, (_, op))| (storage, op)).collect()
}

/// By signal that launches sums of gradients of a stage, bytes that these give back.
fn summed(schedule: &Schedule, graph: &OpGraph, stage: u32) -> BTreeMap<SignalId, u64> {
    let lanes = schedule.lanes.iter().filter(|lane| lane.stage == stage && lane.kind == LaneKind::Reduce);
    let mut summed = BTreeMap::new();
    for block in lanes.flat_map(|lane| &lane.blocks) {
        let mut launched = None;
        let mut of_block: BTreeMap<SignalId, u64> = BTreeMap::new();
        for item in &block.items {
            match *item {
                Item::Await { signal, .. } => launched = Some(signal),
                Item::Free(storage, _) => {
                    if let Some(signal) = launched {
                        *of_block.entry(signal).or_default() += graph.stored(storage).bytes;
                    }
                }
                _ => {}
            }
        }
        // Variants of a block do the same.
        summed.extend(of_block);
    }
    summed
}

/// Memory of a stage as its compute lane goes on, without what comes back.
struct There<'a> {
    graph: &'a OpGraph,
    stays: &'a BTreeMap<StorageId, Stay>,
    /// By operator of the forward pass, bytes that leave after it.
    gone: BTreeMap<OpId, u64>,
    /// By signal, the gather that it launches, and whether its lane takes the memory.
    gathers: BTreeMap<SignalId, (OpId, bool)>,
    /// Storages that gathers fill.
    gathered: BTreeSet<StorageId>,
    /// By signal that launches a sum, bytes that are given back behind it.
    summed: BTreeMap<SignalId, u64>,
    bytes: u64,
}

/// A visit of the compute lane.
#[derive(Default)]
struct Visit {
    /// Its operators, as they begin.
    ops: Vec<OpId>,
    /// Most bytes while each is executed, with what it fills.
    most: Vec<u64>,
    /// Number of the last operator before each storage is given back.
    given_back: BTreeMap<StorageId, usize>,
}

impl There<'_> {
    /// Executes the items of a visit.
    fn visit(&mut self, items: &[Item], moments: &Moments) -> Visit {
        let mut visit = Visit::default();
        // A host that runs ahead may have taken them when the visit begins.
        let by_host = items.iter().map(|item| match item {
            Item::Allocate(storage, _) if self.gathered.contains(storage) => self.size(*storage),
            _ => 0,
        });
        self.bytes += by_host.sum::<u64>();
        for item in items {
            if let Some(op) = moments.begins(item) {
                visit.ops.push(op);
                visit.most.push(self.bytes);
            }
            match *item {
                Item::Allocate(storage, _) if !self.gathered.contains(&storage) => {
                    self.bytes += self.size(storage);
                }
                Item::Signal(signal) | Item::SignalStep(signal) => {
                    if let Some(&(op, true)) = self.gathers.get(&signal) {
                        let filled = self.graph.get(op).writes.iter();
                        self.bytes += filled.map(|&storage| self.size(storage)).sum::<u64>();
                        if let Some(most) = visit.most.last_mut() {
                            *most = (*most).max(self.bytes);
                        }
                    }
                    let summed = self.summed.get(&signal).copied().unwrap_or(0);
                    self.bytes = self.bytes.saturating_sub(summed);
                }
                Item::Free(storage, _) => match self.stays.contains_key(&storage) {
                    true => drop(visit.given_back.insert(storage, visit.ops.len().saturating_sub(1))),
                    false => self.bytes = self.bytes.saturating_sub(self.size(storage)),
                },
                _ => {}
            }
            if let Some(gone) = moments.ends(item).and_then(|op| self.gone.get(&op)) {
                self.bytes = self.bytes.saturating_sub(*gone);
            }
        }
        visit
    }

    fn size(&self, storage: StorageId) -> u64 {
        self.graph.stored(storage).bytes
    }
}

impl Visit {
    /// Storages that the visit needs back, with the number and the operator from which on there is room.
    fn earliest(
        mut self,
        graph: &OpGraph,
        stays: &BTreeMap<StorageId, Stay>,
        room: u64,
    ) -> Vec<(StorageId, usize, OpId)> {
        let number: BTreeMap<OpId, usize> = self.ops.iter().copied().zip(0..).collect();
        let needed =
            stays.iter().filter_map(|(&storage, stay)| Some((*number.get(&stay.needed_by)?, storage)));
        let mut needed: Vec<(usize, StorageId)> = needed.collect();
        needed.sort_unstable();
        let mut found = Vec::with_capacity(needed.len());
        for (at, storage) in needed {
            let bytes = graph.stored(storage).bytes;
            let last = self.given_back.get(&storage).map_or(self.most.len(), |last| last + 1).max(at + 1);
            let fits = |most: &u64| most.saturating_add(bytes) <= room;
            let first = match stays[&storage].asked {
                Asked::Before(op) => number.get(&op).map_or(0, |&first| first.min(at)),
                Asked::Issued(_) => 0,
            };
            let ahead = match self.most[at..last].iter().all(fits) {
                true => self.most[first..at].iter().rev().take_while(|most| fits(most)).count(),
                false => 0,
            };
            self.most[at - ahead..last].iter_mut().for_each(|most| *most = most.saturating_add(bytes));
            found.push((storage, at - ahead, self.ops[at - ahead]));
        }
        found
    }
}
