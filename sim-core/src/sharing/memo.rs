//! Solutions of components met before. A training step meets the same few sets of flows over and over (half a
//! thousand in three hundred thousand solutions where eight GPUs share a link), and the fixed point's solution is a
//! function of the flows and of what else goes through their ports, whatever the order: it is looked up.

use std::collections::BTreeMap;

use super::arena::Arena;

/// Components and what solves them, found by the signatures of their flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Memo {
    /// The signature of every cap with demands met.
    signatures: BTreeMap<Box<[u64]>, u32>,
    /// The ports of a signature's flows.
    ports: Vec<Box<[u32]>>,
    solutions: BTreeMap<Box<[u64]>, Solution>,
    /// The component asked for: the signatures of its flows, ascending, and how many demands each of its ports has.
    component: Vec<u64>,
    /// One flow's cap and demands.
    flow: Vec<u64>,
    /// The ports of the component.
    crossed: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Solution {
    /// By place in the component.
    rates: Box<[u64]>,
    /// Tiers of the component and their levels.
    levels: Box<[(u32, u64)]>,
}

/// What a flow is to a solution: equal cap, equal demands on equal tiers.
pub(super) const UNSIGNED: u32 = u32::MAX;
/// Signatures and solutions kept: programs whose caps are all drawn apart must not fill the memory.
const KEPT: usize = 1 << 14;

impl Memo {
    /// Gives the flows and tiers of a component the solution of an equal one, if there was one; sorts the flows by
    /// signature.
    pub(super) fn recall(&mut self, arena: &mut Arena, tiers: &[u32], flows: &mut [u32]) -> bool {
        self.component.clear();
        // What prior demands leave is no function of the flows.
        if tiers.iter().any(|&tier| arena.is_last(tier as usize)) {
            return false;
        }
        flows.iter().for_each(|&flow| self.sign(arena, flow));
        flows.sort_unstable_by_key(|&flow| arena.flows[flow as usize].signature);
        self.crossed.clear();
        for &flow in &*flows {
            let signature = arena.flows[flow as usize].signature;
            self.component.push(u64::from(signature));
            self.crossed.extend(&self.ports[signature as usize]);
        }
        self.crossed.sort_unstable();
        self.crossed.dedup();
        self.component.extend(self.crossed.iter().map(|&port| arena.ports[port as usize].demands));
        let Some(Solution { rates, levels }) = self.solutions.get(self.component.as_slice()) else {
            return false;
        };
        for (&flow, &rate) in flows.iter().zip(rates) {
            arena.flows[flow as usize].level = rate;
        }
        for &(tier, level) in levels {
            arena.tiers[tier as usize].level = level;
        }
        true
    }

    /// Keeps the solution of the component that was asked for last.
    pub(super) fn keep(&mut self, arena: &mut Arena, tiers: &[u32], flows: &[u32]) {
        if self.component.is_empty() {
            return;
        }
        let rates = flows.iter().map(|&flow| arena.flows[flow as usize].level).collect();
        let levels = tiers.iter().map(|&tier| (tier, arena.tiers[tier as usize].level)).collect();
        self.solutions.insert(self.component.as_slice().into(), Solution { rates, levels });
        if self.solutions.len().max(self.signatures.len()) > KEPT {
            self.forget();
            self.signatures.clear();
            self.ports.clear();
            arena.flows.iter_mut().for_each(|flow| flow.signature = UNSIGNED);
        }
    }

    /// Drops all solutions, as a capacity has changed.
    pub(super) fn forget(&mut self) {
        self.solutions.clear();
    }

    /// Sees to it that a flow has its signature.
    fn sign(&mut self, arena: &mut Arena, flow: u32) {
        if arena.flows[flow as usize].signature != UNSIGNED {
            return;
        }
        let hops = &arena.hops[arena.hops_of(flow)];
        self.flow.clear();
        self.flow.push(arena.flows[flow as usize].cap.0);
        self.flow.extend(hops.iter().map(|hop| u64::from(hop.tier) << 32 | u64::from(hop.terms)));
        let known = self.signatures.get(self.flow.as_slice()).copied();
        arena.flows[flow as usize].signature = known.unwrap_or_else(|| {
            let next = self.ports.len() as u32;
            self.signatures.insert(self.flow.as_slice().into(), next);
            self.ports.push(hops.iter().filter_map(|hop| arena.terms(hop).port).collect());
            next
        });
    }
}
