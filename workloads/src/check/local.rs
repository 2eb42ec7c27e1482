//! Storages that blocks of one lane know, each for itself.
//!
//! All that happens to them in a block is between its begin and its end, in every micro-batch the
//! same. So it need not happen again when the block is executed again.

use crate::graph::{OpGraph, OpId, StorageId};
use crate::schedule::{Block, Item, Schedule};

/// Who uses a storage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    Nobody,
    /// Blocks of a lane, and whether the last of them has taken its bytes and given them back.
    Lane {
        lane: usize,
        block: usize,
        takes: bool,
        gives_back: bool,
    },
    Several,
}

/// Parts of a block that are executed again.
#[derive(Default)]
pub(super) struct Again {
    /// Items, each with its position in the block.
    pub(super) items: Vec<(usize, Item)>,
    /// Operators of which all storages are known to blocks for themselves.
    pub(super) ops: Vec<OpId>,
}

impl Again {
    /// Finds them for every block, by lane.
    pub(super) fn of(schedule: &Schedule, graph: &OpGraph, local: &[bool]) -> Vec<Vec<Self>> {
        let is_local = |storage: &StorageId| local[storage.0 as usize];
        let of_block = |block: &Block| {
            let mut again = Self::default();
            for (at, &item) in block.items.iter().enumerate() {
                match item {
                    Item::Allocate(storage, _) | Item::Free(storage, _) if is_local(&storage) => {}
                    Item::Execute(op) if graph.get(op).uses().all(is_local) => again.ops.push(op),
                    _ => again.items.push((at, item)),
                }
            }
            again
        };
        schedule.lanes.iter().map(|lane| lane.blocks.iter().map(of_block).collect()).collect()
    }
}

/// Tells by storage whether blocks of one lane know it, each for itself.
pub(super) fn local(schedule: &Schedule, graph: &OpGraph) -> Vec<bool> {
    let mut users = vec![Users::Nobody; graph.storages().len()];
    for (lane, of_lane) in schedule.lanes.iter().enumerate() {
        for (block, of_block) in of_lane.blocks.iter().enumerate() {
            for item in &of_block.items {
                note(&mut users, graph, (lane, block), item);
            }
        }
    }
    users.iter().map(|users| matches!(users, Users::Lane { takes: true, gives_back: true, .. })).collect()
}

fn note(users: &mut [Users], graph: &OpGraph, (lane, block): (usize, usize), item: &Item) {
    let mut by_block = |storage: StorageId, [takes, gives_back]: [bool; 2]| {
        let users = &mut users[storage.0 as usize];
        *users = match *users {
            Users::Nobody => Users::Lane { lane, block, takes, gives_back },
            Users::Lane { lane: other, block: of_other, takes: took, gives_back: gave }
                if (other, of_other) == (lane, block) =>
            {
                Users::Lane { lane, block, takes: took || takes, gives_back: gave || gives_back }
            }
            // The block before is done with it.
            Users::Lane { lane: other, takes: true, gives_back: true, .. } if other == lane => {
                Users::Lane { lane, block, takes, gives_back }
            }
            Users::Lane { .. } | Users::Several => Users::Several,
        };
    };
    match *item {
        Item::Execute(op) => {
            graph.get(op).uses().for_each(|&storage| by_block(storage, [false; 2]));
        }
        Item::Allocate(storage, _) => by_block(storage, [true, false]),
        Item::Free(storage, _) => by_block(storage, [false, true]),
        Item::Copy { storage, .. }
        | Item::Depart { storage, .. }
        | Item::Idle(storage)
        | Item::Recall(storage)
        | Item::Return { storage, .. }
        | Item::Dismiss(storage) => users[storage.0 as usize] = Users::Several,
        _ => {}
    }
}
