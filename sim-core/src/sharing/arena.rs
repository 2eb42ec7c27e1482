//! Where flows and fluids are kept: arenas with `u32` ids, no allocation per flow in steady state.

mod admission;

use super::memo::UNSIGNED;
use super::network::FlowId;
use super::path::Paths;
use super::regions::Regions;
use super::terms::{Dictionary, Terms, share};
use super::tier::{NEVER, Tier};
use crate::fixed::{RATIO_BITS, Rate};
use crate::platform::{Demand, Platform};

/// Flows, their demands ("hops"), and the tiers they cross. Ordinary tiers come first, then prior ones, both
/// by fluid.
#[derive(Clone, Debug)]
pub(super) struct Arena {
    pub(super) tiers: Vec<Tier>,
    /// Load of each fluid if its hindered prior flows ran at their ceilings.
    prior_potentials: Vec<u128>,
    /// Hindered flows that cross each tier, in no order.
    pub(super) members: Vec<Vec<Member>>,
    pub(super) flows: Vec<Flow>,
    pub(super) hops: Vec<Hop>,
    /// What each hop adds to the potential of its tier.
    ceiling_loads: Vec<u128>,
    terms: Dictionary,
    pub(super) paths: Paths,
    /// Fluids that were idle and are not any more: their flows are unhindered no longer.
    pub(super) crossed: Vec<u32>,
    /// Users and capacity of each fluid.
    pub(super) fluids: Vec<Fluid>,
    /// What goes through each port.
    pub(super) ports: Vec<Port>,
    /// Flows that have ended, by the binary logarithm of the number of hops their slot has room for.
    vacant: [Vec<u32>; 33],
    /// Flows under way.
    pub(super) active: usize,
    /// Fluids that hindered flows connect.
    pub(super) regions: Regions,
    /// Prior demands under way.
    pub(super) priors: usize,
    /// Load of the hindered prior demands of each fluid at the current rates, 2^-54 unit/ps.
    prior_loads: Vec<u128>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) flow: u32,
    pub(super) hop: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// The level of a fixed flow; the rate of one apart.
    pub(super) level: u64,
    /// The least level above its cap.
    pub(super) ceiling: u64,
    pub(super) cap: Rate,
    /// As of the last re-share.
    pub(super) rate: Rate,
    pub(super) first_hop: u32,
    pub(super) hop_count: u32,
    path: u32,
    pub(super) state: State,
    /// Whether one level fixes its share on all its fluids.
    pub(super) uniform: bool,
    /// Whether it has the same weight in the sums of all its tiers.
    even: bool,
    /// Whether a port divides a weight of it, and by it those of others.
    ported: bool,
    /// Set if it has prior demands.
    prior: bool,
    /// Whether its rate may change in this instant.
    pub(super) pending: bool,
    /// Whether it started since the last re-share.
    pub(super) new: bool,
    /// Room for hops in its slot: two to this power.
    room: u8,
    /// What it is to the memo of solutions; [`UNSIGNED`] until it is asked for.
    pub(super) signature: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Counted in `Tier::free`: its level is being decided.
    Free,
    /// Counted in `Tier::fixed` or `Tier::group`.
    Fixed,
    /// In no sum: it belongs to a component that the fixed point solves.
    Apart,
    /// In no sum: all its fluids are idle, so that it runs at its cap and slows nobody.
    Unhindered,
    /// Ended.
    Vacant,
}

/// A demand of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) tier: u32,
    /// Position in the tier's members; in the first hop of an unhindered flow, among those of its
    /// path.
    place: u32,
    pub(super) terms: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fluid {
    /// Whole capacity in 2^-54 unit/ps.
    pub(super) capacity: u64,
    /// Load if all its flows ran at their ceilings.
    pub(super) potential: u128,
    /// Ordinary demands of hindered flows that have other demands too.
    pub(super) spanning: u32,
    /// Demands of flows that nothing hinders.
    pub(super) unhindered: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    /// Demands through it, folded ones counted by their multiplicity.
    pub(super) demands: u64,
    /// Tiers that they are on, with their number.
    pub(super) tiers: Vec<(u32, u32)>,
}

