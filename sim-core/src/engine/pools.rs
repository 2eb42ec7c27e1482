//! Pools: units held across operations, and kernels that take what is free.

use std::collections::VecDeque;

use super::{Engine, Status};
use crate::id::{CauseId, PoolId};
use crate::observe::Watch;
use crate::program::{Op, Units};

/// One pool.
#[derive(Clone, Debug)]
pub(super) struct PoolState {
    pub(super) units: u32,
    pub(super) free: u32,
    /// Units that were taken by holds; kernels have the rest.
    held: u32,
    /// By (priority, arrival).
    waiters: VecDeque<Waiter>,
    /// Streams whose running kernel has units of this pool, in order of their start.
    pub(super) kernels: Vec<u32>,
    /// The stream in a segment that uses this pool: there is one only while nobody else does.
    pub(super) segment: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    priority: u8,
    stream: u32,
    want: Want,
}

/// What a stream asks of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// So many units, all of them.
    All(u32),
    /// What is free, at least one and at most so many: a kernel.
    UpTo(u32),
}

impl PoolState {
    pub(super) fn new(units: u32) -> Self {
        Self { units, free: units, held: 0, waiters: VecDeque::new(), kernels: Vec::new(), segment: None }
    }

    /// Whether nobody holds or wants anything.
    pub(super) fn is_idle(&self) -> bool {
        self.free == self.units && self.waiters.is_empty() && self.segment.is_none()
    }

    /// Who waits, first served first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiters.iter().map(|w| w.stream)
    }
}

impl<O: Watch> Engine<'_, O> {
    /// [`Op::Hold`]: true when the stream may go on at once.
    pub(super) fn hold(&mut self, s: u32, pool: usize, units: u32, priority: u8) -> bool {
        if units > self.state.pools[pool].units {
            return self.invalid(s, "holds more units than the pool has");
        }
        self.open_segment_of_pool(pool);
        if self.is_next(pool, priority) && self.state.pools[pool].free >= units {
            self.take_units(s, pool, units);
            return true;
        }
        self.state.streams[s as usize].since = self.state.now;
        self.enqueue(s, pool, Waiter { priority, stream: s, want: Want::All(units) });
        self.ask_kernels(pool);
        false
    }

    /// [`Op::Drop`]: false when more is given back than held.
    pub(super) fn give_back(&mut self, s: u32, pool: usize, units: u32) -> bool {
        let state = &mut self.state.pools[pool];
        if units > state.held {
            return self.invalid(s, "drops more units than are held");
        }
        state.free += units;
        state.held -= units;
        self.forget_units(s, pool, units);
        self.serve_pool(s, pool);
        true
    }

    fn take_units(&mut self, s: u32, pool: usize, units: u32) {
        self.state.pools[pool].free -= units;
        self.state.pools[pool].held += units;
        self.remember_units(s, pool, units);
    }

    /// A kernel asks for its units: how many it gets now, none if it has to wait.
    pub(super) fn claim(&mut self, s: u32, pool: usize, units: Units) -> Option<u32> {
        self.open_segment_of_pool(pool);
        if self.is_next(pool, units.priority) && self.state.pools[pool].free > 0 {
            return Some(self.grant_kernel(s, pool, units.want));
        }
        self.enqueue(s, pool, Waiter { priority: units.priority, stream: s, want: Want::UpTo(units.want) });
        None
    }

    /// A kernel has ended.
    pub(super) fn end_claim(&mut self, s: u32, pool: usize, held: u32) {
        self.state.pools[pool].free += held;
        self.state.pools[pool].kernels.retain(|&k| k != s);
        self.serve_pool(s, pool);
    }

    /// At the end of a wave a kernel gives units up, or takes what is free: how many it has from now on.
    pub(super) fn exchange_units(&mut self, s: u32, pool: usize, held: u32, units: Units) -> u32 {
        let state = &mut self.state.pools[pool];
        match state.waiters.front() {
            Some(&Waiter { priority, want: Want::All(wanted), .. }) if priority < units.priority => {
                let lacking = wanted.saturating_sub(state.free);
                if lacking >= held {
                    return held; // it would stop altogether; the request waits for its end
                }
                state.free += lacking;
                self.serve_pool(s, pool);
                held - lacking
            }
            Some(_) => held,
            None => {
                let more = state.free.min(units.want.saturating_sub(held));
                state.free -= more;
                held + more
            }
        }
    }

    /// Takes a halted stream out of the waiters.
    pub(super) fn stop_waiting_for_pool(&mut self, s: u32, pool: usize) {
        self.state.pools[pool].waiters.retain(|w| w.stream != s);
        self.serve_pool(s, pool);
    }

    /// Whether a request of this priority overtakes nobody.
    fn is_next(&self, pool: usize, priority: u8) -> bool {
        self.state.pools[pool].waiters.front().is_none_or(|w| priority < w.priority)
    }

    fn enqueue(&mut self, s: u32, pool: usize, waiter: Waiter) {
        let waiters = &mut self.state.pools[pool].waiters;
        let at = waiters.partition_point(|w| w.priority <= waiter.priority);
        waiters.insert(at, waiter);
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::OnPool(PoolId::from(pool));
    }

    /// Gives a kernel what is free, up to what it wants.
    pub(super) fn grant_kernel(&mut self, s: u32, pool: usize, want: u32) -> u32 {
        let state = &mut self.state.pools[pool];
        let granted = want.min(state.free);
        state.free -= granted;
        state.kernels.push(s);
        granted
    }

    /// Serves the waiters in order; what is left goes to the kernels that can use it, at the end of their wave.
    fn serve_pool(&mut self, s: u32, pool: usize) {
        while let Some(&Waiter { stream: waiter, want, .. }) = self.state.pools[pool].waiters.front() {
            match want {
                Want::All(units) if self.state.pools[pool].free >= units => {
                    self.state.pools[pool].waiters.pop_front();
                    self.take_units(waiter, pool, units);
                    let cause = self.hold_cause(waiter);
                    self.let_go(waiter, s, cause);
                }
                Want::UpTo(want) if self.state.pools[pool].free > 0 => {
                    self.state.pools[pool].waiters.pop_front();
                    let granted = self.grant_kernel(waiter, pool, want);
                    self.start_claimed(waiter, s, granted);
                }
                _ => break,
            }
        }
        self.ask_kernels(pool);
    }

    /// Marks the kernels that have to give up units, or can gain some, at the end of their wave.
    fn ask_kernels(&mut self, pool: usize) {
        if self.state.pools[pool].kernels.is_empty() {
            return;
        }
        let wanted = match self.state.pools[pool].waiters.front() {
            Some(&Waiter { priority, want: Want::All(_), .. }) => Some(priority),
            Some(_) => return,
            None if self.state.pools[pool].free > 0 => None,
            None => return,
        };
        for k in 0..self.state.pools[pool].kernels.len() {
            let kernel = self.state.pools[pool].kernels[k];
            self.stop_at_wave(kernel, wanted);
        }
    }

    fn hold_cause(&self, s: u32) -> CauseId {
        match *self.op_of(s) {
            Op::Hold { cause, .. } => cause,
            _ => CauseId(0),
        }
    }
}
