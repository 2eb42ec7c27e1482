//! Registers of a thread: sums, operands at hand and addresses.

use super::{Lanes, Tile, Units};
use crate::catalogue::Multiprocessor;
use crate::kernels::Dtype;
use crate::kernels::occupancy::{BlockResources, Occupancy};

/// Registers of a thread on ordinary lanes beside sums and operands: addresses and counters (an
/// estimate: with it CLBlast's tiles spill where their times rise).
const ADDRESSES: f64 = 17.0;
/// Addresses and counters on tensor cores, and registers for each sum, with what a compiler adds
/// while steps overlap: near those that Triton's kernels for Hopper have.
const ADDRESSES_OF_TENSOR: f64 = 24.0;
const OVERLAP: f64 = 1.3;
/// Registers beside the sums that no kernel does without.
const FEWEST: u32 = 2;

/// Registers of a thread, and how many of those that it needs have no room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Registers {
    /// Registers that it is given.
    pub(super) held: u32,
    /// Registers that live in memory instead.
    pub(super) spilled: f64,
}

impl Tile {
    /// Sums of a thread, in registers.
    fn sums(&self, fp16_sums: bool) -> u32 {
        let sums = self.m.saturating_mul(self.n).div_ceil(self.threads().max(1));
        if fp16_sums { sums.div_ceil(2) } else { sums }
    }

    /// Registers that a compiler needs.
    fn needed(&self, fp16_sums: bool) -> f64 {
        let sums = f64::from(self.sums(fp16_sums));
        match self.units {
            Units::Tensor { .. } => ADDRESSES_OF_TENSOR + OVERLAP * sums,
            Units::Lanes(lanes) => {
                let [rows, columns] = lanes.part(self);
                ADDRESSES + sums + f64::from(rows + columns)
            }
        }
    }

    pub(super) fn registers(&self, sm: &Multiprocessor, fp16_sums: bool) -> Registers {
        let (needed, most) = (self.needed(fp16_sums), f64::from(sm.registers_per_thread));
        Registers { held: needed.min(most) as u32, spilled: (needed - most).max(0.0) }
    }

    /// Blocks on an SM, at a number of registers a thread.
    pub(super) fn occupancy(&self, sm: &Multiprocessor, dtype: Dtype, registers: u32) -> Occupancy {
        let (threads, shared_bytes) = (self.threads(), self.shared_bytes(dtype));
        Occupancy::of(sm, &BlockResources { threads, registers, shared_bytes })
    }

    /// The most blocks on an SM that any compiler reaches.
    pub(super) fn most_blocks(&self, sm: &Multiprocessor, dtype: Dtype, fp16_sums: bool) -> Occupancy {
        let fewest = (self.sums(fp16_sums) + FEWEST).min(sm.registers_per_thread);
        self.occupancy(sm, dtype, fewest)
    }
}

impl Lanes {
    /// Rows and columns of the tile that a thread has.
    pub(super) fn part(&self, tile: &Tile) -> [u32; 2] {
        let across = self.across.max(1);
        let down = (tile.threads() / across).max(1);
        [tile.m.div_ceil(across), tile.n.div_ceil(down)]
    }
}
