//! Lower bound of the time of a kernel in tiles.
//!
//! It rests on facts of the GPU alone, at the highest clock that its driver allows: no fitted
//! efficiency makes it higher. Some SM has as many blocks as a fair share, rounded up; of each
//! resource it takes at least what they demand; before the first step a load returns, after the
//! last one its members and stores follow. A block that comes after another in the same place goes
//! through all of that by itself, and waits for its loads, as many steps ahead as it has stages.
//! Operands, output and what members touch cross the memory once.

use super::demand::Widths;
use super::{TileModel, TiledKernel, Units};

impl TileModel<'_> {
    /// Time that no implementation of the tile falls below (s); infinite where no block fits an SM.
    pub fn bound(&self, kernel: &TiledKernel) -> f64 {
        let (tile, anchor) = (&kernel.tile, &kernel.anchor);
        let resident = tile.most_blocks(self.sm, anchor.dtype, anchor.fp16_sums).blocks;
        if resident == 0 {
            return f64::INFINITY;
        }
        let (blocks, steps) = (kernel.blocks(), kernel.steps() as f64);
        let of_sm = blocks.div_ceil(u64::from(self.sms)) as f64;
        let step = self.step(kernel, Widths::Best);
        let latency = f64::from(self.sm.l2_latency);
        let waiting = match tile.units {
            Units::Tensor { stages, .. } => (latency + step.l2) / f64::from(stages.saturating_sub(1).max(1)),
            // A compiler may load any number of steps ahead into registers.
            Units::Lanes(_) => 0.0,
        };
        let rounds = blocks.div_ceil(u64::from(self.sms) * u64::from(resident)) as f64;
        let last = self.last(kernel);
        // All blocks of an SM share its resources; each alone goes through all its steps.
        let whole = step.times(steps).plus(&last).largest();
        let steps_then_last = of_sm * steps * step.largest() + last.largest();
        let shared = latency + (of_sm * whole).max(steps_then_last);
        let alone = latency + steps * step.largest().max(waiting) + last.largest();
        let clocks = shared.max(rounds * alone);
        let on_sms = clocks / self.highest_clock_hz;
        on_sms.max(kernel.compulsory_bytes() / self.hbm_bytes_per_s)
    }
}
