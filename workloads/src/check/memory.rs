//! A lower bound of each stage's peak: what it holds throughout and what a single block of one micro-batch needs at once.
//! Where even that does not fit no schedule can help, and nothing needs to be simulated. Nor where a host cannot hold what its ranks
//! keep there throughout.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::id::StoreId;

pub use crate::error::{FullHost, Shortfall};
use crate::graph::{OpGraph, StorageId};
use crate::names::kind;
use crate::schedule::{Item, LaneKind, Schedule, StageMemory};
use crate::site::Site;

/// The stages that cannot hold one micro-batch.
pub fn shortfalls(schedule: &Schedule, graph: &OpGraph) -> Vec<Shortfall> {
    let storages = |items: &[Item]| {
        let mut storages = BTreeSet::new();
        for item in items {
            match *item {
                Item::Allocate(storage, _) => drop(storages.insert(storage)),
                Item::Execute(op) => storages.extend(&graph.get(op).reads),
                _ => {}
            }
        }
        storages
    };
    let size = |storage: &StorageId| graph.stored(*storage).bytes;
    // Where activations can be away, only those of one operator are there for certain.
    let bytes = |items: &[Item], waits: bool| -> u64 {
        let there = if waits { BTreeSet::new() } else { there_before(graph, items) };
        most_at_once(graph, items, there, waits)
    };
    let computes = schedule.lanes.iter().filter(|lane| lane.kind == LaneKind::Compute);
    computes
        .filter_map(|lane| {
            let memory = &schedule.stages[lane.stage as usize];
            let worst = lane.blocks.iter().max_by_key(|block| bytes(&block.items, memory.waits))?;
            let needed = memory.held().saturating_add(bytes(&worst.items, memory.waits));
            let largest = storages(&worst.items).into_iter().max_by_key(size);
            let requested = largest.map_or(kind::ACTIVATIONS, |storage| graph.kind(storage));
            (needed > memory.capacity)
                .then(|| Shortfall::of((lane.stage, memory), &worst.name, needed, requested))
        })
        .collect()
}

/// The hosts that cannot hold what ranks keep there throughout.
pub fn full_hosts(stages: &[StageMemory], site: &Site) -> Vec<FullHost> {
    let mut hosts: BTreeMap<StoreId, FullHost> = BTreeMap::new();
    for (rank, of_rank) in site.ranks.iter().enumerate() {
        let of_stage = &stages[rank / site.replicas as usize];
        let memory = of_rank.host.map_or_else(Vec::new, |host| host.held(of_stage));
        let on_drives = |(kind, bytes)| Some((of_rank.drives?.store, kind, bytes));
        let drives = of_stage.on_drives.iter().copied().filter_map(on_drives);
        let mut seen = BTreeSet::new();
        for (id, kind, bytes) in memory.into_iter().chain(drives) {
            let store = &site.platform.stores[id.index()];
            let full = hosts.entry(id).or_insert_with(|| FullHost {
                memory: store.name.clone(),
                ranks: 0,
                holders: Vec::new(),
                needed: 0,
                capacity: store.capacity,
            });
            full.ranks += u32::from(seen.insert(id));
            full.needed = full.needed.saturating_add(bytes);
            match full.holders.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, all)) => *all = all.saturating_add(bytes),
                None => full.holders.push((kind, bytes)),
            }
        }
    }
    hosts.into_values().filter(|host| host.needed > host.capacity).collect()
}

/// The activations that a block finds: it reads them and has not allocated them.
fn there_before(graph: &OpGraph, items: &[Item]) -> BTreeSet<StorageId> {
    let (mut allocated, mut found) = (BTreeSet::new(), BTreeSet::new());
    for item in items {
        match *item {
            Item::Allocate(storage, _) => drop(allocated.insert(storage)),
            Item::Execute(op) => {
                found.extend(graph.get(op).reads.iter().filter(|&read| !allocated.contains(read)));
            }
            _ => {}
        }
    }
    found.retain(|&storage| graph.stored(storage).purpose.is_activation());
    found
}

/// Most bytes that a block has at once, beginning with those of `there`. What ranks exchange beside it comes and goes: that is there
/// while an operator uses it; so is everything if what is allocated `may_leave`.
fn most_at_once(graph: &OpGraph, items: &[Item], mut there: BTreeSet<StorageId>, may_leave: bool) -> u64 {
    let size = |storage: &StorageId| graph.stored(*storage).bytes;
    let stays = |storage: StorageId| {
        let purpose = graph.stored(storage).purpose;
        !may_leave && (purpose.is_activation() || purpose.is_passing())
    };
    let mut now = there.iter().map(size).fold(0, u64::saturating_add);
    let mut most = now;
    for item in items {
        let mut beside = 0;
        match *item {
            Item::Allocate(storage, _) if stays(storage) && there.insert(storage) => {
                now = now.saturating_add(size(&storage));
            }
            Item::Free(storage, _) if there.remove(&storage) => now -= size(&storage),
            Item::Execute(op) => {
                let op = graph.get(op);
                let used: BTreeSet<StorageId> = op.reads.iter().chain(&op.writes).copied().collect();
                beside = used.difference(&there).map(size).fold(0, u64::saturating_add);
            }
            _ => {}
        }
        most = most.max(now.saturating_add(beside));
    }
    most
}
