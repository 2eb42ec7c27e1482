//! Activities: latency, then work on a route, at a rate that sharing and held units set.

use super::{Engine, Status};
use crate::fixed::{RATE_BITS, RATIO_BITS, Rate};
use crate::id::{CauseId, FluidId, RouteId};
use crate::observe::Watch;
use crate::platform::Demand;
use crate::program::{Activity, Affine, Units};
use crate::sharing::FlowId;
use crate::time::Time;

/// Progress of the work of one activity; indexed like the flows of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) owner: Owner,
    rate: Rate,
    /// All of its work, in 2^-40 units.
    work: u128,
    /// Work left.
    remaining: u128,
    /// When `remaining` was right.
    updated: Time,
    /// Work left at which it is looked at next: 0, or the end of a wave.
    target: u128,
    /// The fluid that last held it below its cap.
    limited_by: Option<FluidId>,
}

/// Who goes on when a flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A stream.
    Stream(u32),
    /// All members of a group.
    Group(u32),
}

/// The units a stream's kernel holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) pool: u32,
    pub(super) held: u32,
    pub(super) units: Units,
}

/// Time that `work` (2^-40 units) takes at a rate, rounded up; without a rate it never ends.
pub(super) fn duration(work: u128, rate: Rate) -> Time {
    if rate.0 == 0 {
        return Time::NEVER;
    }
    match u64::try_from(work) {
        Ok(work) => Time(work.div_ceil(rate.0)).min(Time::TOO_LATE),
        Err(_) => u64::try_from(work.div_ceil(u128::from(rate.0))).map_or(Time::TOO_LATE, Time),
    }
}

/// Whether an activity takes a time that nobody can change: it needs nothing that is shared.
#[inline]
pub(super) fn is_pure(activity: &Activity) -> bool {
    activity.work == 0 || (activity.route.is_none() && activity.units.is_none())
}

/// The rate of an activity that has a fluid to itself.
fn alone_on(capacity: Rate, demand: &Demand) -> Rate {
    // The folded activities behind it are others: alone means without them.
    let own = u128::from(demand.coefficient.0);
    Rate(u64::try_from((u128::from(capacity.0) << RATIO_BITS) / own).unwrap_or(u64::MAX))
}

/// Work in the unit of [`Flow::remaining`].
pub(super) fn fixed_work(work: u64) -> u128 {
    u128::from(work) << RATE_BITS
}

