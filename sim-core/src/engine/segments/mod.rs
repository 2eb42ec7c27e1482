//! Segments: a stretch of operations of one stream that synchronises with nobody runs as one
//! timer. It is *opened*, and goes on operation by operation, when somebody contends for a resource it uses or when a
//! store it uses could make a new peak. The result is the same to the picosecond; events become proportional to
//! synchronisations.

mod plan;

use std::ops::Range;

use super::{Engine, State, Status};
use crate::fixed::Rate;
use crate::id::{KindId, RouteId};
use crate::observe::{Segment, Watch};
use crate::platform::Demand;
use crate::program::{Affine, Op};
use crate::sharing::cap_load;
use crate::time::Time;

use super::activities::{Owner, duration, fixed_work, is_pure};
pub(super) use plan::Plans;
use plan::{Act, Stretch};

/// A segment under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    /// The stretch.
    stretch: u32,
    /// Position in it of the operation the segment begins with.
    from: usize,
    /// When it began.
    start: Time,
}

impl<'a, O: Watch> Engine<'a, O> {
    /// The stretch that a stream comes to, if it is worth a segment: not where the stream can run ahead of the clock.
    pub(super) fn stretch_at(&self, s: u32, pc: u32) -> Option<u32> {
        let stream = &self.state.streams[s as usize];
        if !stream.has_segments || self.state.opened_at_once[pc as usize] {
            return None;
        }
        let id = self.inputs.plans.find(pc, stream.bound.costs?.0)?;
        let stretch = self.inputs.plans.stretch(id);
        // Who is ahead of the clock has to wait for it first, which is an event too.
        if !stretch.saves((pc - stretch.first) as usize, u32::from(self.is_ahead())) {
            return None;
        }
        let is_shared = || {
            !stretch.routes.is_empty()
                || !stretch.pools.is_empty()
                || stretch.stores.iter().any(|sum| !self.state.stores[self.slot(s, sum.slot)].is_own)
        };
        (!stream.runs_ahead || is_shared()).then_some(id)
    }

    /// Enters the segment of a stretch at the stream's operation if nobody can notice; true if so.
    pub(super) fn enter_segment(&mut self, s: u32, id: u32) -> bool {
        let stretch = self.inputs.plans.stretch(id);
        let from = (self.state.streams[s as usize].pc - stretch.first) as usize;
        let length = stretch.end().saturating_sub(stretch.begins[from]);
        let end = self.state.now.saturating_add(length);
        if length == Time::ZERO || end > Time::LAST {
            return false;
        }
        let slots = self.slots(s);
        let alone = stretch.pools.iter().all(|&(slot, units)| {
            let pool = &self.state.pools[slots[slot as usize] as usize];
            pool.units == units && pool.is_idle()
        }) && stretch.stores.iter().all(|sum| {
            let store = &self.state.stores[slots[sum.slot as usize] as usize];
            store.leaves_segment_alone(sum.most_from(from))
        }) && stretch
            .routes
            .iter()
            .all(|sum| self.fits(self.demands_on(RouteId(slots[sum.slot as usize])), sum.cap));
        // Sums are by slot: what two slots do to one store is in none of them.
        let store_of = |at: usize| slots[stretch.stores[at].slot as usize];
        let aliased =
            (1..stretch.stores.len()).any(|at| (0..at).any(|other| store_of(other) == store_of(at)));
        if !alone || aliased {
            return false;
        }
        let running = Running { stretch: id, from, start: self.state.now };
        self.register(s, running, true);
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::InSegment;
        stream.since = self.state.now;
        stream.wake = end;
        self.state.running_segments[s as usize] = Some(running);
        self.state.timers.push(end, s);
        true
    }

    /// A segment has run to its end.
    pub(super) fn finish_segment(&mut self, s: u32) {
        let Some(running) = self.leave_segment(s) else { return };
        let count = self.inputs.plans.stretch(running.stretch).acts.len();
        self.replay(s, running, count);
    }

    /// Opens a stream's segment: it stands as if it had run operation by operation.
    pub(super) fn open_segment(&mut self, s: u32) {
        let Some(running) = self.leave_segment(s) else { return };
        let Running { from, start, .. } = running;
        // Where a stream has not had its turn in this instant, what ends now is still under way.
        let elapsed = self.state.now - start;
        let still_due = elapsed > Time::ZERO && s >= self.passed;
        let stretch = self.inputs.plans.stretch(running.stretch);
        let at = stretch.begins[from].saturating_add(elapsed);
        let ended = |end: &Time| if still_due { *end < at } else { *end <= at };
        let done = stretch.begins[1..].partition_point(ended).max(from);
        if done == from {
            // Whoever contends here will do so again, as where it was let go just before.
            self.state.opened_at_once[stretch.first as usize + from] = true;
        }
        if !self.replay(s, running, done) {
            return self.go_on_in_this_round(s);
        }
        match (stretch.acts.get(done), self.op_of(s)) {
            (Some(&Act::Run { cap, .. }), &Op::Run { activity }) => {
                let since = self.state.now - (at - stretch.begins[done]);
                self.stand_in_run(s, activity, cap, since, still_due);
                if still_due && self.state.streams[s as usize].wake == self.state.now {
                    self.go_on_in_this_round(s);
                }
            }
            _ => self.go_on_in_this_round(s),
        }
    }

