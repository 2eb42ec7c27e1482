//! The solver of components that are not uniform: every fluid fills up over what the other fluids offer its
//! flows.
//!
//! On fluid r, flow i is offered min(cap_i, min_{r' ≠ r} x_ir'), where x_ir' is its share at the level of r'.
//! With o_i^r the least level of r above that, the level of r is the least that overflows it:
//! Σ m v min(o_i^r, λ) > C_r, as in [`super`]. When no level changes any more, every flow is at its cap or has
//! its largest relative share on a saturated fluid: the condition holds. Fluids that would hold a flow at the
//! same rate, as links of one speed in a row do, hold it together. What a flow has for itself is a cap to it, and
//! what the caps alone keep from saturation holds nobody: both are known before the first round.
//!
//! The way there is symmetric, so that neither ids nor folding matter: in every round all fluids reckon their
//! level from the others', and those with the lowest among the levels that would change take it, all at once.
//! On a uniform component this is progressive filling, to the same bits if no coefficient is above its weight.
//! Symmetric components can swing between two states; after a while all levels therefore move at once, but only
//! half of the way, later a quarter and less, which leads to the symmetric solution. What has not settled exactly
//! by then (one random component in two thousand, one in fifty where prior demands feed back on themselves) is
//! solved without rounding and without swings (`anchored`).

mod anchored;

use std::ops::Range;

use self::anchored::Anchored;
use super::arena::Arena;
use super::terms::{Terms, ceiling, share};
use super::tier::NEVER;
use crate::fixed::{Rate, Ratio};

/// One component, copied into dense arrays; kept between runs for its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct FixedPoint {
    tiers: Vec<Tier>,
    flows: Vec<Flow>,
    /// Demands by flow.
    demands: Vec<Demand>,
    /// Demands by tier.
    by_tier: Vec<u32>,
    /// Position of each tier of the arena in `tiers`.
    local: Vec<u32>,
    /// The tier being filled: the least levels above what its flows are offered, and their weights.
    offers: Vec<(u64, u128)>,
    /// Flows of which a share has changed in this round.
    touched: Vec<u32>,
    /// Rounds of all components so far.
    pub(super) rounds: u64,
    /// Components so far that did not settle exactly.
    pub(super) unsettled: u64,
}

#[derive(Clone, Debug)]
struct Tier {
    /// 2^-54 unit/ps.
    capacity: u64,
    /// Whether the level of one tier of its fluid may depend on that of the other.
    hinge: bool,
    /// The prior tier of the same fluid, whose load comes off the capacity.
    prior: Option<u32>,
    /// Load if all its flows ran at their ceilings.
    potential: u128,
    demands: Range<u32>,
    level: u64,
    candidate: u64,
    /// Whether the candidate must be reckoned again.
    stale: bool,
}

#[derive(Clone, Debug)]
struct Flow {
    /// The least of its own and of what the tiers that it has for itself carry.
    cap: Rate,
    /// At the levels of its tiers.
    rate: Rate,
    /// The demand that gives it the least, and the least that the others give.
    least: u32,
    second: Rate,
    demands: Range<u32>,
    /// The tier whose level has changed in this round, if one alone has.
    changed: Changed,
}

/// Tiers of a flow whose level has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    None,
    One(u32),
    Several,
}

#[derive(Clone, Debug)]
struct Demand {
    flow: u32,
    tier: u32,
    coefficient: Ratio,
    weight: u64,
    multiplicity: u32,
    /// At the tier's level.
    share: Rate,
}

// Bounds must not depend on the number of fluids or flows, or folding would change results.

/// Rounds at full steps. Progressive filling takes one per distinct level.
const FULL_ROUNDS: usize = 4096;
/// Those among them that may take a level below that of the round before: a component that swings does so for
/// ever.
const STEPS_BACK: usize = 64;
/// Rounds at part steps, in four stages: enough for most differences to vanish below the quantum.
const DAMPED_ROUNDS: u32 = 400;

