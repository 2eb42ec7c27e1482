//! A tree of minima over ids: entries that are re-keyed more often than they come.

use crate::time::Time;

/// At most one time per id, ordered by (time, id).
///
/// Times are kept by id, and above them the least of every block, of every block of blocks, and so on. A time
/// that is not the least of its block moves without touching anything else, so that when the rates of many
/// activities change, nearly all of them cost a write and a comparison (a heap would sift each of them).
#[derive(Clone, Debug, Default)]
pub struct FinishTree {
    /// By id, [`Time::NEVER`] if absent; then by block of the level below; last the root alone.
    levels: Vec<Vec<Time>>,
}

/// Entries per block: two cache lines.
const BLOCK: usize = 16;

impl FinishTree {
    /// Sets the time of `id`, whether or not it has one; [`Time::NEVER`] removes it. Memory grows with the largest id.
    #[inline]
    pub fn set(&mut self, id: u32, time: Time) {
        if self.levels.first().is_none_or(|times| times.len() <= id as usize) {
            self.grow(id as usize + 1);
        }
        self.update(0, id as usize, time);
    }

    /// Removes `id` if it has a time.
    #[inline]
    pub fn remove(&mut self, id: u32) {
        if self.levels.first().is_some_and(|times| times.len() > id as usize) {
            self.update(0, id as usize, Time::NEVER);
        }
    }

    /// The earliest time, [`Time::NEVER`] when there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.levels.last().map_or(Time::NEVER, |root| root[0])
    }

    /// The earliest time and its smallest id.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        let time = self.next_time();
        (time != Time::NEVER).then(|| (time, self.first(0, time) as u32))
    }

    /// Moves the ids of instant `now` to the end of `out`, ascending. Moves nothing when `now` is not the earliest time.
    #[inline]
    pub fn drain(&mut self, now: Time, out: &mut Vec<u32>) {
        while now != Time::NEVER && self.next_time() == now {
            let block = self.first(1, now);
            let ids = block * BLOCK..;
            for (id, time) in ids.zip(&mut self.levels[0][block * BLOCK..][..BLOCK]) {
                if *time == now {
                    *time = Time::NEVER;
                    out.push(id as u32);
                }
            }
            self.update(1, block, self.least_of(0, block));
        }
    }

    /// The first entry of a level that has the earliest time.
    fn first(&self, level: usize, least: Time) -> usize {
        (level..self.levels.len() - 1).rev().fold(0, |block, level| {
            let entries = &self.levels[level][block * BLOCK..][..BLOCK];
            block * BLOCK + entries.iter().take_while(|time| **time != least).count()
        })
    }

    /// Changes an entry and the minima above it as far as they change.
    #[inline]
    fn update(&mut self, level: usize, mut entry: usize, mut time: Time) {
        for level in level..self.levels.len() {
            let before = std::mem::replace(&mut self.levels[level][entry], time);
            let Some(above) = self.levels.get(level + 1) else { return };
            let block = entry / BLOCK;
            let least = above[block];
            if time > least {
                if before > least {
                    return;
                }
                time = self.least_of(level, block);
            }
            if time == least {
                return;
            }
            entry = block;
        }
    }

    /// The earliest time of a block.
    #[inline]
    fn least_of(&self, level: usize, block: usize) -> Time {
        let entries = &self.levels[level][block * BLOCK..][..BLOCK];
        entries.iter().copied().fold(Time::NEVER, Time::min)
    }

    /// Makes room for so many ids: whole blocks on every level, up to the one that is the root.
    #[cold]
    fn grow(&mut self, ids: usize) {
        let mut entries = ids;
        for level in 0.. {
            if level == self.levels.len() {
                let least = if level == 0 { Time::NEVER } else { self.least_of(level - 1, 0) };
                self.levels.push(vec![least]);
            }
            if level > 0 && entries == 1 {
                return;
            }
            entries = entries.div_ceil(BLOCK);
            let level = &mut self.levels[level];
            level.resize(level.len().max(entries * BLOCK), Time::NEVER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_as_blocks_of_blocks_are_added() {
        let mut tree = FinishTree::default();
        let ids = [3, 15, 16, 255, 256, 4_095, 4_096, 70_000];
        for (time, id) in (0..).zip(ids).map(|(rank, id)| (Time(100 - rank), id)) {
            tree.set(id, time);
            assert_eq!(tree.peek(), Some((time, id)));
        }
        let mut drained = Vec::new();
        while let Some((time, _)) = tree.peek() {
            tree.drain(time, &mut drained);
        }
        assert!(drained.iter().rev().eq(&ids));
    }

    #[test]
    fn ids_of_one_instant_come_ascending_over_all_blocks() {
        let mut tree = FinishTree::default();
        (0..600).rev().for_each(|id| tree.set(id, Time(u64::from(id % 3))));
        tree.remove(300);
        let mut drained = Vec::new();
        tree.drain(Time(0), &mut drained);
        assert!(drained.iter().copied().eq((0..600).step_by(3).filter(|id| *id != 300)));
        assert_eq!(tree.peek(), Some((Time(1), 1)));
    }
}
