//! Timers as a binary heap: slow and plainly right.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim_core::time::Time;

/// Pending (time, entity) entries, with the interface of [`Timers`](sim_core::queue::timers::Timers).
#[derive(Clone, Debug, Default)]
pub(crate) struct PlainTimers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl PlainTimers {
    /// Adds an entry; one at [`Time::NEVER`] is not kept.
    pub(crate) fn push(&mut self, time: Time, entity: u32) {
        if time != Time::NEVER {
            self.heap.push(Reverse((time, entity)));
        }
    }

    /// The earliest pending instant, [`Time::NEVER`] when nothing is pending.
    pub(crate) fn next_time(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((time, _))| *time)
    }

    /// Moves the entities of instant `now` to the end of `out`, ascending. Moves nothing when `now` is not
    /// [`PlainTimers::next_time`].
    pub(crate) fn drain(&mut self, now: Time, out: &mut Vec<u32>) {
        while let Some(&Reverse((time, entity))) = self.heap.peek()
            && time == now
        {
            self.heap.pop();
            out.push(entity);
        }
    }
}
