//! A lower bound of each stage's peak: what it holds throughout and what a single block of one micro-batch needs at once.
//! Where even that does not fit no schedule can help, and nothing needs to be simulated. Nor where a host cannot hold what its ranks
//! keep there throughout.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::id::StoreId;

pub use crate::error::{FullHost, Shortfall};
use crate::graph::{Op, OpGraph, StorageId};
use crate::names::kind;
use crate::schedule::{Block, Item, LaneKind, Schedule, StageMemory};
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
    let computes = schedule.lanes.iter().filter(|lane| lane.kind == LaneKind::Compute);
    computes
        .filter_map(|lane| {
            let memory = &schedule.stages[lane.stage as usize];
            let bytes = |block: &Block| {
                // Where activations can be away, only those of one operator are there for certain.
                let there = match memory.waits {
                    true => There::nothing(graph),
                    false => There::before(graph, &block.items),
                };
                there.most_at_once(&block.items, memory.waits)
            };
            let blocks = lane.blocks.iter().map(|block| (bytes(block), block));
            let (bytes, worst) = blocks.max_by_key(|&(bytes, _)| bytes)?;
            let needed = memory.held().saturating_add(bytes);
            (needed > memory.usable()).then(|| {
                let largest = storages(&worst.items).into_iter().max_by_key(|&id| graph.stored(id).bytes);
                let requested = largest.map_or(kind::ACTIVATIONS, |storage| graph.kind(storage));
                Shortfall::of((lane.stage, memory), &worst.name, needed, requested)
            })
        })
        .collect()
}

/// The hosts that cannot hold what ranks keep there throughout.
pub fn full_hosts(stages: &[StageMemory], site: &Site) -> Vec<FullHost> {
    let mut hosts: BTreeMap<StoreId, FullHost> = BTreeMap::new();
    for (rank, of_rank) in site.ranks.iter().enumerate() {
        let of_stage = &stages[rank / site.replicas as usize];
        let mut seen = BTreeSet::new();
        for (id, kind, bytes) in of_rank.held_away(of_stage) {
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

/// Storages that are there at a point of a block.
struct There<'a> {
    graph: &'a OpGraph,
    /// By storage.
    is_there: Vec<bool>,
    bytes: u64,
}

impl<'a> There<'a> {
    fn nothing(graph: &'a OpGraph) -> Self {
        Self { graph, is_there: vec![false; graph.storages().len()], bytes: 0 }
    }

    /// The activations that a block finds: it reads them and has not allocated them.
    fn before(graph: &'a OpGraph, items: &[Item]) -> Self {
        let (mut there, mut allocated) = (Self::nothing(graph), vec![false; graph.storages().len()]);
        for item in items {
            match *item {
                Item::Allocate(storage, _) => allocated[storage.0 as usize] = true,
                Item::Execute(op) => {
                    let found = graph.get(op).reads.iter().filter(|read| !allocated[read.0 as usize]);
                    for &read in found.filter(|&&read| graph.stored(read).purpose.is_activation()) {
                        there.insert(read);
                    }
                }
                _ => {}
            }
        }
        there
    }

    fn insert(&mut self, storage: StorageId) {
        if !std::mem::replace(&mut self.is_there[storage.0 as usize], true) {
            self.bytes = self.bytes.saturating_add(self.graph.stored(storage).bytes);
        }
    }

    fn remove(&mut self, storage: StorageId) {
        if std::mem::replace(&mut self.is_there[storage.0 as usize], false) {
            self.bytes -= self.graph.stored(storage).bytes;
        }
    }

    /// Most bytes that a block has at once, beginning with what is there.
    ///
    /// Tensors that ranks exchange beside it are there while an operator uses them.
    /// So is everything if what is allocated `may_leave`.
    fn most_at_once(mut self, items: &[Item], may_leave: bool) -> u64 {
        let graph = self.graph;
        let stays = |storage: StorageId| {
            let purpose = graph.stored(storage).purpose;
            !may_leave && (purpose.is_activation() || purpose.is_passing())
        };
        let mut most = self.bytes;
        for item in items {
            let mut beside = 0_u64;
            match *item {
                Item::Allocate(storage, _) if stays(storage) => self.insert(storage),
                Item::Free(storage, _) => self.remove(storage),
                Item::Execute(op) => {
                    let Op { reads, writes, .. } = graph.get(op);
                    let away = |storage: &&StorageId| !self.is_there[storage.0 as usize];
                    let mut used: Vec<StorageId> = reads.iter().chain(writes).filter(away).copied().collect();
                    used.sort_unstable();
                    used.dedup();
                    beside = used.iter().fold(0, |sum, &id| sum.saturating_add(graph.stored(id).bytes));
                }
                _ => {}
            }
            most = most.max(self.bytes.saturating_add(beside));
        }
        most
    }
}
