//! The lowering of storages that depart and return: how far each micro-batch's has come is the state of a cell, as a lane that copies and
//! one that computes may come first.

use std::collections::BTreeMap;

use sim_core::id::{BranchId, CellId};
use sim_core::program::{Affine, CellRef, Op, Program};

use super::lane::LaneLowering;
use super::objects::Object;
use crate::graph::StorageId;
use crate::names::cause;
use crate::schedule::{Item, Schedule};
use crate::transfer::Tier;

/// States of a storage that departs. From [`AWAY`] on it can be had: by a copy back, or because it stays.
mod state {
    /// The forward pass uses it, and its copy out has not begun.
    pub(super) const USED: u8 = 0;
    /// The forward pass uses it no more.
    pub(super) const IDLE: u8 = 1;
    /// It is used while it is copied out.
    pub(super) const USED_COPYING: u8 = 2;
    /// It is copied out, and used no more.
    pub(super) const IDLE_COPYING: u8 = 3;
    /// It is copied, but still used.
    pub(super) const COPIED: u8 = 4;
    /// It is copied, and its bytes are given back.
    pub(super) const AWAY: u8 = 5;
    /// It is there for the backward pass.
    pub(super) const HERE: u8 = 6;
    /// It is there for the backward pass, and still copied out for nothing.
    pub(super) const HERE_COPYING: u8 = 7;
    /// The backward pass uses it no more, but it is still copied out.
    pub(super) const DONE_COPYING: u8 = 8;
    /// How many there are.
    pub(super) const COUNT: usize = 9;
}
use state::{AWAY, COPIED, DONE_COPYING, HERE, HERE_COPYING, IDLE, IDLE_COPYING, USED, USED_COPYING};

/// The cells of storages that depart, one for each replica and micro-batch of all steps, and the branches over their states.
#[derive(Debug, Default)]
pub(super) struct Trips {
    first: BTreeMap<StorageId, CellId>,
    /// Micro-batches of all steps.
    span: u32,
    branches: BTreeMap<Vec<u32>, BranchId>,
}

impl Trips {
    /// Cells for the storages that depart in any of the schedules.
    pub(super) fn of(schedules: &[Schedule], replicas: u32, steps: u32, program: &mut Program) -> Self {
        let span = schedules[0].micro_batches * steps;
        let lanes = schedules.iter().flat_map(|schedule| &schedule.lanes);
        let mut first = BTreeMap::new();
        for item in lanes.flat_map(|lane| &lane.blocks).flat_map(|block| &block.items) {
            if let Item::Depart { storage, .. } = *item {
                first.entry(storage).or_insert_with(|| program.cells(replicas * span));
            }
        }
        Self { first, span, branches: BTreeMap::new() }
    }

    /// The first cell of a storage for a replica.
    pub(super) fn cell(&self, storage: u32, replica: u32) -> u32 {
        self.first[&StorageId(storage)].0 + replica * self.span
    }

    fn branch(&mut self, program: &mut Program, targets: Vec<u32>) -> BranchId {
        *self.branches.entry(targets).or_insert_with_key(|targets| program.branch(targets.iter().copied()))
    }
}

/// What is done in a state.
type Arm = (u8, Vec<Op>);