impl Tier {
    fn of(arena: &Arena, tier: u32, local: &[u32]) -> Self {
        let fluid = arena.fluid_of(tier as usize);
        let hinge = arena.is_hinge(fluid);
        let rest = hinge && tier as usize == fluid;
        Self {
            capacity: if rest { arena.fluids[fluid].capacity } else { arena.tiers[tier as usize].capacity },
            hinge,
            prior: rest.then(|| local[arena.prior(fluid)]),
            potential: 0,
            demands: 0..0,
            level: NEVER,
            candidate: NEVER,
            stale: true,
        }
    }

    /// Whether its level depends on those of others.
    fn is_shared(&self) -> bool {
        self.hinge || (self.level == NEVER && self.potential > u128::from(self.capacity))
    }
}

impl Flow {
    const fn new(cap: Rate) -> Self {
        Self { cap, rate: cap, least: u32::MAX, second: cap, demands: 0..0, changed: Changed::None }
    }
}

impl FixedPoint {
    /// Decides the rates of the flows of a component, all of them apart, and the levels of its tiers.
    pub(super) fn solve(&mut self, arena: &mut Arena, tiers: &[u32], flows: &[u32]) {
        self.load(arena, tiers, flows);
        if !self.settle() {
            self.settle_finely();
            self.scale_down();
        }
        for (&id, flow) in flows.iter().zip(&self.flows) {
            arena.flows[id as usize].level = flow.rate.0;
        }
        for (&id, tier) in tiers.iter().zip(&self.tiers) {
            arena.tiers[id as usize].level = tier.level;
        }
    }

    fn load(&mut self, arena: &Arena, tiers: &[u32], flows: &[u32]) {
        self.local.resize(arena.tiers.len(), u32::MAX);
        for (at, &tier) in (0..).zip(tiers) {
            self.local[tier as usize] = at;
        }
        self.tiers.clear();
        self.tiers.extend(tiers.iter().map(|&tier| Tier::of(arena, tier, &self.local)));
        self.flows.clear();
        self.flows.extend(flows.iter().map(|&flow| Flow::new(arena.flows[flow as usize].cap)));
        self.bound(arena, flows);
        self.demand(arena, flows);
        for &tier in tiers {
            self.local[tier as usize] = u32::MAX;
        }
    }

    /// Has a tier with one flow cap that flow, and finds which of the others caps alone keep from saturation.
    fn bound(&mut self, arena: &Arena, flows: &[u32]) {
        for (flow, &id) in self.flows.iter_mut().zip(flows) {
            let hops = &arena.hops[arena.hops_of(id)];
            for hop in hops {
                let Some(tier) = self.tiers.get_mut(self.local[hop.tier as usize] as usize) else { continue };
                // The ranks folded into a flow are others on the same tier.
                let lone = arena.members[hop.tier as usize].len() == 1 && arena.terms(hop).multiplicity == 1;
                if lone && !tier.hinge {
                    let weight = arena.weight(hop);
                    tier.level = tier.capacity / weight + 1;
                    flow.cap = flow.cap.min(share(tier.level, weight, arena.terms(hop).coefficient));
                }
            }
            (flow.rate, flow.second) = (flow.cap, flow.cap);
            for hop in hops {
                let Some(tier) = self.tiers.get_mut(self.local[hop.tier as usize] as usize) else { continue };
                let (weight, terms) = (arena.weight(hop), arena.terms(hop));
                tier.potential += u128::from(weight)
                    * u128::from(terms.multiplicity)
                    * u128::from(ceiling(flow.cap, terms.coefficient, weight));
            }
        }
    }

