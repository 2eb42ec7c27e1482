//! The state of all flows, and what changes it.

use super::arena::{Arena, Hop, State};
use super::component::Components;
use super::fixed_point::FixedPoint;
use super::sweep::Sweep;
use super::terms::{cap_load, share};
use super::tier::NEVER;
use crate::fixed::{RATIO_BITS, Rate};
use crate::id::{FluidId, RouteId};
use crate::platform::{Demand, Platform};

/// An activity under way. Ids of ended flows are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The position in tables kept beside the network.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The flows on the fluids of a platform, and their rates.
///
/// Any number of [`start`](Self::start), [`stop`](Self::stop), [`set_cap`](Self::set_cap) and
/// [`set_capacity`](Self::set_capacity) may happen in one instant; one [`reshare`](Self::reshare) then brings
/// all rates up to date. The rates are a function of the flows present, not of how they came.
///
/// A rate of zero is possible: behind prior demands that take the whole fluid, or where a fluid has fewer
/// quanta (2^-40 unit/ps) than activities.
#[derive(Clone, Debug)]
pub struct Network {
    arena: Arena,
    sweep: Sweep,
    components: Components,
    fixed_point: FixedPoint,
    /// Tiers whose flows or capacity changed since the last re-share.
    touched: Vec<u32>,
    /// Those of them, and pending flows, that wait until prior demands are settled.
    last_touched: Vec<u32>,
    last_pending: Vec<u32>,
    /// Fluids whose prior load or capacity may have changed.
    drained: Vec<u32>,
    /// Flows whose rate may have changed ([`super::arena::Flow::pending`]).
    pending: Vec<u32>,
    /// Unhindered flows that started or have another cap.
    unhindered: Vec<u32>,
    changed: Vec<FlowId>,
    /// Whether loads may differ from those of the last re-share, even if nothing is left to be solved.
    stirred: bool,
}

impl Network {
    /// No flow on the fluids of a platform that [`super::validate`] accepts.
    pub fn new(platform: &Platform) -> Self {
        Self {
            arena: Arena::new(platform),
            sweep: Sweep::default(),
            components: Components::default(),
            fixed_point: FixedPoint::default(),
            touched: Vec::new(),
            last_touched: Vec::new(),
            last_pending: Vec::new(),
            drained: Vec::new(),
            pending: Vec::new(),
            unhindered: Vec::new(),
            changed: Vec::new(),
            stirred: false,
        }
    }

    /// Starts a flow with these demands (as [`super::validate`] accepts them) and this rate cap.
    pub fn start(&mut self, demands: &[Demand], cap: Rate) -> FlowId {
        let path = self.arena.lay(demands, false);
        let flow = self.start_along(path, cap);
        self.arena.paths.drop_last();
        flow
    }

    /// Adds a route to those of the platform, for flows that come again and again.
    pub fn route(&mut self, demands: &[Demand]) -> RouteId {
        RouteId(self.arena.lay(demands, true))
    }

    /// Starts a flow on a route, or on none.
    #[inline]
    pub fn start_on(&mut self, route: Option<RouteId>, cap: Rate) -> FlowId {
        self.start_along(route.map_or(self.arena.paths.nowhere, |route| route.0), cap)
    }

    fn start_along(&mut self, path: u32, cap: Rate) -> FlowId {
        self.stirred = true;
        let id = self.arena.attach(path, cap);
        self.admit_crossed();
        if self.arena.flows[id as usize].state == State::Unhindered {
            self.unhindered.push(id);
        } else {
            self.arena.flows[id as usize].enter_pending(id, &mut self.pending);
            self.fix_if_unhindered(id);
            self.touch(id);
        }
        FlowId(id)
    }

    /// Ends a flow; its id may be given to the next one.
    pub fn stop(&mut self, flow: FlowId) {
        self.stirred = true;
        if self.arena.flows[flow.index()].state != State::Unhindered {
            self.touch(flow.0);
        }
        self.arena.detach(flow.0);
    }

    /// Changes the cap of a flow.
    pub fn set_cap(&mut self, flow: FlowId, cap: Rate) {
        self.stirred = true;
        let id = flow.0;
        let before = self.arena.flows[flow.index()].ceiling;
        self.arena.set_cap(id, cap);
        self.admit_crossed();
        if self.arena.flows[flow.index()].state == State::Unhindered {
            self.unhindered.push(id);
            return;
        }
        self.arena.flows[id as usize].enter_pending(id, &mut self.pending);
        let (level, ceiling) = (self.arena.flows[flow.index()].level, self.arena.flows[flow.index()].ceiling);
        let moves = ceiling < level || (level == before && level < ceiling);
        if self.arena.flows[flow.index()].state == State::Fixed && moves {
            self.arena.release(id);
            self.fix_if_unhindered(id);
        }
        self.touch(id);
    }