impl LaneLowering<'_> {
    /// Copies a storage out, unless it has been recalled: then nothing begins. Where buffers are few it may be recalled while it waits
    /// for one.
    pub(super) fn depart(&mut self, storage: StorageId, to: Tier, ops: &mut Vec<Op>) {
        let (home, cell) = (self.home(storage), self.course(storage));
        let set = |state| Op::Set { cell, state };
        let (buffer, copy) = (self.allocate(storage, to), self.copy(storage, home, to));
        let [free, forget] = [home, to].map(|place| self.release(storage, place));
        let waits = self.waits_for_buffer(to);
        if waits {
            ops.push(buffer);
            self.switch(cell, [(HERE, vec![forget])], ops);
        }
        self.switch(cell, [(USED, vec![set(USED_COPYING)]), (IDLE, vec![set(IDLE_COPYING)])], ops);
        let copied = if waits { vec![copy] } else { vec![buffer, copy] };
        self.switch(cell, [USED_COPYING, IDLE_COPYING].map(|state| (state, copied.clone())), ops);
        let ended = [
            (USED_COPYING, vec![set(COPIED)]),
            (IDLE_COPYING, vec![free, set(AWAY)]),
            (HERE_COPYING, vec![forget, set(HERE)]),
            (DONE_COPYING, vec![forget, free]),
        ];
        self.switch(cell, ended, ops);
    }

    /// The forward pass is done with it.
    pub(super) fn idle(&mut self, storage: StorageId, ops: &mut Vec<Op>) {
        let (home, cell) = (self.home(storage), self.course(storage));
        let set = |state| Op::Set { cell, state };
        let free = self.release(storage, home);
        let arms = [
            (USED, vec![set(IDLE)]),
            (USED_COPYING, vec![set(IDLE_COPYING)]),
            (COPIED, vec![free, set(AWAY)]),
        ];
        self.switch(cell, arms, ops);
    }

    /// It stays, unless it is away.
    pub(super) fn recall(&mut self, storage: StorageId, ops: &mut Vec<Op>) {
        let cell = self.course(storage);
        let set = |state| vec![Op::Set { cell, state }];
        self.switch(cell, [(IDLE, set(HERE)), (IDLE_COPYING, set(HERE_COPYING))], ops);
    }

    /// Copies it back, if it is away.
    pub(super) fn restore(&mut self, storage: StorageId, from: Tier, ops: &mut Vec<Op>) {
        let (home, cell) = (self.home(storage), self.course(storage));
        ops.push(Op::Await { cell, state: AWAY, cause: self.program.cause(cause::TRANSFER) });
        let copied = vec![
            self.allocate(storage, home),
            self.copy(storage, from, home),
            self.release(storage, from),
            Op::Set { cell, state: HERE },
        ];
        self.switch(cell, [(AWAY, copied)], ops);
    }

    /// The backward pass is done with it.
    pub(super) fn dismiss(&mut self, storage: StorageId, ops: &mut Vec<Op>) {
        let (home, cell) = (self.home(storage), self.course(storage));
        let free = self.release(storage, home);
        let still = vec![Op::Set { cell, state: DONE_COPYING }];
        self.switch(cell, [(HERE, vec![free]), (HERE_COPYING, still)], ops);
    }

    fn home(&self, storage: StorageId) -> Tier {
        Tier::hbm(self.graph.stored(storage).stage)
    }

    /// The cell of a storage for the micro-batch of the call.
    fn course(&mut self, storage: StorageId) -> CellRef {
        CellRef { slot: self.slot(Object::Course(storage.0)), index: Affine::offset(0, 0) }
    }

    /// Does what is to be done in the state that a cell is in: nothing if none of the arms is for it.
    fn switch(&mut self, cell: CellRef, arms: impl IntoIterator<Item = Arm>, ops: &mut Vec<Op>) {
        let arms: Vec<Arm> = arms.into_iter().collect();
        let first = ops.len() as u32 + 1;
        // Each arm but the last ends with a branch to the end.
        let end = arms.iter().map(|(_, arm)| arm.len() as u32 + 1).sum::<u32>() + first - 1;
        let (mut targets, mut at) = (vec![end; state::COUNT], first);
        for (state, arm) in &arms {
            targets[*state as usize] = at;
            at += arm.len() as u32 + 1;
        }
        let mut branch = |targets| Op::Branch { cell, targets: self.trips.branch(self.program, targets) };
        ops.push(branch(targets));
        for (_, arm) in arms {
            ops.extend(arm);
            if ops.len() as u32 != end {
                ops.push(branch(vec![end]));
            }
        }
    }
}
