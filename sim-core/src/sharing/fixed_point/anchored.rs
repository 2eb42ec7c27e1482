//! The last resort of the fixed point: the same levels without their rounding and without swings.
//!
//! Three things keep a component from settling. A level that holds nobody has no limit: if it holds somebody in
//! every other round, it comes back too late for the others. Whole quanta may have no fixed point: what one tier
//! rounds off moves others, through prior demands, by more than a quantum. Hinges that take from each other in a
//! ring may swing for ever, however small the steps are.
//!
//! Here a level counts 2^-32 quanta, and one that holds nobody stays a quarter above what is offered. What the
//! tiers reckon is then a continuous function of bounded levels, and has a fixed point (Brouwer). All levels move
//! part of the way at once, to the mean of their candidate and an anchor, which follows slowly. Around an anchor
//! at rest, a swing must feed back more than twice itself to go on. The anchor in turn takes implicit steps, which
//! damp what swings (proximal point: Rockafellar, SIAM J. Control Optim. 14, 1976).

use super::{Demand, FixedPoint, Flow, Tier};
use crate::sharing::tier::NEVER;

/// A level, rate or load in 2^-32 of its quantum.
type Fine = u128;

const FINE_BITS: u32 = 32;
/// Levels this near their candidates have settled: 2^-16 of a quantum.
const NEAR: Fine = 1 << 16;
/// Stages, each with steps half as long as in the one before; the first goes half of the way.
const STAGES: u32 = 6;
/// How much shorter the steps of anchors are: a quarter.
const ANCHOR_SHIFT: u32 = 2;
/// Rounds of a stage, times the inverse of its steps. Half of the components that come here take 900 rounds.
const LENGTHS: u32 = 2048;

/// A component whose levels are being found.
pub(super) struct Anchored<'a> {
    tiers: &'a [Tier],
    flows: &'a [Flow],
    demands: &'a [Demand],
    /// Demands by tier.
    by_tier: &'a [u32],
    /// The least of its cap and just too much for each tier alone, by flow.
    caps: Vec<Fine>,
    /// The levels so far and what they are drawn back to, by tier.
    levels: Vec<Fine>,
    anchors: Vec<Fine>,
    /// Rates at these levels, by flow, and what the cap and the other tiers offer, by demand.
    rates: Vec<Fine>,
    offers: Vec<Fine>,
}

impl<'a> Anchored<'a> {
    /// Nobody is held by any tier yet.
    pub(super) fn new(component: &'a FixedPoint) -> Self {
        let FixedPoint { tiers, flows, demands, by_tier, .. } = component;
        let mut levels = vec![0; tiers.len()];
        let mut caps = Vec::with_capacity(flows.len());
        for flow in flows {
            let own = &demands[flow.demands.start as usize..flow.demands.end as usize];
            // Whatever its multiplicity, or folding would change the way there.
            let too_much =
                |demand: &Demand| tiers[demand.tier as usize].capacity / u64::from(demand.coefficient.0) + 1;
            let cap = u128::from(own.iter().map(too_much).fold(flow.cap.0, u64::min)) << FINE_BITS;
            for demand in own {
                let level: &mut Fine = &mut levels[demand.tier as usize];
                *level = ceiling(demand, cap).max(*level);
            }
            caps.push(cap);
        }
        let anchors = levels.clone();
        let (rates, offers) = (vec![0; flows.len()], vec![0; demands.len()]);
        Self { tiers, flows, demands, by_tier, caps, levels, anchors, rates, offers }
    }

    /// The rounds it takes, and the levels in whole quanta if they settle, [`NEVER`] of tiers that hold nobody.
    pub(super) fn settle(mut self) -> (u64, Option<Vec<u64>>) {
        let mut rounds = 0;
        for stage in 1..=STAGES {
            for _ in 0..LENGTHS << stage {
                rounds += 1;
                if self.step(stage) <= NEAR {
                    return (rounds, Some((0..self.tiers.len()).map(|tier| self.whole(tier)).collect()));
                }
            }
        }
        (rounds, None)
    }