    /// Changes the capacity of a fluid, at most [`Rate::MAX_CAPACITY`].
    pub fn set_capacity(&mut self, fluid: FluidId, capacity: Rate) {
        let capacity = capacity.min(Rate::MAX_CAPACITY).0 << RATIO_BITS;
        let prior = self.arena.prior(fluid.index());
        self.arena.fluids[fluid.index()].capacity = capacity;
        self.arena.tiers[prior].capacity = capacity;
        self.components.forget();
        self.stirred = true;
        if !self.arena.is_idle(fluid.index()) {
            self.arena.crossed.push(fluid.0);
            self.admit_crossed();
        }
        self.touched.extend([fluid.0, prior as u32]);
        self.drained.push(fluid.0);
    }

    /// Whether something happened since the last re-share.
    pub fn is_changed(&self) -> bool {
        self.stirred
    }

    /// Brings all rates up to date, once per instant. Gives the flows whose rate changed and those that
    /// started, ascending.
    pub fn reshare(&mut self) -> &[FlowId] {
        self.changed.clear();
        self.stirred = false;
        self.arena.renew_regions();
        self.take_caps();
        if !(self.touched.is_empty() && self.pending.is_empty() && self.drained.is_empty()) {
            self.refill();
            self.put_off();
            self.solve();
            // What prior demands leave is known now.
            self.drain();
            if !(self.touched.is_empty() && self.pending.is_empty()) {
                self.solve();
            }
            self.sweep.learn(&self.arena, self.changed.len());
        }
        self.changed.sort();
        &self.changed
    }

    /// What the last [`reshare`](Self::reshare) gave.
    pub fn changed(&self) -> &[FlowId] {
        &self.changed
    }

    /// How many rounds the fixed point has taken so far for flows that are not uniform: in each of them the fluids
    /// of a component reckon their levels once.
    pub const fn rounds(&self) -> u64 {
        self.fixed_point.rounds
    }

    /// How many components the fixed point has solved so far without settling exactly. One that is met again counts
    /// once, as its solution is looked up.
    pub const fn unsettled(&self) -> u64 {
        self.fixed_point.unsettled
    }

    /// The rate of a flow as of the last re-share.
    #[inline]
    pub fn rate(&self, flow: FlowId) -> Rate {
        self.arena.flows[flow.index()].rate
    }

    /// The fluid that holds a flow back, the one with the lowest id if several do; none if it runs at its
    /// cap.
    #[inline]
    pub fn bottleneck(&self, flow: FlowId) -> Option<FluidId> {
        let state = &self.arena.flows[flow.index()];
        if state.rate == state.cap { None } else { self.tightest(flow) }
    }

    /// The fluid that holds back a flow below its cap.
    fn tightest(&self, flow: FlowId) -> Option<FluidId> {
        let arena = &self.arena;
        let state = &arena.flows[flow.index()];
        // Levels of different fluids compare only for uniform flows.
        let limit = |hop: &Hop| match (arena.tiers[hop.tier as usize].level, state.state) {
            (NEVER, _) => NEVER,
            (level, State::Apart) => share(level, arena.weight(hop), arena.terms(hop).coefficient).0,
            (level, _) => level,
        };
        let hops = arena.hops[arena.hops_of(flow.0)].iter();
        let fluids = hops.map(|hop| (limit(hop), FluidId::from(arena.fluid_of(hop.tier as usize))));
        fluids.min().map(|(_, fluid)| fluid)
    }

    /// What a fluid carries.
    pub fn load(&self, fluid: FluidId) -> Rate {
        Rate(self.arena.load(fluid.index()) >> RATIO_BITS)
    }

    /// The number of flows on a fluid.
    pub fn users(&self, fluid: FluidId) -> u32 {
        let prior = self.arena.prior(fluid.index());
        let hindered = self.arena.members[fluid.index()].len() + self.arena.members[prior].len();
        hindered as u32 + self.arena.fluids[fluid.index()].unhindered
    }

    /// Whether all flows on the demand's fluid, one more with this demand and cap, and others with a
    /// [`cap_load`] of `others` together run at their caps as far as this fluid goes.
    pub fn fits(&self, demand: &Demand, cap: Rate, others: u128) -> bool {
        let fluid = &self.arena.fluids[demand.fluid.index()];
        fluid.potential + others + cap_load(demand, cap) <= u128::from(fluid.capacity)
    }

