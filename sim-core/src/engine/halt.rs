//! Halting a stream: what it has pending is dropped, what it holds is given back, and it resumes at a call.

use super::code::{Code, with_posted};
use super::{Engine, Status};
use crate::id::{BindingId, BlockId, CauseId, KindId};
use crate::observe::Watch;
use crate::platform::Platform;
use crate::program::{Body, Op, Program, Slot};

/// Streams that may be halted, and the stores whose bytes they may have to give back. They go by the clock, operation by
/// operation; everybody else may have segments and run ahead.
#[derive(Debug)]
pub(super) struct Halts {
    /// Per stream.
    pub(super) targets: Vec<bool>,
    /// Per store.
    pub(super) stores: Vec<bool>,
}

impl Halts {
    pub(super) fn new(platform: &Platform, program: &Program, code: &Code) -> Self {
        let mut halts =
            Self { targets: vec![false; program.streams.len()], stores: vec![false; platform.stores.len()] };
        if code.ops.iter().any(|op| matches!(op, Op::Halt { .. })) {
            halts.find_targets(program, code);
            halts.find_stores(program, code);
        }
        halts
    }

    fn find_targets(&mut self, program: &Program, code: &Code) {
        let halted = |op: &Op| if let Op::Halt { stream, .. } = *op { Some(stream) } else { None };
        let mut mark = |slots: &[Slot], binding: BindingId| {
            let objects = &program.bindings[binding.index()].slots;
            slots.iter().for_each(|&slot| self.targets[objects[slot as usize] as usize] = true);
        };
        let by_role: Vec<_> = code.executed.iter().map(|blocks| slots_in(program, blocks, halted)).collect();
        for stream in &program.streams {
            if let Body::Role(role) = stream.body {
                mark(&by_role[role.index()], stream.binding);
            }
        }
        for candidate in program.reclaim.iter().flat_map(|table| &table.candidates) {
            let blocks = with_posted(program, candidate.block);
            mark(&slots_in(program, &blocks, halted), candidate.binding);
        }
    }

    fn find_stores(&mut self, program: &Program, code: &Code) {
        let acquired = |op: &Op| if let Op::Acquire { store, .. } = *op { Some(store) } else { None };
        for (stream, _) in program.streams.iter().zip(&self.targets).filter(|&(_, &target)| target) {
            let Body::Role(role) = stream.body else { continue };
            let objects = &program.bindings[stream.binding.index()].slots;
            for slot in slots_in(program, &code.executed[role.index()], acquired) {
                self.stores[objects[slot as usize] as usize] = true;
            }
        }
    }
}