    /// Collects the demands on tiers that may hold several flows back.
    fn demand(&mut self, arena: &Arena, flows: &[u32]) {
        self.demands.clear();
        for (flow, &id) in (0..).zip(flows) {
            let first = self.demands.len() as u32;
            for hop in &arena.hops[arena.hops_of(id)] {
                let at = self.local[hop.tier as usize];
                let Some(tier) = self.tiers.get_mut(at as usize).filter(|tier| tier.is_shared()) else {
                    continue;
                };
                tier.demands.end += 1;
                let (weight, terms) = (arena.weight(hop), arena.terms(hop));
                let &Terms { coefficient, multiplicity, .. } = terms;
                let share = Rate::UNLIMITED;
                self.demands.push(Demand { flow, tier: at, coefficient, weight, multiplicity, share });
            }
            self.flows[flow as usize].demands = first..self.demands.len() as u32;
        }
        let mut first = 0;
        for tier in &mut self.tiers {
            let count = tier.demands.end;
            (tier.demands, tier.candidate, tier.stale) = (first..first, tier.level, tier.is_shared());
            first += count;
        }
        self.by_tier.resize(self.demands.len(), 0);
        for (at, demand) in (0..).zip(&self.demands) {
            let end = &mut self.tiers[demand.tier as usize].demands.end;
            self.by_tier[*end as usize] = at;
            *end += 1;
        }
    }

    /// Whether the levels have settled exactly.
    fn settle(&mut self) -> bool {
        let (mut before, mut steps_back) = (0, 0);
        for _ in 0..FULL_ROUNDS {
            self.reckon();
            let changes = self.tiers.iter().filter(|tier| tier.candidate != tier.level);
            let Some(lowest) = changes.map(|tier| tier.candidate).min() else { return true };
            steps_back += usize::from(lowest <= before);
            before = lowest;
            if steps_back > STEPS_BACK {
                break;
            }
            for tier in 0..self.tiers.len() {
                if self.tiers[tier].candidate == lowest && self.tiers[tier].level != lowest {
                    self.set_level(tier, lowest);
                }
            }
            self.follow();
        }
        for round in 0..DAMPED_ROUNDS {
            self.reckon();
            let shift = 1 + 4 * round / DAMPED_ROUNDS;
            let mut settled = true;
            for tier in 0..self.tiers.len() {
                let Tier { level, candidate, .. } = self.tiers[tier];
                if level != candidate {
                    settled = false;
                    self.set_level(tier, part_way(level, candidate, shift));
                }
            }
            self.follow();
            if settled {
                return true;
            }
        }
        false
    }

    /// Takes the levels that [`Anchored`] settles on.
    fn settle_finely(&mut self) {
        let (rounds, levels) = Anchored::new(self).settle();
        self.rounds += rounds;
        let Some(levels) = levels else {
            self.unsettled += 1;
            return;
        };
        for (tier, level) in levels.into_iter().enumerate() {
            // What one flow has for itself is its cap.
            if !self.tiers[tier].demands.is_empty() {
                self.set_level(tier, level);
            }
        }
        self.follow();
    }

    /// Brings the candidates up to date.
    fn reckon(&mut self) {
        self.rounds += 1;
        for tier in 0..self.tiers.len() {
            if std::mem::replace(&mut self.tiers[tier].stale, false) {
                self.tiers[tier].candidate = self.fill(tier);
            }
        }
    }

    /// The least level that overflows a tier, given what the others offer its flows.
    fn fill(&mut self, tier: usize) -> u64 {
        let Tier { capacity, prior, ref demands, .. } = self.tiers[tier];
        let capacity = capacity.saturating_sub(prior.map_or(0, |prior| self.carried(prior as usize)));
        self.offers.clear();
        let mut weight = 0;
        for &at in &self.by_tier[demands.start as usize..demands.end as usize] {
            let demand = &self.demands[at as usize];
            let offer = ceiling(self.offer(at), demand.coefficient, demand.weight);
            let own = u128::from(demand.weight) * u128::from(demand.multiplicity);
            self.offers.push((offer, own));
            weight += own;
        }
        self.offers.sort_unstable();
        let mut room = u128::from(capacity);
        for &(offer, own) in &self.offers {
            if u128::from(offer) * weight > room {
                break;
            }
            room -= u128::from(offer) * own;
            weight -= own;
        }
        room.checked_div(weight).map_or(NEVER, |level| u64::try_from(level + 1).unwrap_or(NEVER))
    }

    /// What the cap and the other tiers leave a flow on the tier of a demand.
    fn offer(&self, at: u32) -> Rate {
        let flow = &self.flows[self.demands[at as usize].flow as usize];
        if flow.least == at { flow.second } else { flow.rate }
    }

