//! Paths: lists of demands as the arena writes them into flows. What does not depend on the flow is worked out once.

use super::terms::{Dictionary, load_weight};
use crate::fixed::Rate;
use crate::platform::{Demand, Platform};

/// A list of demands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Its first step.
    pub(super) first: u32,
    pub(super) count: u32,
    /// Prior demands among them.
    pub(super) priors: u32,
    /// Whether one level fixes a flow's share on all its fluids.
    pub(super) uniform: bool,
    /// Whether a flow has the same weight in the sums of all its tiers.
    pub(super) even: bool,
    /// Whether a port divides a weight.
    pub(super) ported: bool,
    /// True of routes: flows along them can be found again.
    pub(super) is_open: bool,
    /// The cap that loads and ceiling are for.
    cap: Rate,
    /// The least level above the cap.
    pub(super) ceiling: u64,
}

/// One demand of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) fluid: u32,
    pub(super) tier: u32,
    pub(super) terms: u32,
    /// What it loads its tier with at the ceiling.
    pub(super) load: u128,
}

/// The paths of a platform's routes, and others.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    paths: Vec<Path>,
    pub(super) steps: Vec<Step>,
    /// The path without demands.
    pub(super) nowhere: u32,
    /// By path, the unhindered flows along it, in no order.
    pub(super) unhindered: Vec<Vec<u32>>,
    /// By fluid, the open paths that cross it, each once.
    pub(super) through: Vec<Vec<u32>>,
}

impl Paths {
    /// The paths of all routes, by route.
    pub(super) fn new(platform: &Platform, terms: &mut Dictionary) -> Self {
        let fluids = platform.fluids.len() as u32;
        let mut paths = Self { through: vec![Vec::new(); platform.fluids.len()], ..Self::default() };
        for route in &platform.routes {
            let path = paths.lay(&route.demands, fluids, terms);
            paths.open(path);
        }
        paths.nowhere = paths.lay(&[], fluids, terms);
        paths.open(paths.nowhere);
        paths
    }

    /// Adds a path; the prior tier of a fluid is `fluids` beyond the ordinary one.
    pub(super) fn lay(&mut self, demands: &[Demand], fluids: u32, terms: &mut Dictionary) -> u32 {
        let ported = demands.iter().any(|demand| demand.port.is_some());
        self.paths.push(Path {
            first: self.steps.len() as u32,
            count: demands.len() as u32,
            priors: demands.iter().map(|demand| u32::from(demand.prior)).sum(),
            uniform: !ported && is_uniform(demands),
            even: demands.iter().all(|demand| load_weight(demand) == load_weight(&demands[0])),
            ported,
            is_open: false,
            cap: Rate(0),
            ceiling: 0,
        });
        for demand in demands {
            let fluid = demand.fluid.0;
            let tier = fluid + if demand.prior { fluids } else { 0 };
            self.steps.push(Step { fluid, tier, terms: terms.id(demand), load: 0 });
        }
        self.unhindered.push(Vec::new());
        let path = self.paths.len() as u32 - 1;
        self.reckon(path, Rate(0), terms);
        path
    }

    /// Drops the path that was laid last, along which nothing is unhindered.
    pub(super) fn drop_last(&mut self) {
        if let Some(path) = self.paths.pop() {
            self.steps.truncate(path.first as usize);
            self.unhindered.pop();
        }
    }

    /// Has flows along a path found by the fluids that it crosses.
    pub(super) fn open(&mut self, path: u32) {
        let Path { first, count, .. } = self.paths[path as usize];
        self.paths[path as usize].is_open = true;
        for step in &self.steps[first as usize..][..count as usize] {
            let crossing = &mut self.through[step.fluid as usize];
            if crossing.last() != Some(&path) {
                crossing.push(path);
            }
        }
    }

    /// A path as it is for the cap that it was for last.
    pub(super) fn of(&self, path: u32) -> Path {
        self.paths[path as usize]
    }

    /// A path for flows of this cap. Flows of a route mostly have the cap of the one before.
    #[inline]
    pub(super) fn with_cap(&mut self, path: u32, cap: Rate, terms: &Dictionary) -> Path {
        if self.paths[path as usize].cap != cap {
            self.reckon(path, cap, terms);
        }
        self.paths[path as usize]
    }

    fn reckon(&mut self, path: u32, cap: Rate, terms: &Dictionary) {
        let path = &mut self.paths[path as usize];
        let steps = &mut self.steps[path.first as usize..][..path.count as usize];
        path.cap = cap;
        path.ceiling = match steps.first() {
            None => cap.0.saturating_add(1),
            Some(step) => terms.get(step.terms).ceiling(cap),
        };
        for step in steps {
            step.load = terms.get(step.terms).ceiling_load(cap);
        }
    }
}

/// Whether `v / a` is the same for all demands.
fn is_uniform(demands: &[Demand]) -> bool {
    let ratio = |d: &Demand, e: &Demand| u64::from(d.weight.0) * u64::from(e.coefficient.0);
    demands.iter().all(|d| ratio(d, &demands[0]) == ratio(&demands[0], d))
}
