//! The incremental solver of uniform flows: an ordered sweep over levels that touches little more than what
//! changes.
//!
//! *Free* flows are being decided; *fixed* ones keep the level of the last solution until something proves it
//! wrong. The sweep visits tiers in ascending order of the level at which they have something to say:
//!
//! - their own level in the last solution, if flows are fixed there (does the tier still overflow at it?),
//!   or, if lower,
//! - the least level at which fixed flows *as they are* and free ones overflow it.
//!
//! At its turn, at level λ, a tier either overflows later than its old level: its group may gain and is
//! freed; or it has fixed flows above λ: they must share and are freed; or it overflows at λ: its free flows
//! are fixed there.
//!
//! *Why this is right.* A fixed flow counts with its level, which is at least min(level, λ), so the second
//! key never exceeds the tier's true level. Freed flows had a level of at least λ; exchanging w level for w
//! λ' keeps every other tier's overflow above λ. So levels are visited in ascending order and nothing below
//! the current one is ever reopened. At the end every touched tier overflows exactly at its level or nowhere,
//! every flow is at the lowest of its ceiling and its tiers, and untouched tiers see the flows they saw
//! before: by the theorem in [`super`] this is the solution.
//!
//! When a large part of all flows has been freed, the rest is freed as well, which is cheaper in bulk; then
//! the sweep is progressive filling. As long as such large changes follow each other, that is done from the
//! start. Light tiers, at least half empty before, are left out of it as if they could not overflow. If one
//! does in the end, it is swept like any tier whose capacity has changed.

use super::arena::{Arena, State};
use super::tier::NEVER;
use super::turns::{CEILING, Turn, Turns};

/// Buffers of the sweep, kept between runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweep {
    turns: Turns,
    /// The level reached.
    now: u64,
    /// Flows to be freed.
    batch: Vec<u32>,
    /// Free flows of the tier being visited.
    free: Vec<u32>,
    /// How many flows this run has freed.
    freed: usize,
    /// How many it may free before it frees everything above the level reached.
    limit: usize,
    /// Whether it has done that, so that light tiers were left out.
    all_free: bool,
    /// Tiers to be queued at once.
    heavy: Vec<u32>,
    /// Whether changes are large, so that everything above the first one is freed at once.
    bulk: bool,
}

/// A run frees everything above the level reached when it has freed one flow in so many, and
const LARGE_PART: usize = 8;
/// more than this.
const SMALL: usize = 32;

impl Sweep {
    /// Decides all free flows on `touched` and whatever they move. `pending` are the flows that are free, to
    /// which those that the sweep freed are added.
    pub(super) fn run(&mut self, arena: &mut Arena, touched: &[u32], pending: &mut Vec<u32>) {
        self.freed = 0;
        self.limit = if self.bulk { 0 } else { SMALL.max(arena.active / LARGE_PART) };
        let ceilings = pending.iter().filter_map(|&flow| ceiling(arena, flow));
        self.turns.plan(ceilings);
        self.turns.plan(touched.iter().filter_map(|&tier| turn(arena, tier, 0)));
        self.sweep(arena, pending);
        if std::mem::take(&mut self.all_free) {
            let tiers = 0..arena.tiers.len();
            let overfull = |&id: &usize| arena.tiers[id].is_overfull() && !arena.is_last(id);
            self.heavy.extend(tiers.filter(overfull).map(|id| id as u32));
            self.turns.plan(self.heavy.drain(..).filter_map(|tier| turn(arena, tier, 0)));
            self.sweep(arena, pending);
        }
    }

    /// Takes all turns.
    fn sweep(&mut self, arena: &mut Arena, pending: &mut Vec<u32>) {
        self.now = 0;
        while let Some(turn) = self.turns.next(arena) {
            self.take(arena, turn, pending);
        }
    }

    /// Takes note of how many flows really changed: after a small change the next run need not be in bulk.
    pub(super) fn learn(&mut self, arena: &Arena, changed: usize) {
        self.bulk &= changed * LARGE_PART >= arena.active;
    }