    /// Moves all levels 2^-`shift` of the way; how far the farthest was from its candidate.
    fn step(&mut self, shift: u32) -> Fine {
        self.follow();
        let candidates: Vec<Fine> = (0..self.tiers.len()).map(|tier| self.fill(tier)).collect();
        let mut farthest = 0;
        for ((level, anchor), candidate) in self.levels.iter_mut().zip(&mut self.anchors).zip(candidates) {
            farthest = farthest.max(level.abs_diff(candidate));
            let goal = u128::midpoint(*anchor, candidate);
            *anchor = part_way(*anchor, *level, shift + ANCHOR_SHIFT);
            *level = part_way(*level, goal, shift);
        }
        farthest
    }

    /// Brings rates and offers up to date with the levels.
    fn follow(&mut self) {
        for ((flow, rate), &cap) in self.flows.iter().zip(&mut self.rates).zip(&self.caps) {
            let (mut least, mut second, mut holder) = (cap, cap, None);
            for at in flow.demands.start as usize..flow.demands.end as usize {
                let demand = &self.demands[at];
                let share = share(demand, self.levels[demand.tier as usize]);
                if share < least {
                    (second, least, holder) = (least, share, Some(at));
                } else {
                    second = second.min(share);
                }
            }
            for at in flow.demands.start as usize..flow.demands.end as usize {
                let offer = if holder == Some(at) { second } else { least };
                self.offers[at] = ceiling(&self.demands[at], offer);
            }
            *rate = least;
        }
    }

    /// The level that just fills a tier, given what the others offer its flows, or one that holds nobody.
    fn fill(&self, tier: usize) -> Fine {
        let Tier { capacity, prior, .. } = self.tiers[tier];
        let prior = prior.map_or(0, |prior| self.carried(prior as usize));
        let mut room = (u128::from(capacity) << FINE_BITS).saturating_sub(prior);
        let mut offers: Vec<(Fine, u128)> =
            self.demands_of(tier).map(|at| (self.offers[at], weight(&self.demands[at]))).collect();
        offers.sort_unstable();
        // Above zero, or it would not grow again, but by no more than counts as settled.
        let idle = offers.last().map_or(0, |(most, _)| most + most / 4 + NEAR);
        let mut free: u128 = offers.iter().map(|(_, weight)| weight).sum();
        for (offer, weight) in offers {
            if offer.saturating_mul(free) > room {
                break;
            }
            room -= offer * weight;
            free -= weight;
        }
        room.checked_div(free).map_or(idle, |level| level.min(idle))
    }

    /// Load of a tier.
    fn carried(&self, tier: usize) -> Fine {
        self.demands_of(tier)
            .map(|at| load(&self.demands[at], self.rates[self.demands[at].flow as usize]))
            .sum()
    }

    fn demands_of(&self, tier: usize) -> impl Iterator<Item = usize> {
        let range = &self.tiers[tier].demands;
        self.by_tier[range.start as usize..range.end as usize].iter().map(|&at| at as usize)
    }

    /// The level of a tier as others count it: flows run just below. What is not sure is rounded off, so that
    /// nothing is overloaded.
    fn whole(&self, tier: usize) -> u64 {
        let level = self.levels[tier];
        let most = self.demands_of(tier).map(|at| self.offers[at]).max().unwrap_or(0);
        // One that holds somebody is no more than what is offered, one that holds nobody a quarter more.
        if level > most + most / 8 {
            return NEVER;
        }
        u64::try_from(level.saturating_sub(NEAR) >> FINE_BITS).map_or(NEVER, |level| level + 1)
    }
}

/// The part 2^-`shift` of the way from one level to another.
fn part_way(from: Fine, to: Fine, shift: u32) -> Fine {
    if to > from { from + ((to - from) >> shift) } else { from - ((from - to) >> shift) }
}

/// The level at which a demand runs at a rate.
fn ceiling(demand: &Demand, rate: Fine) -> Fine {
    (rate * u128::from(demand.coefficient.0)).div_ceil(u128::from(demand.weight))
}

/// The rate of a demand at a level.
fn share(demand: &Demand, level: Fine) -> Fine {
    level.saturating_mul(u128::from(demand.weight)) / u128::from(demand.coefficient.0)
}

/// Weight of all the activities behind a demand.
fn weight(demand: &Demand) -> u128 {
    u128::from(demand.weight) * u128::from(demand.multiplicity)
}

/// Load of a demand at a rate.
fn load(demand: &Demand, rate: Fine) -> Fine {
    rate * u128::from(demand.coefficient.0) * u128::from(demand.multiplicity)
}
