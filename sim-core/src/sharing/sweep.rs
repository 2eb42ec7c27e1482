//! The incremental solver of uniform flows: an ordered sweep over levels that touches little more than what changes.
//!
//! *Free* flows are being decided; *fixed* ones keep the level of the last solution until something proves it wrong. The
//! sweep visits tiers in ascending order of the level at which they have something to say:
//!
//! - their own level in the last solution, if flows are fixed there (does the tier still overflow at it?), or, if lower,
//! - the least level at which fixed flows *as they are* and free ones overflow it.
//!
//! At its turn, at level λ, a tier either overflows later than its old level: its group may gain and is freed; or it has
//! fixed flows above λ: they must share and are freed; or it overflows at λ: its free flows are fixed there.
//!
//! *Why this is right.* A fixed flow counts with its level, which is at least min(level, λ), so the second key never
//! exceeds the tier's true level. Freed flows had a level of at least λ; exchanging w level for w λ' keeps every other
//! tier's overflow above λ. So levels are visited in ascending order and nothing below the current one is ever reopened.
//! At the end every touched tier overflows exactly at its level or nowhere, every flow is at the lowest of its ceiling and
//! its tiers, and untouched tiers see the flows they saw before: by the theorem in [`super`] this is the solution.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arena::{Arena, NEVER, State};

/// Buffers of the sweep, kept between runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweep {
    /// Levels of tiers and, with [`CEILING`], of flows, lowest first.
    queue: BinaryHeap<Reverse<u128>>,
    /// The level reached.
    now: u64,
    /// Flows of the tier being visited.
    batch: Vec<u32>,
    /// Flows that were freed; their rate may change.
    freed: Vec<u32>,
}

/// Marks a flow that comes to its ceiling in the queue.
const CEILING: u32 = 1 << 31;

impl Sweep {
    /// Decides all free flows on `touched` and whatever they move. `pending` are the flows that are free, to which those
    /// that the sweep freed are added.
    pub(super) fn run(&mut self, arena: &mut Arena, touched: &[u32], pending: &mut Vec<u32>) {
        self.now = 0;
        for &flow in pending.iter() {
            self.expect_ceiling(arena, flow);
        }
        for &tier in touched {
            self.enqueue(arena, tier);
        }
        while let Some(Reverse(next)) = self.queue.pop() {
            self.now = (next >> 32) as u64;
            let entry = next as u32;
            if entry & CEILING == 0 {
                let tier = &mut arena.tiers[entry as usize];
                if tier.queued == self.now {
                    tier.queued = NEVER;
                    self.visit(arena, entry);
                }
            } else {
                let flow = entry & !CEILING;
                if arena.flows[flow as usize].state == State::Free {
                    arena.fix(flow, self.now);
                }
            }
        }
        pending.append(&mut self.freed);
    }

    /// The turn of a tier.
    fn visit(&mut self, arena: &mut Arena, id: u32) {
        loop {
            let tier = &arena.tiers[id as usize];
            let overflow = tier.overflow().max(self.now);
            let old = if tier.group > 0 { tier.level } else { NEVER };
            if overflow.min(old) > self.now {
                return self.enqueue(arena, id);
            }
            // Flows above the overflow are squeezed; a group that the tier no longer holds back may gain.
            let keep = if overflow > old { old - 1 } else { overflow };
            self.batch.clear();
            let mut at_overflow = 0;
            for member in &arena.members[id as usize] {
                let flow = &arena.flows[member.flow as usize];
                if flow.state == State::Fixed && flow.level > keep {
                    self.batch.push(member.flow);
                } else if flow.state == State::Fixed && flow.level == overflow {
                    at_overflow += arena.hops[member.hop as usize].load_weight();
                }
            }
            if self.batch.is_empty() {
                return self.saturate(arena, id, at_overflow);
            }
            self.free_batch(arena);
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
        let free = arena.members[id as usize].iter().map(|member| member.flow);
        self.batch.extend(free.filter(|&flow| arena.flows[flow as usize].state == State::Free));
        for flow in self.batch.drain(..) {
            arena.fix(flow, self.now);
        }
    }

    /// Frees the flows of the batch and queues the tiers they cross.
    fn free_batch(&mut self, arena: &mut Arena) {
        let batch = std::mem::take(&mut self.batch);
        for &id in &batch {
            arena.release(id);
            let flow = &mut arena.flows[id as usize];
            if !flow.pending {
                flow.pending = true;
                self.freed.push(id);
            }
            self.expect_ceiling(arena, id);
            for hop in arena.hops_of(id) {
                self.enqueue(arena, arena.hops[hop].tier);
            }
        }
        self.batch = batch;
    }

    fn expect_ceiling(&mut self, arena: &Arena, id: u32) {
        let flow = &arena.flows[id as usize];
        if flow.state == State::Free && flow.ceiling != NEVER {
            self.queue.push(Reverse(u128::from(flow.ceiling) << 32 | u128::from(id | CEILING)));
        }
    }

    /// Queues a tier at the level of its next turn unless it is there, or earlier, already.
    fn enqueue(&mut self, arena: &mut Arena, id: u32) {
        let slack = arena.is_slack(id as usize);
        let tier = &mut arena.tiers[id as usize];
        let held = if tier.group > 0 { tier.level } else { NEVER };
        if slack && held == NEVER {
            return;
        }
        let key = tier.overflow().min(held).max(self.now);
        if key < tier.queued {
            tier.queued = key;
            self.queue.push(Reverse(u128::from(key) << 32 | u128::from(id)));
        }
    }
}
