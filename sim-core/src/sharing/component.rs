//! Dynamic components: flows that are coupled, directly or not, by tiers that can saturate. Looked for only in
//! regions where a flow is not uniform or prior demands feed back on themselves: everything else is the sweep's.

use super::arena::{Arena, State};
use super::fixed_point::FixedPoint;
use super::memo::Memo;

/// Buffers of the search, kept between runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Components {
    tiers_seen: Vec<bool>,
    flows_seen: Vec<bool>,
    /// The component found last.
    tiers: Vec<u32>,
    flows: Vec<u32>,
    /// All that was seen in this run.
    visited_tiers: Vec<u32>,
    visited_flows: Vec<u32>,
    memo: Memo,
}

impl Components {
    /// Finds the components that changes of the `touched` tiers concern. Irregular ones are solved; flows of
    /// regular ones that were in an irregular one are freed for the sweep, and their tiers touched. All flows
    /// whose rate may change are added to `pending`.
    pub(super) fn split(
        &mut self,
        arena: &mut Arena,
        touched: &mut Vec<u32>,
        pending: &mut Vec<u32>,
        fixed_point: &mut FixedPoint,
    ) {
        self.tiers_seen.resize(arena.tiers.len(), false);
        self.flows_seen.resize(arena.flows.len(), false);
        for first in 0..touched.len() {
            let tier = touched[first] as usize;
            if !arena.is_odd(tier) {
                continue;
            }
            for at in 0..arena.members[tier].len() {
                let flow = arena.members[tier][at].flow;
                if self.flows_seen[flow as usize] {
                    continue;
                }
                let irregular = self.collect(arena, flow);
                if irregular {
                    self.set_apart(arena);
                    if !self.memo.recall(arena, &self.tiers, &mut self.flows) {
                        fixed_point.solve(arena, &self.tiers, &self.flows);
                        self.memo.keep(arena, &self.tiers, &self.flows);
                    }
                } else {
                    self.rejoin(arena, touched);
                }
                for &flow in &self.flows {
                    arena.flows[flow as usize].enter_pending(flow, pending);
                }
            }
        }
        self.visited_tiers.drain(..).for_each(|tier| self.tiers_seen[tier as usize] = false);
        self.visited_flows.drain(..).for_each(|flow| self.flows_seen[flow as usize] = false);
    }

    /// A capacity has changed: what was found before holds no longer.
    pub(super) fn forget(&mut self) {
        self.memo.forget();
    }

    /// Finds the component of a flow; whether the sweep cannot solve it.
    fn collect(&mut self, arena: &Arena, seed: u32) -> bool {
        self.tiers.clear();
        self.flows.clear();
        self.enter_flow(seed);
        let mut irregular = false;
        let (mut flow, mut tier) = (0, 0);
        while flow < self.flows.len() || tier < self.tiers.len() {
            if let Some(&id) = self.flows.get(flow) {
                flow += 1;
                irregular |= !arena.flows[id as usize].uniform;
                for hop in arena.hops_of(id) {
                    self.enter_tier(arena, arena.hops[hop].tier);
                }
            } else {
                let id = self.tiers[tier] as usize;
                tier += 1;
                let fluid = arena.fluid_of(id);
                if arena.is_hinge(fluid) {
                    irregular = true;
                    self.enter_linked(arena, fluid, id);
                }
                arena.members[id].iter().for_each(|member| self.enter_flow(member.flow));
            }
        }
        self.visited_flows.extend(&self.flows);
        irregular
    }

    /// The other tier of a hinge belongs to the component even if it cannot saturate.
    fn enter_linked(&mut self, arena: &Arena, fluid: usize, tier: usize) {
        let other = if tier == fluid { arena.prior(fluid) } else { fluid };
        if !std::mem::replace(&mut self.tiers_seen[other], true) {
            self.visited_tiers.push(other as u32);
            self.tiers.push(other as u32);
        }
    }

    fn enter_tier(&mut self, arena: &Arena, tier: u32) {
        if std::mem::replace(&mut self.tiers_seen[tier as usize], true) {
            return;
        }
        self.visited_tiers.push(tier);
        if !arena.is_idle(tier as usize) || arena.is_hinge(arena.fluid_of(tier as usize)) {
            self.tiers.push(tier);
        }
    }

    fn enter_flow(&mut self, flow: u32) {
        if !std::mem::replace(&mut self.flows_seen[flow as usize], true) {
            self.flows.push(flow);
        }
    }

    fn set_apart(&self, arena: &mut Arena) {
        for &flow in &self.flows {
            arena.set_apart(flow);
        }
    }

    /// Frees a component whose rates come from the fixed point.
    fn rejoin(&self, arena: &mut Arena, touched: &mut Vec<u32>) {
        if self.flows.iter().all(|&flow| arena.flows[flow as usize].state != State::Apart) {
            return;
        }
        for &flow in &self.flows {
            arena.release(flow);
        }
        touched.extend(&self.tiers);
    }
}
