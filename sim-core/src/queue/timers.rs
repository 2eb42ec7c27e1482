//! A monotone radix heap (Ahuja, Mehlhorn, Orlin, Tarjan: Faster algorithms for the shortest path problem, J. ACM 37,
//! 1990). Simulated time never runs backwards, so an entry need not be sorted before it is near: it waits in the bucket
//! of the highest bit in which it differs from the instant drained last, and moves to lower buckets as that bit is passed.

use std::mem;

use crate::time::Time;

/// Pending (time, entity) entries.
///
/// Entries of one instant come out together, ascending by entity. There is no cancellation: an owner that changed its
/// mind drops the entry when it comes.
#[derive(Clone, Debug)]
pub struct Timers {
    /// The instant drained last.
    last: u64,
    /// Entities due at `last`, pushed since it was drained.
    due: Vec<u32>,
    /// `buckets[i]` holds the entries whose highest bit that differs from `last` is bit `i`; hence all entries of an
    /// instant are together, and those of a lower bucket come before those of a higher one.
    buckets: [Vec<Entry>; 64],
    /// Earliest time in each bucket. Keeping it makes looking ahead free of side effects: `last` moves only when an
    /// instant is drained, and what happens before the next timer may still push earlier ones.
    earliest: [u64; 64],
    /// Bit `i` is set when bucket `i` is not empty.
    occupied: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    entity: u32,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            last: 0,
            due: Vec::new(),
            buckets: [const { Vec::new() }; 64],
            earliest: [u64::MAX; 64],
            occupied: 0,
        }
    }
}

impl Timers {
    /// Adds an entry, not before the instant drained last. An entry at [`Time::NEVER`] never comes and is not kept.
    #[inline]
    pub fn push(&mut self, time: Time, entity: u32) {
        debug_assert!(time.0 >= self.last, "timer set to {time}, before the instant drained last");
        if time.0 == self.last {
            self.due.push(entity);
        } else if time != Time::NEVER {
            self.keep(Entry { time: time.0, entity });
        }
    }

    /// The earliest pending instant, [`Time::NEVER`] when nothing is pending.
    #[inline]
    pub fn next_time(&self) -> Time {
        if !self.due.is_empty() {
            Time(self.last)
        } else if self.occupied == 0 {
            Time::NEVER
        } else {
            Time(self.earliest[self.occupied.trailing_zeros() as usize])
        }
    }

    /// Moves the entities of instant `now` to the end of `out`, ascending; what is pushed for `now` afterwards comes
    /// with the next call. Moves nothing when `now` is not [`Timers::next_time`].
    #[inline]
    pub fn drain(&mut self, now: Time, out: &mut Vec<u32>) {
        if now != self.next_time() || now == Time::NEVER {
            return;
        }
        let start = out.len();
        if self.due.is_empty() {
            self.advance(now.0, out);
        } else {
            out.append(&mut self.due);
        }
        if out.len() - start > 1 {
            out[start..].sort_unstable();
        }
    }

    /// Makes `now`, the earliest time of the lowest bucket, the last instant: the bucket's entries are due or move to
    /// lower buckets. Entries of higher buckets differ from `now` in the same highest bit as from the instant before.
    #[inline]
    fn advance(&mut self, now: u64, out: &mut Vec<u32>) {
        let lowest = self.occupied.trailing_zeros() as usize & 63;
        self.last = now;
        self.occupied &= self.occupied - 1;
        self.earliest[lowest] = u64::MAX;
        if let [only] = self.buckets[lowest][..] {
            out.push(only.entity);
            self.buckets[lowest].clear();
            return;
        }
        let mut bucket = mem::take(&mut self.buckets[lowest]);
        for entry in bucket.drain(..) {
            if entry.time == now {
                out.push(entry.entity);
            } else {
                self.keep(entry);
            }
        }
        self.buckets[lowest] = bucket; // keeps its memory
    }

    /// Puts an entry later than `last` in its bucket.
    #[inline]
    fn keep(&mut self, entry: Entry) {
        let bucket = (entry.time ^ self.last).ilog2() as usize & 63;
        self.occupied |= 1 << bucket;
        self.earliest[bucket] = self.earliest[bucket].min(entry.time);
        self.buckets[bucket].push(entry);
    }
}
