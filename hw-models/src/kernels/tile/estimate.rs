//! Time of a kernel in tiles.

use super::demand::{Demand, Widths};
use super::{Lanes, TileModel, TiledKernel, Units};
use crate::kernels::occupancy::Occupancy;

/// Estimated time of a kernel, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileEstimate {
    /// Time (s); infinite where no block fits an SM.
    pub seconds: f64,
    /// Registers of a thread.
    pub registers: u32,
    /// Registers of a thread that live in memory.
    pub spilled: f64,
    /// Bytes that they are stored and loaded with, through the first-level cache.
    pub spilled_bytes: f64,
    /// Blocks on an SM, and the limit that binds.
    pub occupancy: Occupancy,
    /// Waves of blocks.
    pub waves: u64,
    /// Resource that takes longest.
    pub binds: Resource,
}

/// Resources of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Units that multiply.
    Arithmetic,
    /// Instructions that are issued.
    Issue,
    /// Special functions.
    Special,
    /// Shared memory.
    Shared,
    /// Bus to the L2 cache.
    L2,
    /// Device memory.
    Dram,
    /// Latency that too few blocks hide.
    Latency,
}

/// Resources in the order of a [`Demand`].
const OF_DEMAND: [Resource; 5] =
    [Resource::Arithmetic, Resource::Issue, Resource::Special, Resource::Shared, Resource::L2];

/// Bytes of a register.
const REGISTER: f64 = 4.0;

/// Clocks of a block, by what they wait for.
struct Chain {
    /// Work of a step of one block.
    work: f64,
    /// A step of a block alone: its latency, and the work that no other step covers.
    alone: f64,
    /// Before the first step.
    first: f64,
    /// After the last step.
    last: f64,
}