/// The slots that a choice of operations in these blocks uses.
fn slots_in(program: &Program, blocks: &[BlockId], slot: impl Fn(&Op) -> Option<Slot>) -> Vec<Slot> {
    let ops = blocks.iter().flat_map(|block| &program.blocks[block.index()].ops);
    let mut slots: Vec<Slot> = ops.filter_map(slot).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

impl<O: Watch> Engine<'_, O> {
    /// [`Op::Halt`] of stream `target` by stream `s`.
    pub(super) fn halt(&mut self, s: u32, target: u32, call: u32) {
        if target == s || self.state.streams[target as usize].status == Status::Done {
            return;
        }
        // One that is ready has ended its operation; the next one has not begun, if there is one.
        if self.state.streams[target as usize].status != Status::Ready {
            self.drop_pending(target);
            let elapsed = self.state.now - self.state.streams[target as usize].charged;
            self.spend(target, self.cause_at(target), elapsed);
        }
        let path = self.path_of(s);
        self.take_over(target, path);
        self.give_everything_back(target);
        self.state.streams[target as usize].call = call;
        self.state.streams[target as usize].left = 0;
        self.state.streams[target as usize].pc = self.state.streams[target as usize].end;
        self.state.streams[target as usize].status = Status::Ready;
        if !self.round[self.cursor..].contains(&target) && !self.next_round.contains(&target) {
            self.next_round.push(target);
        }
    }

    fn drop_pending(&mut self, target: u32) {
        match (self.state.streams[target as usize].status, *self.op_of(target)) {
            (Status::InFlow, _) => self.drop_run(target),
            (Status::OnCounter, _) => self.stop_waiting(target),
            (Status::OnPool(pool), _) => self.stop_waiting_for_pool(target, pool.index()),
            (Status::OnStore, Op::Acquire { store, .. }) => {
                let store = self.slot(target, store);
                self.stop_waiting_for_store(target, store);
            }
            (Status::OnCell, Op::Await { cell, .. }) => {
                if let Some(cell) = self.cell(target, cell) {
                    self.stop_awaiting(target, cell);
                }
            }
            (Status::InGroup, Op::Join { group, .. }) => {
                let group = self.slot(target, group);
                self.leave_group(target, group);
            }
            _ => {}
        }
    }

    fn give_everything_back(&mut self, target: u32) {
        let holdings = self.state.holdings[target as usize].clone();
        for (pool, units) in holdings.units {
            self.give_back(target, pool as usize, units);
        }
        for (store, kind, bytes) in holdings.bytes {
            self.release(target, store as usize, bytes, kind);
        }
    }

    /// What a stream's present operation counts its time as.
    pub(super) fn cause_at(&self, s: u32) -> CauseId {
        match *self.op_of(s) {
            Op::Wait { cause, .. }
            | Op::Acquire { cause, .. }
            | Op::Hold { cause, .. }
            | Op::Join { cause, .. }
            | Op::Await { cause, .. } => cause,
            Op::Run { activity } => {
                let found = self.find_activity(s, activity);
                found.map_or(CauseId(0), |at| self.inputs.code.activities[at as usize].cause)
            }
            _ => CauseId(0),
        }
    }

    /// Notes units a stream holds, in programs that halt streams.
    pub(super) fn remember_units(&mut self, s: u32, pool: usize, units: u32) {
        if self.state.holdings.is_empty() {
            return;
        }
        let held = &mut self.state.holdings[s as usize].units;
        match held.iter_mut().find(|(p, _)| *p as usize == pool) {
            Some((_, n)) => *n += units,
            None => held.push((pool as u32, units)),
        }
    }

    /// Notes units given back by stream `s`: its own, then those it was handed by the others in order.
    pub(super) fn forget_units(&mut self, s: u32, pool: usize, units: u32) {
        let mut left = units;
        for holder in holders(s, self.state.holdings.len()) {
            let held = &mut self.state.holdings[holder].units;
            if let Some((_, n)) = held.iter_mut().find(|(p, _)| *p as usize == pool) {
                left -= take_from(n, left);
                held.retain(|&(_, n)| n > 0);
            }
            if left == 0 {
                return;
            }
        }
    }

    /// Notes bytes a stream has acquired of a store whose bytes a halted stream may have to give back.
    pub(super) fn remember_bytes(&mut self, s: u32, store: usize, bytes: u64, kind: KindId) {
        if !self.state.stores[store].notes_holders {
            return;
        }
        let held = &mut self.state.holdings[s as usize].bytes;
        match held.iter_mut().find(|(p, k, _)| *p as usize == store && *k == kind) {
            Some((_, _, n)) => *n += bytes,
            None => held.push((store as u32, kind, bytes)),
        }
    }

    /// Notes bytes released by stream `s`: its own, then those it was handed by the others in order.
    pub(super) fn forget_bytes(&mut self, s: u32, store: usize, bytes: u64, kind: KindId) {
        if !self.state.stores[store].notes_holders {
            return;
        }
        let mut left = bytes;
        for holder in holders(s, self.state.holdings.len()) {
            let held = &mut self.state.holdings[holder].bytes;
            if let Some((_, _, n)) = held.iter_mut().find(|(p, k, _)| *p as usize == store && *k == kind) {
                left -= take_from(n, left);
                held.retain(|&(_, _, n)| n > 0);
            }
            if left == 0 {
                return;
            }
        }
    }
}

/// Stream `s`, then the others.
fn holders(s: u32, streams: usize) -> impl Iterator<Item = usize> {
    let own = s as usize;
    std::iter::once(own).filter(move |&o| o < streams).chain((0..streams).filter(move |&o| o != own))
}

/// Takes up to `wanted` from an amount; gives what it took.
fn take_from<T: Copy + Ord + std::ops::SubAssign>(amount: &mut T, wanted: T) -> T {
    let taken = wanted.min(*amount);
    *amount -= taken;
    taken
}
