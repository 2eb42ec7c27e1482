//! Stores: bytes held by kind, high-water marks, and the streams that wait for room.

use std::collections::VecDeque;

use super::{Engine, Status};
use crate::id::{CauseId, KindId, StoreId};
use crate::observe::Watch;
use crate::outcome::{End, OutOfMemory, Peak, Place, StoreUse};
use crate::program::{Op, Shortage};
use crate::time::Time;

/// One store.
#[derive(Clone, Debug)]
pub(super) struct StoreState {
    capacity: u64,
    /// Bytes held.
    pub(super) used: u64,
    by_kind: Vec<u64>,
    peak: Peak,
    /// By (priority, arrival).
    waiters: VecDeque<Waiter>,
    /// Sum over the running segments of the most they can add to `used` at any moment.
    pub(super) segments_max: u64,
    /// Streams in a segment that touches this store.
    pub(super) segments: Vec<u32>,
    /// Whether only one stream uses it.
    pub(super) is_own: bool,
    /// Whether it is noted who holds what, for the moment at which a stream is halted.
    pub(super) notes_holders: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    priority: u8,
    stream: u32,
    bytes: u64,
    reclaim: bool,
}

/// An acquire with its operands resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) store: usize,
    pub(super) bytes: u64,
    pub(super) kind: KindId,
    pub(super) shortage: Shortage,
    pub(super) priority: u8,
}

impl StoreState {
    pub(super) fn new(capacity: u64, kinds: usize, is_own: bool, notes_holders: bool) -> Self {
        Self {
            capacity,
            used: 0,
            by_kind: vec![0; kinds],
            peak: Peak { bytes: 0, at: Time::ZERO, place: None, by_kind: vec![0; kinds] },
            waiters: VecDeque::new(),
            segments_max: 0,
            segments: Vec::new(),
            is_own,
            notes_holders,
        }
    }

    /// Bytes held from the start.
    pub(super) fn hold_from_start(&mut self, kind: KindId, bytes: u64) {
        self.used += bytes;
        self.by_kind[kind.index()] += bytes;
        self.peak = Peak { bytes: self.used, at: Time::ZERO, place: None, by_kind: self.by_kind.clone() };
    }

    /// Whether a segment that adds at most `more` at any moment can make neither a new peak nor a shortage, serves nobody
    /// who waits, and is nobody's to note.
    pub(super) fn leaves_segment_alone(&self, more: u64) -> bool {
        let at_most = self.used.checked_add(self.segments_max).and_then(|sum| sum.checked_add(more));
        !self.notes_holders && self.waiters.is_empty() && at_most.is_some_and(|sum| sum <= self.peak.bytes)
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.capacity - self.used >= bytes
    }

    /// Bytes held of a kind.
    pub(super) fn held(&self, kind: KindId) -> u64 {
        self.by_kind[kind.index()]
    }

    /// Applies what a segment changed; it gave back no more than was held.
    pub(super) fn settle(&mut self, kind: KindId, change: i64) {
        self.by_kind[kind.index()] = self.by_kind[kind.index()].wrapping_add_signed(change);
        self.used = self.used.wrapping_add_signed(change);
    }

    /// Who waits for room, first served first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiters.iter().map(|w| w.stream)
    }

    pub(super) fn into_use(self) -> StoreUse {
        StoreUse { peak: self.peak, held: self.by_kind }
    }
}