    /// Opens every segment, so that streams and stores show where they are.
    pub(super) fn open_all_segments(&mut self) {
        for s in 0..self.state.running_segments.len() as u32 {
            if self.state.running_segments[s as usize].is_some() {
                self.open_segment(s);
            }
        }
    }

    /// Opens the segments of a store if `bytes` more could make a new peak or find too little room.
    pub(super) fn open_segments_for_bytes(&mut self, store: usize, bytes: u64) {
        if !self.state.stores[store].segments.is_empty()
            && !self.state.stores[store].leaves_segment_alone(bytes)
        {
            self.open_segments_of_store(store);
        }
    }

    /// Opens the segments of a store if what is to be released may have been acquired inside one.
    pub(super) fn open_segments_for_release(&mut self, store: usize, bytes: u64, kind: KindId) {
        if !self.state.stores[store].segments.is_empty() && self.state.stores[store].held(kind) < bytes {
            self.open_segments_of_store(store);
        }
    }

    /// Opens the segments that use a store.
    pub(super) fn open_segments_of_store(&mut self, store: usize) {
        while let Some(&s) = self.state.stores[store].segments.first() {
            self.open_segment(s);
        }
    }

    /// Opens the segment that uses a pool.
    pub(super) fn open_segment_of_pool(&mut self, pool: usize) {
        if let Some(s) = self.state.pools[pool].segment {
            self.open_segment(s);
        }
    }

    /// Opens the segments that a new activity could slow or be slowed by.
    pub(super) fn open_segments_for_demands(&mut self, demands: &[Demand], cap: Rate) {
        if self.state.fluid_segments.is_empty() || !self.meets_segments(demands) || self.fits(demands, cap) {
            return;
        }
        for demand in demands {
            while let Some(&s) = self.state.fluid_segments[demand.fluid.index()].streams.first() {
                self.open_segment(s);
            }
        }
    }

    fn meets_segments(&self, demands: &[Demand]) -> bool {
        demands.iter().any(|demand| !self.state.fluid_segments[demand.fluid.index()].streams.is_empty())
    }

    /// Whether all activities on these fluids, those inside segments and one more with this cap, run at their caps.
    fn fits(&self, demands: &[Demand], cap: Rate) -> bool {
        demands.iter().all(|demand| {
            if self.inputs.platform.fluids[demand.fluid.index()].bucket.is_some() {
                return false;
            }
            let others = self.state.fluid_segments[demand.fluid.index()].cap_load;
            self.state.network.fits(demand, cap, others)
        })
    }

    /// Enters or removes a stream's segment in the lists of what it uses; inlined, as callers know
    /// which.
    #[inline(always)]
    fn register(&mut self, s: u32, running: Running, enter: bool) {
        let stretch = self.inputs.plans.stretch(running.stretch);
        let slots = self.slots(s);
        for &(pool, _) in &stretch.pools {
            self.state.pools[slots[pool as usize] as usize].segment = enter.then_some(s);
        }
        for sum in &stretch.stores {
            let store = &mut self.state.stores[slots[sum.slot as usize] as usize];
            toggle(&mut store.segments, s, enter);
            let most = sum.most_from(running.from);
            store.segments_max = if enter { store.segments_max + most } else { store.segments_max - most };
        }
        for sum in &stretch.routes {
            for demand in self.demands_on(RouteId(slots[sum.slot as usize])) {
                let fluid = &mut self.state.fluid_segments[demand.fluid.index()];
                toggle(&mut fluid.streams, s, enter);
                let load = cap_load(demand, sum.cap);
                fluid.cap_load = if enter { fluid.cap_load + load } else { fluid.cap_load - load };
            }
        }
    }

    fn leave_segment(&mut self, s: u32) -> Option<Running> {
        let running = self.state.running_segments.get_mut(s as usize)?.take()?;
        self.register(s, running, false);
        Some(running)
    }

