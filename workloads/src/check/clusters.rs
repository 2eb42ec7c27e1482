//! Lanes that share storages, which must hear of each other.

use std::collections::BTreeMap;

use crate::graph::{OpGraph, StorageId};
use crate::schedule::{Item, Schedule};

/// The lanes, grouped by the storages they share; each lane is in one group.
pub(super) fn clusters(schedule: &Schedule, graph: &OpGraph) -> Vec<Vec<usize>> {
    let mut group: Vec<usize> = (0..schedule.lanes.len()).collect();
    let mut user: Vec<Option<usize>> = vec![None; graph.storages().len()];
    for (index, lane) in schedule.lanes.iter().enumerate() {
        let mut use_storage = |storage: StorageId| {
            let first = *user[storage.0 as usize].get_or_insert(index);
            group[index] = group[index].min(group[first]);
        };
        for item in lane.blocks.iter().flat_map(|block| &block.items) {
            match *item {
                Item::Allocate(storage, _) | Item::Free(storage, _) | Item::Copy { storage, .. } => {
                    use_storage(storage);
                }
                Item::Depart { storage, .. } | Item::Return { storage, .. } => use_storage(storage),
                Item::Idle(storage) | Item::Recall(storage) | Item::Dismiss(storage) => use_storage(storage),
                Item::Execute(op) => {
                    graph.get(op).uses().copied().for_each(&mut use_storage);
                }
                _ => {}
            }
        }
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (lane, &group) in group.iter().enumerate() {
        members.entry(group).or_default().push(lane);
    }
    members.into_values().collect()
}