impl TileModel<'_> {
    /// Time of a kernel.
    pub fn estimate(&self, kernel: &TiledKernel) -> TileEstimate {
        let (tile, anchor) = (&kernel.tile, &kernel.anchor);
        let registers = tile.registers(self.sm, anchor.fp16_sums);
        let occupancy = tile.occupancy(self.sm, anchor.dtype, registers.held);
        let spilling = self.spilling(kernel, registers.spilled);
        let step = self.reached(self.step(kernel, Widths::Declared)).plus(&Demand {
            shared: spilling / f64::from(self.sm.shared_bytes_per_clock.max(1)),
            ..Demand::default()
        });
        let (blocks, steps) = (kernel.blocks(), kernel.steps() as f64);
        let resident = u64::from(occupancy.blocks) * u64::from(self.sms);
        let result = |seconds, waves, binds| TileEstimate {
            seconds,
            registers: registers.held,
            spilled: registers.spilled,
            spilled_bytes: spilling * steps * blocks as f64,
            occupancy,
            waves,
            binds,
        };
        if resident == 0 {
            return result(f64::INFINITY, 0, Resource::Latency);
        }
        let chain = self.chain(kernel, &step);
        let (full, rest) = (blocks / resident, blocks % resident);
        let wave = |blocks: u64| {
            let blocks = blocks as f64;
            steps * (blocks * chain.work).max(chain.alone) + chain.first + blocks * chain.last
        };
        let ending = if rest > 0 { wave(rest.div_ceil(u64::from(self.sms))) } else { 0.0 };
        let clocks = full as f64 * wave(u64::from(occupancy.blocks)) + ending;
        let clock = (self.clock_hz * self.parameters.clock).min(self.highest_clock_hz);
        let on_sms = clocks / clock;
        let in_memory = self.dram_bytes(kernel, resident) / (self.achieved * self.hbm_bytes_per_s);
        let whole = step.times(steps).plus(&self.reached(self.last(kernel)));
        let together = f64::from(occupancy.blocks);
        let waiting = chain.alone > together * chain.work && steps * chain.alone > together * whole.largest();
        let binds = match (in_memory > on_sms, waiting) {
            (true, _) => Resource::Dram,
            (false, true) => Resource::Latency,
            (false, false) => busiest(&whole),
        };
        let hidden = on_sms.min(in_memory);
        let seconds =
            self.parameters.start_us * 1e-6 + on_sms.max(in_memory) + self.parameters.serial * hidden;
        result(seconds, full + u64::from(rest > 0), binds)
    }

    /// A demand on the L2 cache as it is reached.
    fn reached(&self, demand: Demand) -> Demand {
        Demand { l2: demand.l2 / self.parameters.l2, ..demand }
    }

    /// Bytes with which a step of a block stores and loads registers that have no room.
    fn spilling(&self, kernel: &TiledKernel, spilled: f64) -> f64 {
        let accesses = 2.0 * spilled * self.parameters.spill * f64::from(kernel.tile.threads());
        // Tensor cores take a step in one go; lanes touch their sums for each element of it.
        let times = match kernel.tile.units {
            Units::Tensor { .. } => 1.0,
            Units::Lanes(_) => f64::from(kernel.tile.k),
        };
        accesses * times * REGISTER
    }

    fn chain(&self, kernel: &TiledKernel, step: &Demand) -> Chain {
        let serial = self.parameters.serial;
        let overlapped = |demand: &Demand| demand.largest() + serial * (demand.sum() - demand.largest());
        let work = overlapped(step);
        let first = self.parameters.latency * f64::from(self.sm.l2_latency);
        let alone = match kernel.tile.units {
            Units::Tensor { stages, .. } => {
                let ahead = f64::from(stages.saturating_sub(1).max(1));
                // With two stages the next copy waits until the step before has read its buffer.
                let waits = if stages <= 2 { work } else { 0.0 };
                (first + step.l2) / ahead + waits
            }
            Units::Lanes(Lanes { unroll, copies, .. }) => {
                let reads = f64::from(kernel.tile.k) / f64::from(unroll.max(1));
                let of_reads = reads * self.parameters.latency * f64::from(self.sm.shared_latency);
                let copied = if copies.iter().any(Option::is_some) { first } else { 0.0 };
                of_reads + copied + work
            }
        };
        Chain { work, alone, first, last: overlapped(&self.reached(self.last(kernel))) }
    }

    /// Bytes of device memory: each wave reads the rows and the columns of the tiles that it has,
    /// unless the L2 cache holds all operands.
    fn dram_bytes(&self, kernel: &TiledKernel, resident: u64) -> f64 {
        let (anchor, tile) = (&kernel.anchor, &kernel.tile);
        let compulsory = kernel.compulsory_bytes();
        let sums = if tile.splits > 1 {
            f64::from(tile.splits + 1) * 4.0 * anchor.m as f64 * anchor.n as f64
        } else {
            0.0
        };
        if (anchor.operand_bytes as f64) < self.l2_bytes {
            return compulsory + sums;
        }
        let rows = anchor.m.div_ceil(u64::from(tile.m.max(1))).max(1);
        let of_wave = (resident / u64::from(tile.splits.max(1))).max(1);
        let (down, across) = (of_wave.min(rows), of_wave.div_ceil(rows));
        let covered = (down * u64::from(tile.m)).min(anchor.m) as f64
            + (across * u64::from(tile.n)).min(anchor.n) as f64;
        let waves = kernel.blocks() as f64 / resident as f64;
        let unique = anchor.operand_bytes as f64 / ((anchor.m + anchor.n) as f64 * anchor.k as f64);
        let read = waves.max(1.0) * covered * anchor.k as f64 * unique;
        compulsory + sums + (read - anchor.operand_bytes as f64).max(0.0)
    }
}

fn busiest(demand: &Demand) -> Resource {
    let clocks = demand.all();
    let largest = (0..clocks.len()).max_by(|&a, &b| clocks[a].total_cmp(&clocks[b]));
    OF_DEMAND[largest.unwrap_or(0)]
}
