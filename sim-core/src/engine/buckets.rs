//! Token buckets: fluids that carry a limited volume faster than they can sustain.

use super::Engine;
use crate::fixed::{RATE_BITS, Rate};
use crate::id::FluidId;
use crate::observe::Watch;
use crate::platform::Platform;
use crate::time::Time;

/// The bucket of one fluid.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketState {
    fluid: FluidId,
    sustained: Rate,
    burst: Rate,
    volume: u128,
    /// Volume left, in 2^-40 units.
    tokens: u128,
    /// When `tokens` was right, and the load since then.
    updated: Time,
    load: Rate,
    bursting: bool,
    /// When it last ran out.
    emptied: Time,
    /// When it will be empty.
    wake: Time,
}

impl BucketState {
    /// The buckets of a platform as they are at the start.
    pub(super) fn all(platform: &Platform) -> Vec<Self> {
        let with_bucket = platform.fluids.iter().enumerate().filter_map(|(i, f)| f.bucket.map(|b| (i, f, b)));
        with_bucket
            .map(|(index, fluid, bucket)| Self {
                fluid: FluidId::from(index),
                sustained: fluid.capacity,
                burst: bucket.burst,
                volume: u128::from(bucket.volume) << RATE_BITS,
                tokens: u128::from(bucket.tokens.min(bucket.volume)) << RATE_BITS,
                updated: Time::ZERO,
                load: Rate(0),
                bursting: true,
                emptied: Time::NEVER,
                wake: Time::NEVER,
            })
            .collect()
    }

    /// The fluid and the capacity it has until its bucket is found empty.
    pub(super) fn start(&self) -> (FluidId, Rate) {
        (self.fluid, self.burst)
    }

    /// The fluid, and the units left in its bucket at `end`.
    pub(super) fn left(&self, end: Time) -> (FluidId, u64) {
        (self.fluid, (self.tokens_at(end) >> RATE_BITS) as u64)
    }

    /// Drained or filled up to a time at which the load is still the same, in 2^-40 units.
    fn tokens_at(&self, time: Time) -> u128 {
        let elapsed = u128::from(time.0.saturating_sub(self.updated.0));
        let (sustained, carried) = (u128::from(self.sustained.0), u128::from(self.load.0));
        (self.tokens + sustained * elapsed).saturating_sub(carried * elapsed).min(self.volume)
    }

    /// Drains or fills the bucket up to `now` and takes the new load; gives a new capacity if that changed.
    fn update(&mut self, now: Time, load: Rate) -> Option<Rate> {
        self.tokens = self.tokens_at(now);
        self.updated = now;
        self.load = load;
        self.wake = Time::NEVER;
        let over = load.0.saturating_sub(self.sustained.0);
        if self.bursting && over > 0 {
            if self.tokens == 0 {
                self.bursting = false;
                self.emptied = now;
                return Some(self.sustained);
            }
            let left = self.tokens.div_ceil(u128::from(over));
            self.wake = now.saturating_add(Time(u64::try_from(left).unwrap_or(u64::MAX)));
        }
        // A saturated fluid carries a rounding remainder less than its capacity; only a real lack of demand refills, and
        // what ran out in this instant has met none.
        let slack = self.sustained.0 / 1_000_000;
        if !self.bursting && self.emptied != now && load.0 + slack < self.sustained.0 {
            self.bursting = true;
            return Some(self.burst);
        }
        None
    }
}

impl<O: Watch> Engine<'_, O> {
    /// Takes the loads after a re-share; where a capacity changes, the instant is shared again.
    pub(super) fn update_buckets(&mut self) {
        for index in 0..self.state.buckets.len() {
            let fluid = self.state.buckets[index].fluid;
            let load = self.state.network.load(fluid);
            let bucket = &self.state.buckets[index];
            if load == bucket.load && bucket.wake != self.state.now {
                continue;
            }
            if let Some(capacity) = self.state.buckets[index].update(self.state.now, load) {
                self.state.network.set_capacity(fluid, capacity);
            } else if self.state.buckets[index].wake != Time::NEVER {
                let entity = self.bucket_entity(index);
                self.state.timers.push(self.state.buckets[index].wake, entity);
            }
        }
    }
}