impl Arena {
    pub(super) fn new(platform: &Platform) -> Self {
        let fluids: Vec<Fluid> = platform
            .fluids
            .iter()
            .map(|f| Fluid { capacity: f.capacity.0 << RATIO_BITS, ..Fluid::default() })
            .collect();
        let mut terms = Dictionary::default();
        Self {
            tiers: fluids.iter().chain(&fluids).map(|fluid| Tier::new(fluid.capacity)).collect(),
            prior_potentials: vec![0; fluids.len()],
            members: vec![Vec::new(); 2 * fluids.len()],
            flows: Vec::new(),
            hops: Vec::new(),
            ceiling_loads: Vec::new(),
            paths: Paths::new(platform, &mut terms),
            terms,
            crossed: Vec::new(),
            ports: vec![Port::default(); platform.ports as usize],
            vacant: [const { Vec::new() }; 33],
            active: 0,
            regions: Regions::new(fluids.len()),
            priors: 0,
            prior_loads: vec![0; fluids.len()],
            fluids,
        }
    }

    /// Adds a path of these demands; what goes along it can be unhindered if it is a route's.
    pub(super) fn lay(&mut self, demands: &[Demand], is_route: bool) -> u32 {
        let path = self.paths.lay(demands, self.fluids.len() as u32, &mut self.terms);
        if is_route {
            self.paths.open(path);
        }
        path
    }

    /// Changes the cap of a flow; its level is the caller's concern.
    pub(super) fn set_cap(&mut self, id: u32, cap: Rate) {
        let flow = &mut self.flows[id as usize];
        (flow.cap, flow.signature) = (cap, UNSIGNED);
        flow.ceiling = match flow.hop_count {
            0 => cap.0.saturating_add(1),
            _ => self.terms.get(self.hops[flow.first_hop as usize].terms).ceiling(cap),
        };
        let is_hindered = flow.state != State::Unhindered;
        for hop in self.hops_of(id) {
            let Hop { tier, terms, .. } = self.hops[hop];
            let load = self.terms.get(terms).ceiling_load(cap);
            let before = std::mem::replace(&mut self.ceiling_loads[hop], load);
            let fluid = self.fluid_of(tier as usize);
            if is_hindered && fluid != tier as usize {
                self.prior_potentials[fluid] += load;
                self.prior_potentials[fluid] -= before;
            }
            self.fluids[fluid].potential -= before;
            if self.fluids[fluid].add_load(load) == Idle::NoLonger {
                self.crossed.push(fluid as u32);
            }
        }
    }

    /// Makes a flow's level undecided.
    #[inline(always)]
    pub(super) fn release(&mut self, id: u32) {
        let flow = &mut self.flows[id as usize];
        if flow.state != State::Fixed {
            return self.readmit(id);
        }
        flow.state = State::Free;
        let level = flow.level;
        self.for_each_sum(id, |tier, weight| {
            tier.unfix(weight, level);
            tier.free += weight;
        });
    }

    /// Makes the level of a flow undecided that was no sum's.
    #[cold]
    fn readmit(&mut self, id: u32) {
        self.leave_sums(id);
        self.flows[id as usize].state = State::Free;
        self.for_each_sum(id, |tier, weight| tier.free += weight);
    }

    /// Makes all levels above this one undecided, except of flows that wait for prior demands or that nothing
    /// hinders. Adds these flows to `pending`.
    pub(super) fn release_above(&mut self, level: u64, pending: &mut Vec<u32>) {
        for id in 0..self.flows.len() as u32 {
            let flow = &self.flows[id as usize];
            if flow.state != State::Fixed || flow.level <= level {
                continue;
            }
            let bound = flow.ceiling > flow.level || !self.is_unhindered(id);
            if bound && !self.waits(id) {
                self.release(id);
                self.flows[id as usize].enter_pending(id, pending);
            }
        }
    }