    /// Load of a tier, 2^-54 unit/ps.
    fn carried(&self, tier: usize) -> u64 {
        let Range { start, end } = self.tiers[tier].demands;
        let loads = self.by_tier[start as usize..end as usize].iter().map(|&at| {
            let demand = &self.demands[at as usize];
            let rate = self.flows[demand.flow as usize].rate;
            u128::from(demand.multiplicity) * u128::from(demand.coefficient.0) * u128::from(rate.0)
        });
        loads.fold(0u64, |sum, load| sum.saturating_add(u64::try_from(load).unwrap_or(u64::MAX)))
    }

    /// Changes a level; [`FixedPoint::follow`] must follow before anything is reckoned.
    fn set_level(&mut self, tier: usize, level: u64) {
        self.tiers[tier].level = level;
        let Range { start, end } = self.tiers[tier].demands;
        for &at in &self.by_tier[start as usize..end as usize] {
            let demand = &mut self.demands[at as usize];
            demand.share = if level == NEVER {
                Rate::UNLIMITED
            } else {
                share(level, demand.weight, demand.coefficient)
            };
            let flow = &mut self.flows[demand.flow as usize];
            flow.changed = match flow.changed {
                Changed::None => {
                    self.touched.push(demand.flow);
                    Changed::One(tier as u32)
                }
                Changed::One(other) if other == tier as u32 => flow.changed,
                _ => Changed::Several,
            };
        }
    }

    /// Brings the rates of flows up to date with their shares: each once a round, however many of its tiers have changed,
    /// as a collective has a tier on every link of its ring. What depends on them must be reckoned again.
    fn follow(&mut self) {
        for flow in self.touched.drain(..) {
            let flow = &mut self.flows[flow as usize];
            (flow.rate, flow.least, flow.second) = (flow.cap, u32::MAX, flow.cap);
            for at in flow.demands.clone() {
                let Demand { tier, share, .. } = self.demands[at as usize];
                if share < flow.rate {
                    (flow.second, flow.rate, flow.least) = (flow.rate, share, at);
                } else {
                    flow.second = flow.second.min(share);
                }
                self.tiers[tier as usize].stale |= flow.changed != Changed::One(tier);
            }
            flow.changed = Changed::None;
        }
        // What flows now do on prior tiers is what ordinary tiers get.
        for tier in &mut self.tiers {
            tier.stale |= tier.prior.is_some();
        }
    }

    /// Lowers the rates until they fit, each by the worst overload on its way; what prior demands leave comes
    /// second.
    fn scale_down(&mut self) {
        for hinge in [false, true] {
            let tiers = self.tiers.iter().enumerate().map(|(index, tier)| {
                let prior = tier.prior.map_or(0, |prior| self.carried(prior as usize));
                let chosen = tier.prior.is_some() == hinge;
                if chosen { (tier.capacity.saturating_sub(prior), self.carried(index)) } else { (0, 0) }
            });
            let tiers: Vec<(u64, u64)> = tiers.collect();
            for flow in &mut self.flows {
                let demands = &self.demands[flow.demands.start as usize..flow.demands.end as usize];
                let overloads = demands.iter().map(|demand| tiers[demand.tier as usize]);
                let overloads = overloads.filter(|(capacity, load)| load > capacity);
                let fits = |(capacity, load): (u64, u64)| {
                    Rate((u128::from(flow.rate.0) * u128::from(capacity) / u128::from(load)) as u64)
                };
                flow.rate = overloads.map(fits).fold(flow.rate, Rate::min);
            }
        }
    }
}

/// The part 2^-`shift` of the way from one level to another; up to no limit it is a part of one doubling.
fn part_way(from: u64, to: u64, shift: u32) -> u64 {
    if from == NEVER {
        return to;
    }
    let to = to.min(from.saturating_mul(2));
    // Rounded towards the goal, so that the last quantum is passed.
    if to > from { from + (to - from).div_ceil(1 << shift) } else { from - (from - to).div_ceil(1 << shift) }
}