impl<O: Watch> Engine<'_, O> {
    /// [`crate::program::Op::Run`]: true when the activity takes no time.
    pub(super) fn run(&mut self, s: u32, index: Affine) -> bool {
        let Some(activity) = self.begin_running(s, index) else { return false };
        let mut latency = activity.latency;
        let pure = is_pure(activity);
        if pure && activity.work > 0 {
            latency = latency.saturating_add(duration(fixed_work(activity.work), activity.cap));
        }
        latency = self.vary(s, latency);
        if latency == Time::ZERO && !pure && self.is_ahead() {
            self.wait_for_clock(s);
            return false;
        }
        let stream = &mut self.state.streams[s as usize];
        stream.since = self.state.now;
        let ends = self.state.now.saturating_add(latency);
        if pure && stream.runs_ahead && ends <= self.inputs.options.time_max {
            self.state.now = ends;
            self.finish_run(s, activity, Time::ZERO, None);
            return true;
        }
        if latency > Time::ZERO {
            stream.status = Status::Latency;
            stream.wake = ends;
            self.state.timers.push(ends, s);
            return false;
        }
        self.begin_work(s, activity)
    }

    /// The latency is over: true when the activity has ended with it.
    #[inline]
    pub(super) fn begin_work(&mut self, s: u32, activity: &Activity) -> bool {
        if is_pure(activity) {
            self.finish_run(s, activity, Time::ZERO, None);
            return true;
        }
        self.charge(s, activity.cause, self.state.now - self.state.streams[s as usize].charged);
        let mut cap = activity.cap;
        if let Some(units) = activity.units {
            let pool = self.slot(s, units.pool);
            let Some(held) = self.claim(s, pool, units) else { return false };
            cap = self.set_claim(s, pool, held, units, cap);
        }
        self.start_flow(s, activity, cap);
        false
    }

    /// A kernel that waited for its pool has been given units by stream `by`. Waiting for units counts as the kernel's
    /// own cause; its critical path is that of whoever held them.
    pub(super) fn start_claimed(&mut self, s: u32, by: u32, held: u32) {
        let activity = self.running(s);
        let Some(units) = activity.units else { return };
        let waited = self.state.now - self.state.streams[s as usize].charged;
        if waited > Time::ZERO {
            self.spend(s, activity.cause, waited);
            let account = self.path_of(by);
            self.take_over(s, account);
        }
        let pool = self.slot(s, units.pool);
        let cap = self.set_claim(s, pool, held, units, activity.cap);
        self.start_flow(s, activity, cap);
    }

    /// A stream's flow is due: true when its activity has ended, false at the end of a wave.
    pub(super) fn flow_due(&mut self, s: u32) -> bool {
        let activity = self.running(s);
        let flow = self.state.streams[s as usize].flow;
        if self.state.flows[flow as usize].target > 0 {
            self.advance(flow);
            self.state.flows[flow as usize].target = 0;
            self.exchange_at_wave(s, activity, flow);
            return false;
        }
        let route = self.route(s, activity);
        let limited_by = self.end_flow(flow, activity.work, route);
        let lost = limited_by.map_or(Time::ZERO, |_| {
            let elapsed = self.state.now - self.state.streams[s as usize].charged;
            self.lost(flow, route, self.capped(s, activity), elapsed)
        });
        let claim = self.state.streams[s as usize].claim.take();
        self.finish_run(s, activity, lost, limited_by);
        if let Some(claim) = claim {
            self.end_claim(s, claim.pool as usize, claim.held);
        }
        true
    }

    /// Ends a flow: the fluid that limited it last.
    pub(super) fn end_flow(&mut self, flow: u32, work: u64, route: Option<RouteId>) -> Option<FluidId> {
        self.state.network.stop(FlowId(flow));
        self.serve(work, route);
        self.state.flows[flow as usize].limited_by
    }

    /// The time that a flow which took `elapsed` has lost to contention.
    pub(super) fn lost(&self, flow: u32, route: Option<RouteId>, cap: Rate, elapsed: Time) -> Time {
        let demands = route.map_or(&[][..], |route| self.demands_on(route)).iter();
        let alone = demands
            .map(|d| alone_on(self.inputs.platform.fluids[d.fluid.index()].capacity, d))
            .fold(cap, Rate::min);
        elapsed.saturating_sub(duration(self.state.flows[flow as usize].work, alone))
    }

    /// Counts what an activity carried along its route.
    #[inline]
    pub(super) fn serve(&mut self, work: u64, route: Option<RouteId>) {
        if let Some(route) = route {
            self.state.served[route.index()] += u128::from(work);
        }
    }

    /// Starts the work of a stream's activity.
    fn start_flow(&mut self, s: u32, activity: &Activity, cap: Rate) {
        let work = self.vary_work(s, activity.work);
        let flow = self.begin_flow(Owner::Stream(s), self.route(s, activity), cap, work);
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::InFlow;
        stream.flow = flow;
    }

    /// Puts work on a route; its rate is known at the end of the instant.
    pub(super) fn begin_flow(&mut self, owner: Owner, route: Option<RouteId>, cap: Rate, work: u128) -> u32 {
        if let Some(route) = route {
            self.open_segments_for_demands(self.demands_on(route), cap);
        }
        let flow = self.state.network.start_on(route, cap).0;
        let state = Flow {
            owner,
            rate: Rate(0),
            work,
            remaining: work,
            updated: self.state.now,
            target: 0,
            limited_by: None,
        };
        if self.state.flows.len() <= flow as usize {
            self.state.flows.resize(flow as usize + 1, state);
        }
        self.state.flows[flow as usize] = state;
        flow
    }

    /// Takes the new rates of the instant.
    pub(super) fn reshare(&mut self) {
        self.state.network.reshare();
        for index in 0..self.state.network.changed().len() {
            let flow = self.state.network.changed()[index];
            self.advance(flow.0);
            let state = &mut self.state.flows[flow.index()];
            state.rate = self.state.network.rate(flow);
            if let Some(fluid) = self.state.network.bottleneck(flow) {
                state.limited_by = Some(fluid);
            }
            let left = duration(state.remaining.saturating_sub(state.target), state.rate);
            self.state.finishes.set(flow.0, self.state.now.saturating_add(left));
        }
        if O::CURVES {
            self.observe_fluids();
        }
        self.update_buckets();
    }

    fn observe_fluids(&mut self) {
        for (fluid, latest) in &mut self.observed_loads {
            let load = self.state.network.load(*fluid);
            if std::mem::replace(latest, load) != load {
                self.observer.observer().fluid(self.state.now, *fluid, load);
            }
        }
    }

    /// Ends a run: charges it and moves to the next operation.
    #[inline]
    pub(super) fn finish_run(
        &mut self,
        s: u32,
        activity: &Activity,
        lost: Time,
        limited_by: Option<FluidId>,
    ) {
        self.state.activities += 1;
        let own = self.state.now - self.state.streams[s as usize].charged - lost;
        self.charge(s, activity.cause, own);
        if lost > Time::ZERO {
            let cause = limited_by.map_or(activity.cause, |f| self.inputs.platform.fluids[f.index()].cause);
            self.charge(s, cause, lost);
        }
        self.go_on(s, self.state.streams[s as usize].since);
    }

    /// Drops what a halted stream has running; its time so far counts as the activity's cause.
    pub(super) fn drop_run(&mut self, s: u32) {
        let activity = self.running(s);
        self.drop_flow(self.state.streams[s as usize].flow, self.route(s, activity));
        if let Some(claim) = self.state.streams[s as usize].claim.take() {
            self.end_claim(s, claim.pool as usize, claim.held);
        }
    }

    /// Takes a flow off its route; the fluids have carried what it has moved so far.
    pub(super) fn drop_flow(&mut self, flow: u32, route: Option<RouteId>) {
        self.advance(flow);
        let Flow { work, remaining, .. } = self.state.flows[flow as usize];
        self.serve(((work - remaining) >> RATE_BITS) as u64, route);
        self.state.network.stop(FlowId(flow));
        self.state.finishes.remove(flow);
    }

    /// Has a kernel looked at when its current wave ends: always if somebody of a `wanted` priority above its own asks
    /// for units, else if it can use more than it has.
    pub(super) fn stop_at_wave(&mut self, s: u32, wanted: Option<u8>) {
        let Some(Claim { held, units, .. }) = self.state.streams[s as usize].claim else { return };
        let asked = wanted.map_or(held < units.want, |priority| priority < units.priority);
        if !asked || self.state.streams[s as usize].status != Status::InFlow {
            return;
        }
        let activity = self.running(s);
        let waves = self.inputs.program.caps[units.table.index()].row(held).map_or(1, |row| row.waves.max(1));
        let wave = fixed_work(activity.work).div_ceil(u128::from(waves)).max(1);
        let flow = self.state.streams[s as usize].flow;
        self.advance(flow);
        let state = &mut self.state.flows[flow as usize];
        if state.remaining <= state.target {
            return; // due in this instant: its stream goes on by itself
        }
        state.target = (state.remaining - 1) / wave * wave;
        if state.rate.0 > 0 {
            let left = duration(state.remaining - state.target, state.rate);
            self.state.finishes.set(flow, self.state.now.saturating_add(left));
        }
    }

    fn exchange_at_wave(&mut self, s: u32, activity: &Activity, flow: u32) {
        let Some(Claim { pool, held, units }) = self.state.streams[s as usize].claim else { return };
        let now_held = self.exchange_units(s, pool as usize, held, units);
        let cap = self.set_claim(s, pool as usize, now_held, units, activity.cap);
        self.state.network.set_cap(FlowId(flow), cap);
        let state = &self.state.flows[flow as usize];
        let left = duration(state.remaining, state.rate);
        self.state.finishes.set(flow, self.state.now.saturating_add(left));
    }

    /// Notes the units a kernel holds; gives its cap with them.
    pub(super) fn set_claim(&mut self, s: u32, pool: usize, held: u32, units: Units, cap: Rate) -> Rate {
        self.state.streams[s as usize].claim = Some(Claim { pool: pool as u32, held, units });
        self.inputs.program.caps[units.table.index()].cap(held).min(cap)
    }

    /// Lets a flow that has been running at `rate` since its start catch up with now; gives the time it has left.
    pub(super) fn run_ahead(&mut self, flow: u32, rate: Rate) -> Time {
        self.state.flows[flow as usize].rate = rate;
        self.advance(flow);
        duration(self.state.flows[flow as usize].remaining, rate)
    }

    fn advance(&mut self, flow: u32) {
        let state = &mut self.state.flows[flow as usize];
        let elapsed = self.state.now - state.updated;
        state.remaining = state.remaining.saturating_sub(u128::from(state.rate.0) * u128::from(elapsed.0));
        state.updated = self.state.now;
    }

    /// The cap of an activity when it has all the units it wants.
    pub(super) fn capped(&self, s: u32, activity: &Activity) -> Rate {
        activity.units.map_or(activity.cap, |units| {
            let pool = self.slot(s, units.pool);
            let most = units.want.min(self.state.pools[pool].units);
            self.inputs.program.caps[units.table.index()].cap(most).min(activity.cap)
        })
    }

    /// Charges a duration to a stream: to what it spent and to its critical path.
    #[inline]
    pub(super) fn charge(&mut self, s: u32, cause: CauseId, duration: Time) {
        self.pay(s, cause, duration);
        self.state.streams[s as usize].charged = self.state.now;
    }

    /// Charges a duration to a stream, whose caller knows up to when that is.
    #[inline]
    pub(super) fn pay(&mut self, s: u32, cause: CauseId, duration: Time) {
        self.spend(s, cause, duration);
        let stream = &mut self.state.streams[s as usize];
        stream.path.charge(&mut self.state.ledger, cause, duration);
    }
}