    /// Fixes a free flow at a level.
    #[inline]
    pub(super) fn fix(&mut self, id: u32, level: u64) {
        let flow = &mut self.flows[id as usize];
        (flow.state, flow.level) = (State::Fixed, level);
        self.for_each_sum(id, |tier, weight| {
            tier.free -= weight;
            tier.fix(weight, level);
        });
    }

    /// Takes a flow out of the sums: the fixed point decides its rate.
    pub(super) fn set_apart(&mut self, id: u32) {
        self.leave_sums(id);
        self.flows[id as usize].state = State::Apart;
        self.regions.enter_odd(self.first_fluid(id));
    }

    /// Takes a flow out of the sums of its tiers.
    fn leave_sums(&mut self, id: u32) {
        let (state, level) = (self.flows[id as usize].state, self.flows[id as usize].level);
        if state == State::Unhindered {
            return;
        }
        if state == State::Apart {
            self.regions.leave_odd(self.first_fluid(id));
        }
        self.for_each_sum(id, |tier, weight| match state {
            State::Free => tier.free -= weight,
            State::Fixed => tier.unfix(weight, level),
            // The component that its level came from is no more.
            State::Apart if tier.group == 0 => tier.level = NEVER,
            State::Apart | State::Unhindered | State::Vacant => {}
        });
    }

    /// Changes the sums of the tiers that a flow crosses, given its weight in them.
    #[inline(always)]
    fn for_each_sum(&mut self, id: u32, mut change: impl FnMut(&mut Tier, u64)) {
        let even = self.flows[id as usize].even;
        let range = self.hops_of(id);
        let Self { tiers, hops, terms, .. } = self;
        // Slices, as their bounds stay in registers while tiers are written.
        let (tiers, hops) = (tiers.as_mut_slice(), &hops[range]);
        let weight = |hop: &Hop| terms.get(hop.terms).load_weight;
        match hops.first().filter(|_| even).map(weight) {
            Some(weight) => hops.iter().for_each(|hop| change(&mut tiers[hop.tier as usize], weight)),
            None => hops.iter().for_each(|hop| change(&mut tiers[hop.tier as usize], weight(hop))),
        }
    }

    #[inline]
    pub(super) fn hops_of(&self, id: u32) -> std::ops::Range<usize> {
        let flow = &self.flows[id as usize];
        flow.first_hop as usize..(flow.first_hop + flow.hop_count) as usize
    }

    /// The prior tier of a fluid.
    #[inline]
    pub(super) fn prior(&self, fluid: usize) -> usize {
        self.fluids.len() + fluid
    }

    #[inline]
    pub(super) fn terms(&self, hop: &Hop) -> &Terms {
        self.terms.get(hop.terms)
    }

    /// Weight of one activity's demand, 2^-14; a port divides it by what goes through.
    pub(super) fn weight(&self, hop: &Hop) -> u64 {
        let Terms { weight, port, .. } = *self.terms(hop);
        let weight = u64::from(weight.0);
        port.map_or(weight, |port| (weight / self.ports[port as usize].demands).max(1))
    }

    /// Whether all flows of a tier run at their caps whatever the others do.
    #[inline]
    pub(super) fn is_slack(&self, tier: usize) -> bool {
        self.potential(tier) <= u128::from(self.tiers[tier].capacity)
    }

    /// The same, as a function of the flows alone: the capacity that prior demands leave is not looked at. Where the
    /// ordinary tier of a fluid is idle, the prior one is.
    #[inline]
    pub(super) fn is_idle(&self, tier: usize) -> bool {
        self.potential(tier) <= u128::from(self.fluids[self.fluid_of(tier)].capacity)
    }

    /// Load of a tier's fluid if all its flows ran at their ceilings; of a prior tier, if the
    /// hindered prior ones did.
    #[inline]
    fn potential(&self, tier: usize) -> u128 {
        match self.fluids.get(tier) {
            Some(fluid) => fluid.potential,
            None => self.prior_potentials[tier - self.fluids.len()],
        }
    }

