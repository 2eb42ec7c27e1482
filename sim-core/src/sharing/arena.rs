//! Where flows and fluids are kept: arenas with `u32` ids, no allocation per flow in steady state.

use crate::fixed::{RATIO_BITS, Rate, Ratio};
use crate::platform::{Demand, Platform};

/// Flows, their demands ("hops"), and the tiers they cross. Ordinary tiers come first, then prior ones, both by fluid.
#[derive(Clone, Debug)]
pub(super) struct Arena {
    pub(super) tiers: Vec<Tier>,
    /// Who crosses each tier, in no order.
    pub(super) members: Vec<Vec<Member>>,
    pub(super) flows: Vec<Flow>,
    pub(super) hops: Vec<Hop>,
    /// Users and capacity of each fluid.
    pub(super) fluids: Vec<Fluid>,
    /// What goes through each port.
    pub(super) ports: Vec<Port>,
    /// Flows that have ended, by the binary logarithm of the number of hops their slot has room for.
    vacant: [Vec<u32>; 33],
    /// Flows under way.
    pub(super) active: usize,
    /// Those among them whose level is being decided.
    pub(super) undecided: usize,
    /// Those among them that are not uniform.
    pub(super) irregular: usize,
    /// Those whose rate the fixed point decided.
    pub(super) apart: usize,
    /// Prior demands under way.
    pub(super) priors: usize,
}

/// One tier of a fluid. Loads are in 2^-54 unit/ps, levels in 2^-40.
#[derive(Clone, Debug)]
pub(super) struct Tier {
    /// What its flows may load it with.
    pub(super) capacity: u64,
    /// Load of fixed flows whose level is not the tier's.
    pub(super) fixed: u64,
    /// Weight of fixed flows at the tier's level.
    pub(super) group: u64,
    /// Weight of free flows.
    pub(super) free: u64,
    /// Where it overflows; [`NEVER`] if it does not. Finite only while flows are fixed there.
    pub(super) level: u64,
    /// The lowest level at which it waits in the sweep's queue; [`NEVER`] if it does not.
    pub(super) queued: u64,
    /// Load if all flows of this tier (and the prior ones of its fluid) ran at their ceilings.
    pub(super) potential: u128,
}

/// A level that is not reached.
pub(super) const NEVER: u64 = u64::MAX;

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
    pub(super) state: State,
    /// Whether one level fixes its share on all its fluids.
    pub(super) uniform: bool,
    /// Whether its rate may change in this instant.
    pub(super) pending: bool,
    /// Whether it started since the last re-share.
    pub(super) new: bool,
    /// Room for hops in its slot: two to this power.
    room: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Counted in `Tier::free`: its level is being decided.
    Free,
    /// Counted in `Tier::fixed` or `Tier::group`.
    Fixed,
    /// In no sum: it belongs to a component that the fixed point solves.
    Apart,
    /// Ended.
    Vacant,
}

/// A demand of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) tier: u32,
    /// Position in the tier's members.
    place: u32,
    pub(super) coefficient: Ratio,
    pub(super) weight: Ratio,
    pub(super) multiplicity: u32,
    /// Port, or [`NO_PORT`].
    pub(super) port: u32,
}

pub(super) const NO_PORT: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct Fluid {
    /// Whole capacity in 2^-54 unit/ps.
    pub(super) capacity: u64,
    /// Ordinary demands of flows that have other demands too.
    pub(super) spanning: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    /// Demands through it, folded ones counted by their multiplicity.
    pub(super) demands: u64,
    /// Tiers that they are on, with their number.
    pub(super) tiers: Vec<(u32, u32)>,
}

/// The largest weight times multiplicity of one demand, 2^-14.
const WEIGHT_MAX: u64 = 1 << 40;

