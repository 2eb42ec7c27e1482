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
//! start.

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
    /// Whether changes are large, so that everything above the first one is freed at once.
    bulk: bool,
}

/// A run frees everything above the level reached when it has freed one flow in so many, and
const LARGE_PART: usize = 3;
/// more than this.
const SMALL: usize = 32;

impl Sweep {
    /// Decides all free flows on `touched` and whatever they move. `pending` are the flows that are free, to
    /// which those that the sweep freed are added.
    pub(super) fn run(&mut self, arena: &mut Arena, touched: &[u32], pending: &mut Vec<u32>) {
        (self.now, self.freed) = (0, 0);
        let ceilings = pending.iter().filter_map(|&flow| ceiling(arena, flow));
        self.turns.plan(ceilings);
        self.turns.plan(touched.iter().filter_map(|&tier| turn(arena, tier, 0)));
        let mut limit = if self.bulk { 0 } else { SMALL.max(arena.active / LARGE_PART) };
        let mut all_above = false;
        while let Some(turn) = self.turns.next(arena) {
            if all_above && arena.undecided == 0 && turn.level > self.now {
                // Nobody is left to be fixed, and no group above is left to be freed.
                return self.turns.clear(arena);
            }
            self.take(arena, turn, pending);
            if self.freed > limit {
                (self.bulk, all_above, limit) = (true, true, usize::MAX);
                self.free_above(arena, pending);
            }
        }
    }

    /// Takes note of how many flows really changed: after a small change the next run need not be in bulk.
    pub(super) fn learn(&mut self, arena: &Arena, changed: usize) {
        self.bulk &= changed * LARGE_PART >= arena.active;
    }

    /// Frees all flows above the level reached.
    fn free_above(&mut self, arena: &mut Arena, pending: &mut Vec<u32>) {
        arena.release_above(self.now, &mut self.batch);
        for &flow in &self.batch {
            arena.flows[flow as usize].enter_pending(flow, pending);
        }
        self.turns.plan(self.batch.iter().filter_map(|&flow| ceiling(arena, flow)));
        let now = self.now;
        let tiers = 0..arena.tiers.len() as u32;
        let with_free = |id| (arena.tiers[id as usize].free > 0).then(|| turn(arena, id, now)).flatten();
        self.turns.plan(tiers.filter_map(with_free));
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
            for member in &arena.members[id as usize] {
                let flow = &arena.flows[member.flow as usize];
                match flow.state {
                    State::Free => self.free.push(member.flow),
                    State::Fixed if flow.level > keep => self.batch.push(member.flow),
                    State::Fixed if flow.level == overflow => {
                        at_overflow += arena.terms(&arena.hops[member.hop as usize]).load_weight;
                    }
                    _ => {}
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
            tier.fixed -= fixed * self.now;
        }
        for &flow in &self.free {
            arena.fix(flow, self.now);
        }
    }

    /// Frees the flows of the batch and queues the tiers they cross.
    fn free_batch(&mut self, arena: &mut Arena, pending: &mut Vec<u32>) {
        self.freed += self.batch.len();
        for &id in &self.batch {
            arena.release(id);
            arena.flows[id as usize].enter_pending(id, pending);
            self.turns.push(ceiling(arena, id));
        }
        for &id in &self.batch {
            for hop in arena.hops_of(id) {
                let tier = arena.hops[hop].tier;
                self.turns.push(turn(arena, tier, self.now));
            }
        }
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