    /// Applies the operations of a segment up to `to`, as if each had run alone; the stream stands at `to`, or at a release
    /// that the store does not hold enough for (false).
    fn replay(&mut self, s: u32, running: Running, wanted: usize) -> bool {
        let Running { stretch: pattern, from, .. } = running;
        let stretch = self.inputs.plans.stretch(pattern);
        let to = self.covered(s, stretch, from, wanted);
        let slots = self.slots(s);
        for sum in &stretch.kinds {
            let store = &mut self.state.stores[slots[sum.store as usize] as usize];
            store.settle(sum.kind, sum.held.before[to] - sum.held.before[from]);
        }
        for sum in &stretch.routes {
            let route = RouteId(slots[sum.slot as usize]);
            self.serve(sum.before[to] - sum.before[from], Some(route));
        }
        self.state.activities += u64::from(stretch.runs[to] - stretch.runs[from]);
        self.pay_stretch(s, stretch, from..to);
        let begin = self.state.streams[s as usize].charged;
        if O::SPANS {
            let (place, first) = (self.place(s), stretch.first as usize);
            self.observer.observer().segment(&Segment {
                place,
                pattern,
                range: from as u32..to as u32,
                begin,
                ops: &self.inputs.code.ops[first + from..first + to],
                begins: &stretch.begins[from..=to],
            });
        }
        let stream = &mut self.state.streams[s as usize];
        stream.charged = begin.saturating_add(stretch.begins[to] - stretch.begins[from]);
        stream.pc = stretch.first + to as u32;
        stream.status = Status::Ready;
        to == wanted
    }

    /// The first operation from `from` on that gives back more of a kind than its store then holds; at most `to`.
    fn covered(&self, s: u32, stretch: &Stretch, from: usize, to: usize) -> usize {
        let slots = self.slots(s);
        stretch.kinds.iter().fold(to, |to, sum| {
            let held = self.state.stores[slots[sum.store as usize] as usize].held(sum.kind);
            if sum.held.lacking_from(from) <= held {
                return to;
            }
            let before = &sum.held.before;
            let lacks = |&at: &usize| held.checked_add_signed(before[at + 1] - before[from]).is_none();
            (from..to).find(lacks).unwrap_or(to)
        })
    }

    /// Charges the time of a stretch, all at once unless the order of causes is recorded.
    fn pay_stretch(&mut self, s: u32, stretch: &Stretch, range: Range<usize>) {
        if !self.state.streams[s as usize].path.may_be_recorded(&self.state.ledger) {
            let State { streams, spent, ledger, .. } = &mut self.state;
            let (path, spent) = (&mut streams[s as usize].path, &mut spent[s as usize]);
            for sum in &stretch.causes {
                let time = sum.before[range.end] - sum.before[range.start];
                spent[sum.cause.index()] += time;
                path.charge(ledger, sum.cause, time);
            }
            return;
        }
        for at in range {
            if let Act::Run { activity, .. } = &stretch.acts[at] {
                self.pay(s, activity.cause, stretch.begins[at + 1] - stretch.begins[at]);
            }
        }
    }

    /// Puts a stream into a run that began at `since`. A latency that ends now is still under way if the stream is due.
    fn stand_in_run(&mut self, s: u32, index: Affine, cap: Rate, since: Time, still_due: bool) {
        let Some(activity) = self.begin_running(s, index) else { return };
        let stream = &mut self.state.streams[s as usize];
        stream.since = since;
        stream.charged = since;
        let pure = is_pure(activity);
        let length = if pure && activity.work > 0 {
            activity.latency.saturating_add(duration(fixed_work(activity.work), cap))
        } else {
            activity.latency
        };
        let latency_ends = since.saturating_add(length);
        if pure || latency_ends > self.state.now || (still_due && latency_ends == self.state.now) {
            stream.status = Status::Latency;
            stream.wake = latency_ends;
            self.state.timers.push(latency_ends, s);
            return;
        }
        let now = std::mem::replace(&mut self.state.now, latency_ends);
        self.charge(s, activity.cause, length);
        if let Some(units) = activity.units {
            let pool = self.slot(s, units.pool);
            let held = self.grant_kernel(s, pool, units.want);
            self.set_claim(s, pool, held, units, activity.cap);
        }
        let route = self.route(s, activity);
        let flow = self.begin_flow(Owner::Stream(s), route, cap, fixed_work(activity.work));
        self.state.now = now;
        let left = self.run_ahead(flow, cap);
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::InFlow;
        stream.flow = flow;
        stream.wake = now.saturating_add(left);
    }

    /// Has a stream that went on in this instant do so now, in its place in the order of streams.
    fn go_on_in_this_round(&mut self, s: u32) {
        let rest = &self.round[self.cursor.min(self.round.len())..];
        if let Err(at) = rest.binary_search(&s) {
            self.round.insert(self.cursor.min(self.round.len()) + at, s);
        }
    }
}

/// What segments put on a fluid.
#[derive(Clone, Debug, Default)]
pub(super) struct FluidSegments {
    /// The sum of the largest caps of the segments' activities.
    cap_load: u128,
    /// Streams in a segment that uses the fluid.
    streams: Vec<u32>,
}

fn toggle(streams: &mut Vec<u32>, s: u32, enter: bool) {
    if enter {
        streams.push(s);
    } else if streams.pop_if(|last| *last == s).is_none()
        && let Some(at) = streams.iter().position(|&x| x == s)
    {
        streams.swap_remove(at);
    }
}