    /// Whether what a fluid's prior demands leave may come back to them through the flows of its ordinary
    /// ones.
    pub(super) fn is_hinge(&self, fluid: usize) -> bool {
        self.may_hinge(fluid) && !self.is_idle(fluid)
    }

    /// Tells if a tier may need the component search.
    pub(super) fn is_odd(&self, tier: usize) -> bool {
        let fluid = self.fluid_of(tier);
        self.regions.is_odd(fluid as u32) || self.is_hinge(fluid)
    }

    /// The same, as it may be if caps are others or the fluid's capacity is.
    pub(super) fn may_hinge(&self, fluid: usize) -> bool {
        self.priors > 0 && self.fluids[fluid].spanning > 0 && !self.members[self.prior(fluid)].is_empty()
    }

    /// Whether a tier may have to do with what prior demands leave, and nothing depends on it in turn.
    pub(super) fn is_last(&self, tier: usize) -> bool {
        self.priors > 0
            && tier < self.fluids.len()
            && self.fluids[tier].spanning == 0
            && !self.members[self.prior(tier)].is_empty()
            && !self.is_idle(tier)
    }

    /// Whether a flow takes what prior demands leave.
    pub(super) fn waits(&self, id: u32) -> bool {
        self.priors > 0 && self.hops[self.hops_of(id)].iter().any(|hop| self.is_last(hop.tier as usize))
    }

    /// Whether a flow meets no fluid that could slow it.
    pub(super) fn is_unhindered(&self, id: u32) -> bool {
        self.hops[self.hops_of(id)].iter().all(|hop| self.is_slack(hop.tier as usize))
    }

    #[inline]
    pub(super) fn fluid_of(&self, tier: usize) -> usize {
        tier.checked_sub(self.fluids.len()).unwrap_or(tier)
    }

    /// Exact load of a fluid at the current rates, 2^-54 unit/ps.
    pub(super) fn load(&self, fluid: usize) -> u64 {
        let load = |flow: u32, hop: usize| {
            let Terms { coefficient, multiplicity, .. } = *self.terms(&self.hops[hop]);
            let rate = u128::from(self.flows[flow as usize].rate.0);
            u128::from(coefficient.0) * u128::from(multiplicity) * rate
        };
        let hindered: u128 = self.members[fluid].iter().map(|m| load(m.flow, m.hop as usize)).sum();
        let along = |&path: &u32| &self.paths.unhindered[path as usize];
        let on_fluid = |&hop: &usize| self.fluid_of(self.hops[hop].tier as usize) == fluid;
        let load = |&flow: &u32| self.hops_of(flow).filter(on_fluid).map(|hop| load(flow, hop)).sum::<u128>();
        let unhindered: u128 = self.paths.through[fluid].iter().flat_map(along).map(load).sum();
        u64::try_from(hindered + self.prior_loads[fluid] + unhindered).unwrap_or(u64::MAX)
    }

    /// Load of the hindered prior demands of a fluid at the current rates, 2^-54 unit/ps.
    pub(super) fn prior_load(&self, fluid: usize) -> u64 {
        u64::try_from(self.prior_loads[fluid]).unwrap_or(u64::MAX)
    }

    /// Has the prior demands of a hindered flow load their fluids at another rate.
    #[inline]
    fn carry(&mut self, id: u32, before: Rate, rate: Rate) {
        if !self.flows[id as usize].prior || before == rate {
            return;
        }
        let fluids = self.fluids.len();
        for hop in &self.hops[self.hops_of(id)] {
            if let Some(fluid) = (hop.tier as usize).checked_sub(fluids) {
                let Terms { coefficient, multiplicity, .. } = *self.terms.get(hop.terms);
                let load =
                    |rate: Rate| u128::from(coefficient.0) * u128::from(multiplicity) * u128::from(rate.0);
                self.prior_loads[fluid] = self.prior_loads[fluid] + load(rate) - load(before);
            }
        }
    }

