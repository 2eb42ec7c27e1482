//! Halting a stream: what it has pending is dropped, what it holds is given back, and it resumes at a call.

use super::{Engine, Status};
use crate::id::{CauseId, KindId};
use crate::observe::Watch;
use crate::program::{Body, Op};

impl<O: Watch> Engine<'_, O> {
    /// [`Op::Halt`] of stream `target` by stream `s`.
    pub(super) fn halt(&mut self, s: u32, target: u32, call: u32) {
        let Body::Role(_) = self.program.streams[target as usize].body else { return };
        if target == s || self.streams[target as usize].status == Status::Done {
            return;
        }
        if self.streams[target as usize].status == Status::InSegment {
            self.open_segment(s, target);
        }
        // One that is ready has ended its operation; the next one has not begun, if there is one.
        if self.streams[target as usize].status != Status::Ready {
            self.drop_pending(target);
            let elapsed = self.now - self.streams[target as usize].charged;
            self.spend(target, self.cause_at(target), elapsed);
        }
        let path = self.path_of(s);
        self.take_over(target, path);
        self.give_everything_back(target);
        self.streams[target as usize].call = call;
        self.streams[target as usize].left = 0;
        self.streams[target as usize].pc = self.streams[target as usize].end;
        self.streams[target as usize].status = Status::Ready;
        if !self.round[self.cursor..].contains(&target) && !self.next_round.contains(&target) {
            self.next_round.push(target);
        }
    }

    fn drop_pending(&mut self, target: u32) {
        match (self.streams[target as usize].status, *self.op_of(target)) {
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
        let holdings = self.holdings[target as usize].clone();
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
            Op::Run { .. } => self.running(s).map_or(CauseId(0), |a| a.cause),
            _ => CauseId(0),
        }
    }

    /// Notes units a stream holds, in programs that halt streams.
    pub(super) fn remember_units(&mut self, s: u32, pool: usize, units: u32) {
        if self.holdings.is_empty() {
            return;
        }
        let held = &mut self.holdings[s as usize].units;
        match held.iter_mut().find(|(p, _)| *p as usize == pool) {
            Some((_, n)) => *n += units,
            None => held.push((pool as u32, units)),
        }
    }

    /// Notes units given back by stream `s`: its own, then those it was handed by the others in order.
    pub(super) fn forget_units(&mut self, s: u32, pool: usize, units: u32) {
        let mut left = units;
        for holder in holders(s, self.holdings.len()) {
            let held = &mut self.holdings[holder].units;
            if let Some((_, n)) = held.iter_mut().find(|(p, _)| *p as usize == pool) {
                left -= take_from(n, left);
                held.retain(|&(_, n)| n > 0);
            }
            if left == 0 {
                return;
            }
        }
    }

    /// Notes bytes a stream has acquired.
    pub(super) fn remember_bytes(&mut self, s: u32, store: usize, bytes: u64, kind: KindId) {
        if self.holdings.is_empty() {
            return;
        }
        let held = &mut self.holdings[s as usize].bytes;
        match held.iter_mut().find(|(p, k, _)| *p as usize == store && *k == kind) {
            Some((_, _, n)) => *n += bytes,
            None => held.push((store as u32, kind, bytes)),
        }
    }

    /// Notes bytes released by stream `s`: its own, then those it was handed by the others in order.
    pub(super) fn forget_bytes(&mut self, s: u32, store: usize, bytes: u64, kind: KindId) {
        let mut left = bytes;
        for holder in holders(s, self.holdings.len()) {
            let held = &mut self.holdings[holder].bytes;
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