impl<O: Watch> Engine<'_, O> {
    /// [`Op::Acquire`]: true when the stream may go on at once.
    pub(super) fn acquire(&mut self, s: u32, request: Request) -> bool {
        let Request { store, bytes, priority, .. } = request;
        self.open_segments_for_bytes(store, bytes);
        let state = &self.state.stores[store];
        let fits = state.has_room(bytes);
        if bytes > state.capacity || (!fits && request.shortage == Shortage::Fail) {
            self.state.end = Some(self.out_of_memory(s, store, bytes));
            return false;
        }
        let first = state.waiters.front().is_none_or(|w| priority < w.priority);
        if fits && (first || request.shortage == Shortage::Fail) {
            self.take(s, request);
            return true;
        }
        self.open_segments_of_store(store);
        let reclaim = request.shortage == Shortage::Reclaim;
        let waiters = &mut self.state.stores[store].waiters;
        let at = waiters.partition_point(|w| w.priority <= priority);
        waiters.insert(at, Waiter { priority, stream: s, bytes, reclaim });
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::OnStore;
        stream.since = self.state.now;
        if reclaim {
            self.reclaim(s, store);
        }
        false
    }

    /// [`Op::Release`]: false when more is given back than held.
    pub(super) fn release(&mut self, s: u32, store: usize, bytes: u64, kind: KindId) -> bool {
        self.open_segments_for_release(store, bytes, kind);
        let state = &mut self.state.stores[store];
        if state.by_kind[kind.index()] < bytes {
            return self.invalid(s, "gives back more bytes of a kind than the store holds");
        }
        state.used -= bytes;
        state.by_kind[kind.index()] -= bytes;
        let held = state.by_kind[kind.index()];
        if O::CURVES {
            self.observer.observer().store(self.state.now, StoreId::from(store), kind, held);
        }
        self.forget_bytes(s, store, bytes, kind);
        if !self.state.stores[store].waiters.is_empty() {
            self.serve_store(s, store);
        }
        true
    }

    /// Takes a halted stream out of the waiters of the store it waits for.
    pub(super) fn stop_waiting_for_store(&mut self, s: u32, store: usize) {
        self.state.stores[store].waiters.retain(|w| w.stream != s);
        self.serve_store(s, store);
    }

    /// Bytes that those who reclaim still lack beyond what is free.
    pub(super) fn reclaim_shortage(&self, store: usize) -> u64 {
        let state = &self.state.stores[store];
        let wanted = state.waiters.iter().fold(0, |sum: u64, w| sum.saturating_add(w.bytes));
        let reclaiming = state.waiters.iter().any(|w| w.reclaim);
        if reclaiming { wanted.saturating_sub(state.capacity - state.used) } else { 0 }
    }

    /// Lets go, in order, whoever now has room; `s` gave the room.
    fn serve_store(&mut self, s: u32, store: usize) {
        while let Some(&Waiter { stream: waiter, bytes, .. }) = self.state.stores[store].waiters.front() {
            if !self.state.stores[store].has_room(bytes) {
                break;
            }
            self.state.stores[store].waiters.pop_front();
            let Some((request, cause)) = self.request_of(waiter) else { return };
            self.take(waiter, request);
            self.let_go(waiter, s, cause);
        }
    }

    /// The acquire a stream stands at, and the cause of waiting for it.
    fn request_of(&self, s: u32) -> Option<(Request, CauseId)> {
        let Op::Acquire { store, bytes, kind, shortage, priority, cause } = *self.op_of(s) else {
            return None;
        };
        let bytes = self.find_size(s, bytes)?;
        Some((Request { store: self.slot(s, store), bytes, kind, shortage, priority }, cause))
    }

    #[inline]
    fn take(&mut self, s: u32, Request { store, bytes, kind, .. }: Request) {
        let now = self.state.now;
        let state = &mut self.state.stores[store];
        state.used += bytes;
        let held = &mut state.by_kind[kind.index()];
        *held += bytes;
        if O::CURVES {
            self.observer.observer().store(now, StoreId::from(store), kind, *held);
        }
        if state.used > state.peak.bytes {
            state.peak.bytes = state.used;
            state.peak.at = now;
            state.peak.by_kind.copy_from_slice(&state.by_kind);
            let place = self.place(s);
            self.state.stores[store].peak.place = Some(place);
        }
        self.remember_bytes(s, store, bytes, kind);
    }

    fn out_of_memory(&mut self, s: u32, store: usize, requested: u64) -> End {
        self.open_segments_of_store(store);
        let state = &self.state.stores[store];
        let mut holders: Vec<(KindId, u64)> = state
            .by_kind
            .iter()
            .enumerate()
            .filter(|(_, held)| **held > 0)
            .map(|(kind, held)| (KindId::from(kind), *held))
            .collect();
        holders.sort_by_key(|&(kind, held)| (std::cmp::Reverse(held), kind));
        End::OutOfMemory(OutOfMemory {
            place: self.place(s),
            store: StoreId::from(store),
            requested,
            capacity: state.capacity,
            holders,
        })
    }

    /// The operation a stream stands at.
    pub(super) fn place(&self, s: u32) -> Place {
        let stream = &self.state.streams[s as usize];
        Place {
            stream: crate::id::StreamId(s),
            block: crate::id::BlockId(stream.block),
            op: stream.pc - self.inputs.code.first_op[stream.block as usize],
            args: stream.args,
        }
    }
}