    fn take(&mut self, arena: &mut Arena, turn: Turn, pending: &mut Vec<u32>) {
        self.now = turn.level;
        if turn.id & CEILING == 0 {
            return self.visit(arena, turn.id, pending);
        }
        let flow = turn.id & !CEILING;
        if arena.flows[flow as usize].state == State::Free {
            arena.fix(flow, self.now);
        }
    }

    /// The turn of a tier.
    fn visit(&mut self, arena: &mut Arena, id: u32, pending: &mut Vec<u32>) {
        loop {
            let tier = &arena.tiers[id as usize];
            if tier.turn() > self.now {
                self.turns.push(turn(arena, id, self.now));
                return;
            }
            // Flows above the overflow are squeezed; a group that the tier no longer holds back may gain.
            let overflow = tier.overflow().max(self.now);
            let held = tier.held();
            let keep = if overflow > held { held - 1 } else { overflow };
            self.batch.clear();
            self.free.clear();
            let mut at_overflow = 0;
            let Arena { flows, members, .. } = &*arena;
            for member in &members[id as usize] {
                let flow = &flows[member.flow as usize];
                if flow.state == State::Free {
                    self.free.push(member.flow);
                } else if flow.level >= overflow.min(keep + 1) && flow.state == State::Fixed {
                    if flow.level > keep {
                        self.batch.push(member.flow);
                    } else {
                        at_overflow += arena.terms(&arena.hops[member.hop as usize]).load_weight;
                    }
                }
            }
            if self.batch.is_empty() {
                return self.saturate(arena, id, at_overflow);
            }
            self.free_batch(arena, pending);
        }
    }

    /// Fixes the free flows of a tier that overflows now; flows of weight `fixed` are at this level already.
    fn saturate(&mut self, arena: &mut Arena, id: u32, fixed: u64) {
        let tier = &mut arena.tiers[id as usize];
        if tier.level != self.now {
            tier.level = self.now;
            tier.group = fixed;
            tier.fixed -= u128::from(fixed) * u128::from(self.now);
        }
        for &flow in &self.free {
            arena.fix(flow, self.now);
        }
    }

    /// Frees the flows of the batch and queues the tiers they cross, or, when these are many, everything above.
    fn free_batch(&mut self, arena: &mut Arena, pending: &mut Vec<u32>) {
        self.freed += self.batch.len();
        for &id in &self.batch {
            arena.release(id);
            arena.flows[id as usize].enter_pending(id, pending);
            self.turns.push(ceiling(arena, id));
        }
        if self.freed > self.limit {
            return self.free_above(arena, pending);
        }
        for &id in &self.batch {
            for hop in arena.hops_of(id) {
                let tier = arena.hops[hop].tier;
                self.turns.push(turn(arena, tier, self.now));
            }
        }
    }

    /// Frees all flows above the level reached and queues the tiers that they cross, except light ones.
    fn free_above(&mut self, arena: &mut Arena, pending: &mut Vec<u32>) {
        (self.bulk, self.all_free, self.limit) = (true, true, usize::MAX);
        let tiers = (0..).zip(&arena.tiers);
        self.heavy.extend(tiers.filter(|(_, tier)| !tier.is_light()).map(|(id, _)| id));
        arena.release_above(self.now, pending);
        self.turns.plan(pending.iter().filter_map(|&flow| ceiling(arena, flow)));
        let now = self.now;
        let with_free = |id| (arena.tiers[id as usize].free > 0).then(|| turn(arena, id, now)).flatten();
        self.turns.plan(self.heavy.drain(..).filter_map(with_free));
    }
}

/// When a free flow comes to its ceiling.
fn ceiling(arena: &Arena, id: u32) -> Option<Turn> {
    let flow = &arena.flows[id as usize];
    (flow.state == State::Free && flow.ceiling != NEVER)
        .then_some(Turn { level: flow.ceiling, id: id | CEILING })
}

/// The next turn of a tier, unless it has this one, or an earlier one, already.
fn turn(arena: &mut Arena, id: u32, now: u64) -> Option<Turn> {
    let slack = arena.is_slack(id as usize);
    let tier = &mut arena.tiers[id as usize];
    if slack && tier.group == 0 {
        return None;
    }
    let level = tier.turn().max(now);
    (level < tier.queued).then(|| {
        tier.queued = level;
        Turn { level, id }
    })
}