/// Checks what sharing relies on: every demand names a fluid and a port of the platform, at most one demand per fluid and
/// route, positive numbers, capacities of at most [`Rate::MAX_CAPACITY`], and weight times multiplicity of at most 2^26.
///
/// # Errors
/// What is wrong and how to mend it, for every fluid and route concerned.
pub fn validate(platform: &Platform) -> Result<(), Vec<String>> {
    let mut wrong = Vec::new();
    for fluid in &platform.fluids {
        let burst = fluid.bucket.map_or(fluid.capacity, |bucket| bucket.burst);
        for capacity in [fluid.capacity, burst] {
            if capacity.0 == 0 || capacity > Rate::MAX_CAPACITY {
                wrong.push(format!(
                    "fluid `{}` has a capacity of {:e} units/s: give one above 0 and up to 1e15, or choose a larger unit",
                    fluid.name,
                    capacity.units_per_second()
                ));
                break;
            }
        }
    }
    for (index, route) in platform.routes.iter().enumerate() {
        let mut fluids: Vec<u32> = route.demands.iter().map(|demand| demand.fluid.0).collect();
        fluids.sort_unstable();
        if fluids.windows(2).any(|pair| pair[0] == pair[1]) {
            wrong.push(format!("route {index} demands one fluid twice: add the coefficients in one demand"));
        }
        wrong.extend(
            route.demands.iter().filter_map(|d| fault(platform, d)).map(|why| format!("route {index} {why}")),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

fn fault(platform: &Platform, demand: &Demand) -> Option<String> {
    let fluids = platform.fluids.len();
    if demand.fluid.index() >= fluids {
        return Some(format!("demands fluid {}: the platform has {fluids}", demand.fluid.0));
    }
    if let Some(port) = demand.port.filter(|port| port.0 >= platform.ports) {
        return Some(format!("goes through port {}: the platform has {}", port.0, platform.ports));
    }
    if demand.coefficient.0 == 0 || weight(demand) == 0 {
        return Some("has a coefficient, weight or multiplicity of zero: leave the demand out".to_owned());
    }
    (weight(demand) > WEIGHT_MAX)
        .then(|| "has a weight times multiplicity above 2^26: scale the weights of its fluid down".to_owned())
}

fn weight(demand: &Demand) -> u64 {
    u64::from(demand.weight.0) * u64::from(demand.multiplicity)
}

/// The load (2^-54 unit/ps) that an activity with this cap puts on the fluid at most. While the sum over the activities of
/// a fluid stays within its capacity, none of them is slowed by it.
pub fn cap_load(demand: &Demand, cap: Rate) -> u128 {
    u128::from(weight(demand)) * u128::from(ceiling(cap, demand.coefficient, demand.weight))
}

/// The least level at which a demand is above the rate `cap`: ⌈cap a / v⌉ + 1.
fn ceiling(cap: Rate, coefficient: Ratio, weight: Ratio) -> u64 {
    if coefficient == weight {
        return cap.0.saturating_add(1);
    }
    let level = (u128::from(cap.0) * u128::from(coefficient.0)).div_ceil(u128::from(weight.0)) + 1;
    u64::try_from(level).unwrap_or(u64::MAX)
}

impl Arena {
    pub(super) fn new(platform: &Platform) -> Self {
        let fluids: Vec<Fluid> = platform
            .fluids
            .iter()
            .map(|f| Fluid { capacity: f.capacity.0 << RATIO_BITS, spanning: 0 })
            .collect();
        let tiers = fluids.iter().chain(&fluids).map(|fluid| Tier {
            capacity: fluid.capacity,
            fixed: 0,
            group: 0,
            free: 0,
            level: NEVER,
            queued: NEVER,
            potential: 0,
        });
        Self {
            tiers: tiers.collect(),
            members: vec![Vec::new(); 2 * fluids.len()],
            flows: Vec::new(),
            hops: Vec::new(),
            ports: vec![Port::default(); platform.ports as usize],
            vacant: [const { Vec::new() }; 33],
            active: 0,
            undecided: 0,
            irregular: 0,
            apart: 0,
            priors: 0,
            fluids,
        }
    }

    /// Adds a free flow.
    pub(super) fn attach(&mut self, demands: &[Demand], cap: Rate) -> u32 {
        let id = self.slot(demands.len());
        let first_hop = self.flows[id as usize].first_hop;
        for (hop, demand) in (first_hop..).zip(demands) {
            let tier = demand.fluid.0 + if demand.prior { self.fluids.len() as u32 } else { 0 };
            self.hops[hop as usize] = Hop {
                tier,
                place: self.members[tier as usize].len() as u32,
                coefficient: demand.coefficient,
                weight: demand.weight,
                multiplicity: demand.multiplicity,
                port: demand.port.map_or(NO_PORT, |port| port.0),
            };
            self.members[tier as usize].push(Member { flow: id, hop });
            self.tiers[tier as usize].free += weight(demand);
            self.fluids[demand.fluid.index()].spanning += u32::from(!demand.prior && demands.len() > 1);
            self.priors += usize::from(demand.prior);
            if let Some(port) = demand.port {
                self.ports[port.index()].enter(tier, demand.multiplicity);
            }
        }
        let flow = &mut self.flows[id as usize];
        (flow.state, flow.new, flow.hop_count) = (State::Free, true, demands.len() as u32);
        flow.uniform = is_uniform(demands);
        self.irregular += usize::from(!flow.uniform);
        self.active += 1;
        self.undecided += 1;
        self.assign_cap(id, cap);
        id
    }

    /// Removes a flow from every sum and list.
    pub(super) fn detach(&mut self, id: u32) {
        self.add_potential(id, false);
        self.leave_sums(id);
        for hop in self.hops_of(id) {
            let Hop { tier, place, port, multiplicity, .. } = self.hops[hop];
            let members = &mut self.members[tier as usize];
            members.swap_remove(place as usize);
            if let Some(moved) = members.get(place as usize) {
                self.hops[moved.hop as usize].place = place;
            }
            if (tier as usize) < self.fluids.len() && self.flows[id as usize].hop_count > 1 {
                self.fluids[tier as usize].spanning -= 1;
            }
            self.priors -= usize::from(tier as usize >= self.fluids.len());
            if port != NO_PORT {
                self.ports[port as usize].leave(tier, multiplicity);
            }
        }
        let flow = &mut self.flows[id as usize];
        flow.state = State::Vacant;
        self.irregular -= usize::from(!flow.uniform);
        self.vacant[flow.room as usize].push(id);
        self.active -= 1;
    }

    /// Changes the cap of a flow; its level is the caller's concern.
    pub(super) fn set_cap(&mut self, id: u32, cap: Rate) {
        self.add_potential(id, false);
        self.assign_cap(id, cap);
    }

    fn assign_cap(&mut self, id: u32, cap: Rate) {
        let flow = &mut self.flows[id as usize];
        flow.cap = cap;
        flow.ceiling = match flow.hop_count {
            0 => cap.0.saturating_add(1),
            _ => self.hops[flow.first_hop as usize].ceiling(cap),
        };
        self.add_potential(id, true);
    }

    /// Makes a flow's level undecided.
    #[inline]
    pub(super) fn release(&mut self, id: u32) {
        let Flow { state, level, .. } = self.flows[id as usize];
        if state != State::Fixed {
            self.leave_sums(id);
        }
        self.flows[id as usize].state = State::Free;
        self.undecided += 1;
        for hop in &self.hops[self.hops_of(id)] {
            let tier = &mut self.tiers[hop.tier as usize];
            let weight = hop.load_weight();
            if state == State::Fixed {
                tier.unfix(weight, level);
            }
            tier.free += weight;
        }
    }

    /// Makes all levels above this one undecided, except of flows that wait for prior demands or that nothing hinders.
    /// Replaces `released` by these flows.
    pub(super) fn release_above(&mut self, level: u64, released: &mut Vec<u32>) {
        released.clear();
        for id in 0..self.flows.len() as u32 {
            let flow = &self.flows[id as usize];
            if flow.state != State::Fixed || flow.level <= level {
                continue;
            }
            let bound = flow.ceiling > flow.level || !self.is_unhindered(id);
            if bound && !self.waits(id) {
                self.release(id);
                released.push(id);
            }
        }
    }

    /// Fixes a free flow at a level.
    #[inline]
    pub(super) fn fix(&mut self, id: u32, level: u64) {
        let flow = &mut self.flows[id as usize];
        (flow.state, flow.level) = (State::Fixed, level);
        self.undecided -= 1;
        for hop in &self.hops[self.hops_of(id)] {
            let tier = &mut self.tiers[hop.tier as usize];
            tier.free -= hop.load_weight();
            tier.fix(hop.load_weight(), level);
        }
    }

    /// Takes a flow out of the sums: the fixed point decides its rate.
    pub(super) fn set_apart(&mut self, id: u32) {
        self.leave_sums(id);
        self.flows[id as usize].state = State::Apart;
        self.apart += 1;
    }

    /// Takes a flow out of the sums of its tiers.
    fn leave_sums(&mut self, id: u32) {
        let (state, level) = (self.flows[id as usize].state, self.flows[id as usize].level);
        self.apart -= usize::from(state == State::Apart);
        self.undecided -= usize::from(state == State::Free);
        for hop in &self.hops[self.hops_of(id)] {
            let tier = &mut self.tiers[hop.tier as usize];
            match state {
                State::Free => tier.free -= hop.load_weight(),
                State::Fixed => tier.unfix(hop.load_weight(), level),
                // The component that its level came from is no more.
                State::Apart if tier.group == 0 => tier.level = NEVER,
                State::Apart | State::Vacant => {}
            }
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

    /// Weight of one activity's demand, 2^-14; a port divides it by what goes through.
    pub(super) fn weight(&self, hop: &Hop) -> u64 {
        let weight = u64::from(hop.weight.0);
        if hop.port == NO_PORT { weight } else { (weight / self.ports[hop.port as usize].demands).max(1) }
    }

    /// Whether all flows of a tier run at their caps whatever the others do.
    #[inline]
    pub(super) fn is_slack(&self, tier: usize) -> bool {
        self.tiers[tier].potential <= u128::from(self.tiers[tier].capacity)
    }

    /// The same, as a function of the flows alone: the capacity that prior demands leave is not looked at.
    pub(super) fn is_idle(&self, tier: usize) -> bool {
        self.tiers[tier].potential <= u128::from(self.fluids[self.fluid_of(tier)].capacity)
    }

    /// Whether what a fluid's prior demands leave may come back to them through the flows of its ordinary ones.
    pub(super) fn is_hinge(&self, fluid: usize) -> bool {
        self.fluids[fluid].spanning > 0 && !self.members[self.prior(fluid)].is_empty() && !self.is_idle(fluid)
    }

    /// Whether a tier takes what prior demands leave, and nothing depends on it in turn.
    pub(super) fn is_last(&self, tier: usize) -> bool {
        self.priors > 0
            && tier < self.fluids.len()
            && self.fluids[tier].spanning == 0
            && !self.members[self.prior(tier)].is_empty()
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

    /// Exact load of a tier at the current rates, 2^-54 unit/ps.
    pub(super) fn load(&self, tier: usize) -> u64 {
        let load = self.members[tier].iter().map(|member| {
            let hop = &self.hops[member.hop as usize];
            let rate = u128::from(self.flows[member.flow as usize].rate.0);
            u128::from(hop.coefficient.0) * u128::from(hop.multiplicity) * rate
        });
        u64::try_from(load.sum::<u128>()).unwrap_or(u64::MAX)
    }

    /// A vacant flow with room for `hops`.
    fn slot(&mut self, hops: usize) -> u32 {
        let room = hops.next_power_of_two().trailing_zeros() as u8;
        if let Some(id) = self.vacant[room as usize].pop() {
            return id;
        }
        let first_hop = self.hops.len() as u32;
        let empty = Hop {
            tier: 0,
            place: 0,
            coefficient: Ratio::ONE,
            weight: Ratio::ONE,
            multiplicity: 0,
            port: NO_PORT,
        };
        self.hops.resize(self.hops.len() + (1 << room), empty);
        self.flows.push(Flow {
            level: 0,
            ceiling: 0,
            cap: Rate(0),
            rate: Rate(0),
            first_hop,
            hop_count: 0,
            state: State::Vacant,
            uniform: true,
            pending: false,
            new: false,
            room,
        });
        self.flows.len() as u32 - 1
    }

    fn add_potential(&mut self, id: u32, enter: bool) {
        let cap = self.flows[id as usize].cap;
        let fluids = self.fluids.len();
        for hop in &self.hops[self.hops_of(id)] {
            let load = u128::from(hop.load_weight()) * u128::from(hop.ceiling(cap));
            let mut add = |tier: usize| {
                let potential = &mut self.tiers[tier].potential;
                *potential = if enter { *potential + load } else { *potential - load };
            };
            add(hop.tier as usize);
            if let Some(ordinary) = (hop.tier as usize).checked_sub(fluids) {
                add(ordinary);
            }
        }
    }
}

impl Tier {
    /// The least level at which fixed flows, as they are, and free ones together overflow it; no more than its final level.
    #[inline]
    pub(super) fn overflow(&self) -> u64 {
        let weight = self.free + self.group;
        match self.capacity.checked_sub(self.fixed) {
            None => 0,
            Some(_) if weight == 0 => NEVER,
            Some(room) => room / weight + 1,
        }
    }

    /// The level at which flows are fixed because of this tier.
    #[inline]
    pub(super) fn held(&self) -> u64 {
        if self.group > 0 { self.level } else { NEVER }
    }

    /// The level at which it may have to fix or free flows next.
    #[inline]
    pub(super) fn turn(&self) -> u64 {
        self.overflow().min(self.held())
    }

    /// Counts a flow fixed at `level`.
    #[inline]
    pub(super) fn fix(&mut self, weight: u64, level: u64) {
        if self.level == level {
            self.group += weight;
        } else {
            self.fixed += weight * level;
        }
    }

    /// No longer counts a flow fixed at `level`.
    #[inline]
    pub(super) fn unfix(&mut self, weight: u64, level: u64) {
        if self.level == level {
            self.group -= weight;
            if self.group == 0 {
                self.level = NEVER;
            }
        } else {
            self.fixed -= weight * level;
        }
    }
}

impl Hop {
    /// Weight of all the activities behind this demand, 2^-14.
    #[inline]
    pub(super) fn load_weight(&self) -> u64 {
        u64::from(self.multiplicity) * u64::from(self.weight.0)
    }

    /// The least level above the rate `cap`.
    #[inline]
    fn ceiling(&self, cap: Rate) -> u64 {
        ceiling(cap, self.coefficient, self.weight)
    }
}

impl Arena {
    /// The rate that the last solution gives a flow.
    pub(super) fn solved_rate(&self, id: u32) -> Rate {
        let flow = &self.flows[id as usize];
        if flow.state == State::Apart {
            return Rate(flow.level);
        }
        if flow.hop_count == 0 {
            return flow.cap;
        }
        let hop = &self.hops[flow.first_hop as usize];
        flow.cap.min(share(flow.level, u64::from(hop.weight.0), hop.coefficient))
    }
}

impl Flow {
    /// Notes that its rate may change.
    #[inline]
    pub(super) fn enter_pending(&mut self, id: u32, pending: &mut Vec<u32>) {
        if !std::mem::replace(&mut self.pending, true) {
            pending.push(id);
        }
    }
}

/// The rate just below a level: ⌊(λ - 1) v / a⌋.
#[inline]
pub(super) fn share(level: u64, weight: u64, coefficient: Ratio) -> Rate {
    let below = level - 1;
    if u64::from(coefficient.0) == weight {
        return Rate(below);
    }
    let rate = u128::from(below) * u128::from(weight) / u128::from(coefficient.0);
    Rate(u64::try_from(rate).unwrap_or(u64::MAX))
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

/// Whether `v / a` is the same for all demands and no port divides a weight.
fn is_uniform(demands: &[Demand]) -> bool {
    let ratio = |d: &Demand, e: &Demand| u64::from(d.weight.0) * u64::from(e.coefficient.0);
    demands.iter().all(|d| d.port.is_none() && ratio(d, &demands[0]) == ratio(&demands[0], d))
}