    /// Gives a flow the rate of the last solution; whether that is news.
    #[inline(always)]
    pub(super) fn settle(&mut self, id: u32) -> bool {
        let before = self.flows[id as usize].rate;
        let changed = self.flows[id as usize].settle(&self.hops, &self.terms);
        if self.flows[id as usize].state != State::Unhindered {
            self.carry(id, before, self.flows[id as usize].rate);
        }
        changed
    }

    /// Does so for all pending flows; adds those with news to `changed`, ascending.
    pub(super) fn settle_all(&mut self, changed: &mut Vec<FlowId>) {
        for id in 0..self.flows.len() as u32 {
            if self.flows[id as usize].pending && self.settle(id) {
                changed.push(FlowId(id));
            }
        }
    }

    /// A vacant flow with room for `hops`.
    fn slot(&mut self, hops: usize) -> u32 {
        let room = hops.next_power_of_two().trailing_zeros() as u8;
        if let Some(id) = self.vacant[room as usize].pop() {
            return id;
        }
        let first_hop = self.hops.len() as u32;
        self.hops.resize(self.hops.len() + (1 << room), Hop { tier: 0, place: 0, terms: 0 });
        self.ceiling_loads.resize(self.hops.len(), 0);
        self.flows.push(Flow {
            level: 0,
            ceiling: 0,
            cap: Rate(0),
            rate: Rate(0),
            first_hop,
            hop_count: 0,
            path: 0,
            state: State::Vacant,
            uniform: true,
            even: true,
            ported: false,
            prior: false,
            pending: false,
            new: false,
            room,
            signature: UNSIGNED,
        });
        self.flows.len() as u32 - 1
    }
}

/// State of a fluid that has more load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Idle {
    Still,
    NoLonger,
    NotBefore,
}

impl Fluid {
    /// Adds to the potential.
    #[inline]
    fn add_load(&mut self, load: u128) -> Idle {
        let (before, capacity) = (self.potential, u128::from(self.capacity));
        self.potential += load;
        if self.potential <= capacity {
            Idle::Still
        } else if before <= capacity {
            Idle::NoLonger
        } else {
            Idle::NotBefore
        }
    }
}

impl Flow {
    #[inline]
    fn settle(&mut self, hops: &[Hop], terms: &Dictionary) -> bool {
        self.pending = false;
        let rate = match self.state {
            State::Vacant => return false,
            State::Apart => Rate(self.level),
            State::Unhindered => self.cap,
            State::Free | State::Fixed if self.hop_count == 0 => self.cap,
            State::Free | State::Fixed => {
                let Terms { weight, coefficient, .. } = *terms.get(hops[self.first_hop as usize].terms);
                self.cap.min(share(self.level, u64::from(weight.0), coefficient))
            }
        };
        let changed = self.new || self.rate != rate;
        (self.new, self.rate) = (false, rate);
        changed
    }

    /// Notes that its rate may change.
    #[inline]
    pub(super) fn enter_pending(&mut self, id: u32, pending: &mut Vec<u32>) {
        if !std::mem::replace(&mut self.pending, true) {
            pending.push(id);
        }
    }
}

impl Port {
    fn enter(&mut self, tier: u32, multiplicity: u32) {
        self.demands += u64::from(multiplicity);
        match self.tiers.iter_mut().find(|(t, _)| *t == tier) {
            Some((_, count)) => *count += 1,
            None => self.tiers.push((tier, 1)),
        }
    }

    fn leave(&mut self, tier: u32, multiplicity: u32) {
        self.demands -= u64::from(multiplicity);
        if let Some(at) = self.tiers.iter().position(|(t, _)| *t == tier) {
            self.tiers[at].1 -= 1;
            if self.tiers[at].1 == 0 {
                self.tiers.swap_remove(at);
            }
        }
    }
}
