//! Flows come and go: unhindered while their fluids are idle, members of tiers from then on.

use super::{Arena, Flow, Hop, Idle, Member, State};
use crate::fixed::Rate;
use crate::sharing::memo::UNSIGNED;
use crate::sharing::path::{Path, Step};
use crate::sharing::terms::Terms;

impl Arena {
    /// Adds a flow: unhindered, or free.
    pub(in crate::sharing) fn attach(&mut self, path_id: u32, cap: Rate) -> u32 {
        let path = self.paths.with_cap(path_id, cap, &self.terms);
        let id = self.slot(path.count as usize);
        let flow = &mut self.flows[id as usize];
        (flow.state, flow.new, flow.hop_count, flow.path) = (State::Unhindered, true, path.count, path_id);
        (flow.uniform, flow.even, flow.ported) = (path.uniform, path.even, path.ported);
        flow.prior = path.priors > 0;
        (flow.cap, flow.rate, flow.ceiling, flow.signature) = (cap, Rate(0), path.ceiling, UNSIGNED);
        let range = self.hops_of(id);
        let Self { paths, hops, ceiling_loads, fluids, crossed, .. } = self;
        let steps = paths.steps[path.first as usize..][..path.count as usize].iter();
        let slots = hops[range.clone()].iter_mut().zip(&mut ceiling_loads[range]);
        let mut on_idle_fluids = true;
        for (&Step { fluid: index, tier, terms, load }, (hop, ceiling_load)) in steps.zip(slots) {
            (*hop, *ceiling_load) = (Hop { tier, place: 0, terms }, load);
            let fluid = &mut fluids[index as usize];
            fluid.unhindered += 1;
            match fluid.add_load(load) {
                Idle::Still => continue,
                Idle::NoLonger => crossed.push(index),
                Idle::NotBefore => {}
            }
            on_idle_fluids = false;
        }
        if path.count > 0 {
            let along = &mut self.paths.unhindered[path_id as usize];
            self.hops[self.flows[id as usize].first_hop as usize].place = along.len() as u32;
            along.push(id);
        }
        self.priors += path.priors as usize;
        self.active += 1;
        if path.ported {
            self.enter_ports(id);
        }
        if path.ported || !path.is_open || !on_idle_fluids {
            self.admit(id);
        }
        id
    }

    fn enter_ports(&mut self, id: u32) {
        for hop in &self.hops[self.hops_of(id)] {
            let Terms { port, multiplicity, .. } = *self.terms.get(hop.terms);
            if let Some(port) = port {
                self.ports[port as usize].enter(hop.tier, multiplicity);
            }
        }
    }

    /// Frees an unhindered flow: it may be hindered from now on.
    pub(in crate::sharing) fn admit(&mut self, id: u32) {
        self.leave_path(id);
        let spans = self.flows[id as usize].hop_count > 1;
        for hop in self.hops_of(id) {
            let tier = self.hops[hop].tier as usize;
            let members = &mut self.members[tier];
            self.hops[hop].place = members.len() as u32;
            members.push(Member { flow: id, hop: hop as u32 });
            let fluid = self.fluid_of(tier);
            self.fluids[fluid].unhindered -= 1;
            if fluid == tier {
                self.fluids[fluid].spanning += u32::from(spans);
            } else {
                self.prior_potentials[fluid] += self.ceiling_loads[hop];
            }
        }
        self.flows[id as usize].state = State::Free;
        self.connect(id);
        self.for_each_sum(id, |tier, weight| tier.free += weight);
        self.carry(id, Rate(0), self.flows[id as usize].rate);
    }

    /// Frees all unhindered flows on a fluid; adds them to `pending`.
    pub(in crate::sharing) fn admit_all(&mut self, fluid: usize, pending: &mut Vec<u32>) {
        if self.fluids[fluid].unhindered == 0 {
            return;
        }
        for at in 0..self.paths.through[fluid].len() {
            let path = self.paths.through[fluid][at] as usize;
            while let Some(&id) = self.paths.unhindered[path].last() {
                self.admit(id);
                self.flows[id as usize].enter_pending(id, pending);
            }
        }
    }

    /// Takes an unhindered flow off the list of its path.
    #[inline]
    fn leave_path(&mut self, id: u32) {
        let Flow { path, first_hop, hop_count, .. } = self.flows[id as usize];
        if hop_count == 0 {
            return;
        }
        let place = self.hops[first_hop as usize].place;
        let along = &mut self.paths.unhindered[path as usize];
        along.swap_remove(place as usize);
        if let Some(&moved) = along.get(place as usize) {
            self.hops[self.flows[moved as usize].first_hop as usize].place = place;
        }
    }

    /// Removes a flow from every sum and list.
    pub(in crate::sharing) fn detach(&mut self, id: u32) {
        let Flow { state, uniform, rate, .. } = self.flows[id as usize];
        if state == State::Unhindered {
            self.leave_idle_fluids(id);
        } else {
            self.leave_sums(id);
            self.carry(id, rate, Rate(0));
            self.regions.leave();
            if !uniform {
                self.regions.leave_odd(self.first_fluid(id));
            }
            self.leave_tiers(id);
        }
        let flow = &mut self.flows[id as usize];
        flow.state = State::Vacant;
        self.vacant[flow.room as usize].push(id);
        self.active -= 1;
    }

    /// Removes an unhindered flow from the sums of its fluids.
    fn leave_idle_fluids(&mut self, id: u32) {
        self.leave_path(id);
        let Path { first, count, priors, .. } = self.paths.of(self.flows[id as usize].path);
        self.priors -= priors as usize;
        let steps = &self.paths.steps[first as usize..][..count as usize];
        for (step, &load) in steps.iter().zip(&self.ceiling_loads[self.hops_of(id)]) {
            let fluid = &mut self.fluids[step.fluid as usize];
            fluid.potential -= load;
            fluid.unhindered -= 1;
        }
    }

    /// Removes a hindered flow from its tiers and ports.
    fn leave_tiers(&mut self, id: u32) {
        let Flow { hop_count, ported, .. } = self.flows[id as usize];
        for hop in self.hops_of(id) {
            let Hop { tier, place, terms } = self.hops[hop];
            let members = &mut self.members[tier as usize];
            members.swap_remove(place as usize);
            if let Some(moved) = members.get(place as usize) {
                self.hops[moved.hop as usize].place = place;
            }
            let fluid = self.fluid_of(tier as usize);
            self.fluids[fluid].potential -= self.ceiling_loads[hop];
            if fluid == tier as usize {
                self.fluids[fluid].spanning -= u32::from(hop_count > 1);
            } else {
                self.prior_potentials[fluid] -= self.ceiling_loads[hop];
                self.priors -= 1;
            }
            if ported {
                let Terms { port, multiplicity, .. } = *self.terms.get(terms);
                if let Some(port) = port {
                    self.ports[port as usize].leave(tier, multiplicity);
                }
            }
        }
    }
}
