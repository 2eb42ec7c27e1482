//! Storages that one block alone knows: all that happens to them is between its begin and its end, in every micro-batch the same.

use crate::graph::{OpGraph, StorageId};
use crate::schedule::{Item, Schedule};

/// Who uses a storage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    Nobody,
    /// A block of a lane, and whether it has taken its bytes and given them back.
    Block {
        lane: usize,
        block: usize,
        takes: bool,
        gives_back: bool,
    },
    Several,
}

/// Whether one block alone knows it, by storage.
pub(super) fn local(schedule: &Schedule, graph: &OpGraph) -> Vec<bool> {
    let mut users = vec![Users::Nobody; graph.storages().len()];
    for (lane, of_lane) in schedule.lanes.iter().enumerate() {
        for (block, of_block) in of_lane.blocks.iter().enumerate() {
            for item in &of_block.items {
                note(&mut users, graph, (lane, block), item);
            }
        }
    }
    users.iter().map(|users| matches!(users, Users::Block { takes: true, gives_back: true, .. })).collect()
}

fn note(users: &mut [Users], graph: &OpGraph, (lane, block): (usize, usize), item: &Item) {
    let mut by_block = |storage: StorageId, [takes, gives_back]: [bool; 2]| {
        let users = &mut users[storage.0 as usize];
        *users = match *users {
            Users::Nobody => Users::Block { lane, block, takes, gives_back },
            Users::Block { lane: other, block: of_other, takes: took, gives_back: gave }
                if (other, of_other) == (lane, block) =>
            {
                Users::Block { lane, block, takes: took || takes, gives_back: gave || gives_back }
            }
            Users::Block { .. } | Users::Several => Users::Several,
        };
    };
    match *item {
        Item::Execute(op) => {
            let op = graph.get(op);
            op.reads.iter().chain(&op.writes).for_each(|&storage| by_block(storage, [false; 2]));
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
