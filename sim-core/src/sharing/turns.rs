//! The order in which a sweep visits tiers: by level, lowest first. The order among equals does not matter.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::arena::Arena;
use super::tier::NEVER;

/// A tier, or with [`CEILING`] a flow, that has something to say at a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) level: u64,
    pub(super) id: u32,
}

/// Marks a flow that comes to its ceiling.
pub(super) const CEILING: u32 = 1 << 31;

/// Turns to come. What is known at once is sorted at once: equal levels, as of a collective's flows, cost
/// next to nothing then, while each would sink to the bottom of a heap. What is learnt on the way goes into a
/// heap.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// Highest first.
    planned: Vec<Turn>,
    learnt: BinaryHeap<Turn>,
}

enum Due {
    Now,
    /// The tier has moved up since.
    At(u64),
    /// There is an earlier turn, or nothing to say any more.
    Never,
}

impl Turns {
    /// Adds turns and sorts.
    pub(super) fn plan(&mut self, turns: impl Iterator<Item = Turn>) {
        self.planned.extend(turns);
        self.planned.sort_unstable_by_key(|turn| std::cmp::Reverse(turn.level));
    }

    /// Adds a turn, if there is one.
    #[inline]
    pub(super) fn push(&mut self, turn: Option<Turn>) {
        if let Some(turn) = turn {
            self.learnt.push(turn);
        }
    }

    /// The next turn that is due.
    pub(super) fn next(&mut self, arena: &mut Arena) -> Option<Turn> {
        loop {
            let first = self.learnt.peek().map_or(NEVER, |turn| turn.level);
            if let Some(turn) = self.planned.pop_if(|turn| turn.level <= first) {
                match turn.due(arena) {
                    Due::Now => return Some(turn),
                    Due::At(level) => self.learnt.push(Turn { level, id: turn.id }),
                    Due::Never => {}
                }
                continue;
            }
            let mut turn = self.learnt.peek_mut()?;
            match turn.due(arena) {
                Due::Now => return Some(PeekMut::pop(turn)),
                Due::At(level) => turn.level = level,
                Due::Never => {
                    PeekMut::pop(turn);
                }
            }
        }
    }
}

impl Turn {
    #[inline]
    fn due(self, arena: &mut Arena) -> Due {
        if self.id & CEILING != 0 {
            return Due::Now;
        }
        let tier = &mut arena.tiers[self.id as usize];
        if tier.queued != self.level {
            return Due::Never;
        }
        let level = tier.turn();
        if level <= self.level {
            tier.queued = NEVER;
            return Due::Now;
        }
        tier.queued = level;
        if level == NEVER { Due::Never } else { Due::At(level) }
    }
}

impl Ord for Turn {
    /// The lowest level is the greatest, for [`BinaryHeap`].
    fn cmp(&self, other: &Self) -> Ordering {
        other.level.cmp(&self.level)
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.level == other.level
    }
}

impl Eq for Turn {}
