//! Regions: fluids that hindered flows connect, so that the component search stays where it is needed.
//!
//! Flows connect fluids when they come; what they leave behind stays connected until about as many have gone as are under
//! way. Then regions are found afresh, or no longer kept if the sweep solves everything. A region therefore covers whole
//! components, and mostly not much more.

use super::arena::{Arena, Hop, State};

/// Regions of fluids, each under one of them.
#[derive(Clone, Debug)]
pub(super) struct Regions {
    /// By fluid, one nearer to the one that its region is under; itself there.
    above: Vec<u32>,
    /// By the fluid that a region is under, its flows that the sweep does not solve.
    odd: Vec<u32>,
    /// Number of flows that the sweep does not solve: not uniform, or decided by the fixed point.
    all_odd: usize,
    /// Set while regions are kept.
    kept: bool,
    /// Hindered flows that have gone since regions were found.
    gone: usize,
}

impl Regions {
    /// No flow anywhere.
    pub(super) fn new(fluids: usize) -> Self {
        Self { above: vec![0; fluids], odd: vec![0; fluids], all_odd: 0, kept: false, gone: 0 }
    }

    /// Tells if regions are to be found from the active flows. Gives up stale ones.
    pub(super) fn are_due(&mut self, active: usize) -> bool {
        if self.kept && self.gone > self.above.len().max(2 * active) {
            self.kept = false;
        }
        !self.kept && self.all_odd > 0
    }

    /// Begins to find regions: every fluid by itself.
    pub(super) fn reset(&mut self) {
        self.above.iter_mut().zip(0..).for_each(|(above, fluid)| *above = fluid);
        self.odd.fill(0);
        (self.all_odd, self.kept, self.gone) = (0, true, 0);
    }

    /// Notes that a hindered flow goes.
    pub(super) fn leave(&mut self) {
        self.gone += 1;
    }

    /// Connects the fluids of a flow.
    pub(super) fn connect(&mut self, mut fluids: impl Iterator<Item = u32>) {
        let Some(first) = fluids.next().filter(|_| self.kept) else { return };
        for fluid in fluids {
            let (a, b) = (self.under(first), self.under(fluid));
            if a != b {
                let (upper, lower) = (a.min(b), a.max(b));
                self.above[lower as usize] = upper;
                self.odd[upper as usize] += self.odd[lower as usize];
            }
        }
    }

    /// Counts a flow on a fluid that is not the sweep's.
    pub(super) fn enter_odd(&mut self, fluid: u32) {
        self.all_odd += 1;
        if self.kept {
            let region = self.under(fluid);
            self.odd[region as usize] += 1;
        }
    }

    /// No longer counts it.
    pub(super) fn leave_odd(&mut self, fluid: u32) {
        self.all_odd -= 1;
        if self.kept {
            let region = self.under(fluid);
            self.odd[region as usize] -= 1;
        }
    }

    /// Tells if the region of a fluid may need the component search.
    #[inline]
    pub(super) fn is_odd(&self, mut fluid: u32) -> bool {
        if !self.kept || self.all_odd == 0 {
            return self.all_odd > 0;
        }
        while self.above[fluid as usize] != fluid {
            fluid = self.above[fluid as usize];
        }
        self.odd[fluid as usize] > 0
    }

    /// The fluid that a fluid's region is under, halving the way there.
    fn under(&mut self, mut fluid: u32) -> u32 {
        while self.above[fluid as usize] != fluid {
            self.above[fluid as usize] = self.above[self.above[fluid as usize] as usize];
            fluid = self.above[fluid as usize];
        }
        fluid
    }
}

impl Arena {
    /// Counts a hindered flow in its region.
    pub(super) fn connect(&mut self, id: u32) {
        let range = self.hops_of(id);
        let fluids = self.fluids.len() as u32;
        let fluid = |hop: &Hop| hop.tier.checked_sub(fluids).unwrap_or(hop.tier);
        self.regions.connect(self.hops[range].iter().map(fluid));
        if !self.flows[id as usize].uniform {
            self.regions.enter_odd(self.first_fluid(id));
        }
        if self.flows[id as usize].state == State::Apart {
            self.regions.enter_odd(self.first_fluid(id));
        }
    }

    /// Finds regions, if that is due.
    pub(super) fn renew_regions(&mut self) {
        if !self.regions.are_due(self.active) {
            return;
        }
        self.regions.reset();
        for id in 0..self.flows.len() as u32 {
            if !matches!(self.flows[id as usize].state, State::Unhindered | State::Vacant) {
                self.connect(id);
            }
        }
    }

    /// The fluid of a flow's first demand.
    pub(super) fn first_fluid(&self, id: u32) -> u32 {
        let hop = &self.hops[self.flows[id as usize].first_hop as usize];
        self.fluid_of(hop.tier as usize) as u32
    }
}
