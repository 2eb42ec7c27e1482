//! An indexed 4-ary min-heap: entries that are re-keyed more often than they come.

use crate::time::Time;

/// At most one time per id, ordered by (time, id).
#[derive(Clone, Debug, Default)]
pub struct FinishHeap {
    /// Keys in heap order: the children of position `i` are at `4 i + 1 ..= 4 i + 4`.
    keys: Vec<Key>,
    /// Position of each id in `keys`, or [`ABSENT`].
    position: Vec<u32>,
}

/// Children per node: half the depth of a binary heap for the same cache lines touched.
const ARITY: usize = 4;
/// Position of an id that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// Time and id in one integer, so that one comparison decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    #[inline]
    fn new(time: Time, id: u32) -> Self {
        Self(u128::from(time.0) << 32 | u128::from(id))
    }

    #[inline]
    fn time(self) -> Time {
        Time((self.0 >> 32) as u64)
    }

    #[inline]
    fn id(self) -> u32 {
        self.0 as u32
    }
}

impl FinishHeap {
    /// Sets the time of `id`, whether or not it has one; [`Time::NEVER`] removes it. Memory grows with the largest id.
    #[inline]
    pub fn set(&mut self, id: u32, time: Time) {
        if time == Time::NEVER {
            return self.remove(id);
        }
        if self.position.len() <= id as usize {
            self.position.resize(id as usize + 1, ABSENT);
        }
        let key = Key::new(time, id);
        match self.position[id as usize] {
            ABSENT => {
                self.keys.push(key);
                self.rise(self.keys.len() - 1, key);
            }
            position => self.place(position as usize, key),
        }
    }

    /// Removes `id` if it has a time.
    #[inline]
    pub fn remove(&mut self, id: u32) {
        let Some(&position) = self.position.get(id as usize) else { return };
        if position != ABSENT {
            self.take(position as usize);
        }
    }

    /// The earliest time and its smallest id.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        self.keys.first().map(|key| (key.time(), key.id()))
    }

    /// Moves the ids of instant `now` to the end of `out`, ascending. Moves nothing when `now` is not the earliest time.
    #[inline]
    pub fn drain(&mut self, now: Time, out: &mut Vec<u32>) {
        while let Some(&key) = self.keys.first()
            && key.time() == now
        {
            self.take(0);
            out.push(key.id());
        }
    }

    /// Removes the key at `position` and fills the gap with the last one.
    fn take(&mut self, position: usize) {
        self.position[self.keys[position].id() as usize] = ABSENT;
        let last = self.keys.pop().expect("a position in the heap exists");
        if position < self.keys.len() {
            self.place(position, last);
        }
    }

    /// Puts `key` in the gap at `position`, or where the order wants it above or below.
    fn place(&mut self, position: usize, key: Key) {
        if position > 0 && key < self.keys[(position - 1) / ARITY] {
            self.rise(position, key);
        } else {
            self.sink(position, key);
        }
    }

    /// Moves the gap at `position` up until `key` fits in.
    #[inline]
    fn rise(&mut self, mut position: usize, key: Key) {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.keys[parent] <= key {
                break;
            }
            self.write(position, self.keys[parent]);
            position = parent;
        }
        self.write(position, key);
    }

    /// Moves the gap at `position` down until `key` fits in.
    #[inline]
    fn sink(&mut self, mut position: usize, key: Key) {
        loop {
            let first = ARITY * position + 1;
            let end = (first + ARITY).min(self.keys.len());
            let Some(child) = (first..end).min_by_key(|&child| self.keys[child]) else { break };
            if self.keys[child] >= key {
                break;
            }
            self.write(position, self.keys[child]);
            position = child;
        }
        self.write(position, key);
    }

    #[inline]
    fn write(&mut self, position: usize, key: Key) {
        self.keys[position] = key;
        self.position[key.id() as usize] = position as u32;
    }
}