    /// Frees the flows of fluids that are idle no longer: the solvers look at them from now on.
    #[inline]
    fn admit_crossed(&mut self) {
        while let Some(fluid) = self.arena.crossed.pop() {
            self.arena.admit_all(fluid as usize, &mut self.pending);
            self.touched.extend([fluid, self.arena.prior(fluid as usize) as u32]);
            self.drained.push(fluid);
        }
    }

    /// Gives flows that nothing hinders their caps: they need no solver.
    fn take_caps(&mut self) {
        let arena = &mut self.arena;
        for id in self.unhindered.drain(..) {
            if arena.flows[id as usize].state == State::Unhindered && arena.settle(id) {
                self.changed.push(FlowId(id));
            }
        }
    }

    /// Fixes a free flow at its ceiling if no fluid can slow it: it needs no solver.
    fn fix_if_unhindered(&mut self, id: u32) {
        if self.arena.flows[id as usize].uniform && self.arena.is_unhindered(id) {
            self.arena.fix(id, self.arena.flows[id as usize].ceiling);
        }
    }

    /// Notes the tiers whose balance a flow changes by coming, going or a new cap.
    fn touch(&mut self, id: u32) {
        let arena = &self.arena;
        let state = arena.flows[id as usize].state;
        for hop in &arena.hops[arena.hops_of(id)] {
            let tier = hop.tier as usize;
            let fluid = arena.fluid_of(tier);
            if arena.priors > 0 {
                self.drained.push(fluid as u32);
            }
            if arena.may_hinge(fluid) {
                self.touched.extend([fluid as u32, arena.prior(fluid) as u32]);
            } else if state == State::Free
                || arena.tiers[tier].level != NEVER
                || arena.regions.is_odd(fluid as u32)
            {
                self.touched.push(hop.tier);
            }
            if let Some(port) = arena.terms(hop).port {
                self.touched.extend(arena.ports[port as usize].tiers.iter().map(|(tier, _)| *tier));
            }
        }
    }

    /// Gives ordinary demands the whole of fluids where prior ones do not matter: none is there, or all
    /// demands fit.
    fn refill(&mut self) {
        let arena = &mut self.arena;
        for &fluid in &self.drained {
            let fluid = fluid as usize;
            let alone = arena.members[arena.prior(fluid)].is_empty();
            let whole = arena.fluids[fluid].capacity;
            if (alone || arena.is_idle(fluid))
                && std::mem::replace(&mut arena.tiers[fluid].capacity, whole) != whole
            {
                self.touched.push(fluid as u32);
            }
        }
    }

    /// Sets aside what waits until prior demands are settled.
    fn put_off(&mut self) {
        let arena = &self.arena;
        if arena.priors == 0 {
            return;
        }
        self.last_touched.extend(self.touched.extract_if(.., |tier| arena.is_last(*tier as usize)));
        self.last_pending.extend(self.pending.extract_if(.., |id| arena.waits(*id)));
    }

    /// Gives ordinary demands what prior ones leave, and turns to what waited for it.
    fn drain(&mut self) {
        let arena = &mut self.arena;
        self.touched.append(&mut self.last_touched);
        self.pending.append(&mut self.last_pending);
        for fluid in self.drained.drain(..) {
            if !arena.is_last(fluid as usize) {
                continue;
            }
            let load = arena.prior_load(fluid as usize);
            let rest = arena.fluids[fluid as usize].capacity.saturating_sub(load);
            if std::mem::replace(&mut arena.tiers[fluid as usize].capacity, rest) != rest {
                self.touched.push(fluid);
            }
        }
    }

    /// Solves what depends on the touched tiers and notes the rates that changed.
    fn solve(&mut self) {
        let arena = &mut self.arena;
        if self.touched.iter().any(|&tier| arena.is_odd(tier as usize)) {
            self.components.split(arena, &mut self.touched, &mut self.pending, &mut self.fixed_point);
        }
        self.sweep.run(arena, &self.touched, &mut self.pending);
        self.touched.clear();
        self.commit();
    }

    /// Notes the rates that changed.
    fn commit(&mut self) {
        let arena = &mut self.arena;
        let first = self.changed.len();
        if self.last_pending.is_empty() && self.pending.len() > arena.flows.len() / 4 {
            // Looking at all flows costs less than sorting those that changed.
            self.pending.clear();
            arena.settle_all(&mut self.changed);
        } else {
            self.changed.extend(self.pending.drain(..).filter(|&id| arena.settle(id)).map(FlowId));
        }
        if arena.priors > 0 {
            let fluids = arena.fluids.len() as u32;
            for flow in &self.changed[first..] {
                let hops = &arena.hops[arena.hops_of(flow.0)];
                self.drained.extend(hops.iter().filter_map(|hop| hop.tier.checked_sub(fluids)));
            }
        }
    }
}
