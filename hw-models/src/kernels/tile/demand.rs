//! Demand of a block on the resources of an SM, in clocks.

use super::bank_patterns::{Pattern, WIDEST};
use super::{Lanes, Members, Tile, TileModel, TiledKernel, Units};
use crate::catalogue::WARP;

/// Bytes of a word of shared memory.
const WORD: f64 = 4.0;
/// Banks of shared memory, a word each.
const BANKS: f64 = 32.0;

/// Clocks that a block takes of each resource of its SM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    /// Units that multiply.
    pub(super) arithmetic: f64,
    /// Instructions that schedulers issue.
    pub(super) issue: f64,
    /// Special functions.
    pub(super) special: f64,
    /// Passes over shared memory and the first-level cache.
    pub(super) shared: f64,
    /// Bytes over the bus to the L2 cache.
    pub(super) l2: f64,
}

/// Width of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Widths {
    /// As the tile says.
    Declared,
    /// The best that a compiler could make of adjacent loads from shared memory.
    Best,
}

impl Demand {
    /// Clocks by resource.
    pub(super) const fn all(&self) -> [f64; 5] {
        [self.arithmetic, self.issue, self.special, self.shared, self.l2]
    }

    pub(super) fn largest(&self) -> f64 {
        self.all().into_iter().fold(0.0, f64::max)
    }

    pub(super) fn sum(&self) -> f64 {
        self.all().into_iter().sum()
    }

    pub(super) fn times(&self, count: f64) -> Self {
        Self {
            arithmetic: self.arithmetic * count,
            issue: self.issue * count,
            special: self.special * count,
            shared: self.shared * count,
            l2: self.l2 * count,
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            arithmetic: self.arithmetic + other.arithmetic,
            issue: self.issue + other.issue,
            special: self.special + other.special,
            shared: self.shared + other.shared,
            l2: self.l2 + other.l2,
        }
    }
}

impl TileModel<'_> {
    /// Clocks of a pass over all banks.
    fn pass(&self) -> f64 {
        BANKS * WORD / f64::from(self.sm.shared_bytes_per_clock.max(1))
    }

    /// Demand of a step of a block.
    pub(super) fn step(&self, kernel: &TiledKernel, widths: Widths) -> Demand {
        let tile = &kernel.tile;
        let element = kernel.anchor.dtype.bytes() as f64;
        let [m, n, k] = [tile.m, tile.n, tile.k].map(f64::from);
        let multiplies = m * n * k;
        let loaded = (m + n) * k * element;
        let (rate, shared, instructions) = match tile.units {
            Units::Lanes(lanes) => {
                let [shared, loads] = self.lanes(tile, &lanes, widths);
                // Two halves are a word, of which a lane multiplies both at once.
                let of_word = (element / WORD).min(1.0);
                let rate = f64::from(self.sm.fp32_lanes.max(1)) / of_word;
                let issued = multiplies * of_word / f64::from(WARP) + loads * k * of_word;
                (rate, shared * k * of_word, issued)
            }
            Units::Tensor { fragment, .. } => {
                let [rows, columns] = fragment.map(|extent| f64::from(extent.max(1)));
                let read = m * (n / columns).ceil() + n * (m / rows).ceil();
                let bytes = (read + m + n) * k * element;
                // A copy of 16 bytes a lane; one instruction multiplies a whole fragment.
                let copies = loaded / (16.0 * f64::from(WARP));
                (self.multiplies, bytes / f64::from(self.sm.shared_bytes_per_clock.max(1)), copies)
            }
        };
        let main = Demand {
            arithmetic: multiplies / rate,
            issue: instructions / f64::from(self.sm.schedulers),
            special: 0.0,
            shared,
            l2: loaded / f64::from(self.sm.l2_bytes_per_clock.max(1)),
        };
        main.plus(&self.members(&kernel.before, m * k))
    }

    /// Demand of members on a number of elements.
    pub(super) fn members(&self, members: &Members, elements: f64) -> Demand {
        let warps = elements / f64::from(WARP);
        Demand {
            arithmetic: 0.0,
            issue: warps * (members.ordinary + members.special) / f64::from(self.sm.schedulers),
            special: elements * members.special / f64::from(self.sm.special_lanes.max(1)),
            shared: 0.0,
            l2: elements * (members.read + members.written) / f64::from(self.sm.l2_bytes_per_clock.max(1)),
        }
    }

    /// Demand of what follows the last step of a block: members, and the output.
    pub(super) fn last(&self, kernel: &TiledKernel) -> Demand {
        let outputs = f64::from(kernel.tile.m) * f64::from(kernel.tile.n);
        let stored = Members { written: kernel.anchor.dtype.bytes() as f64, ..Members::default() };
        self.members(&kernel.after, outputs).plus(&self.members(&stored, outputs))
    }

    /// Clocks of shared memory, and loads of all warps, for each element of the contraction.
    fn lanes(&self, tile: &Tile, lanes: &Lanes, widths: Widths) -> [f64; 2] {
        let (warps, part) = (f64::from(tile.warps), lanes.part(tile));
        let across = lanes.across.clamp(1, WARP);
        let extents = [tile.m, tile.n];
        let mut demand = [0.0; 2];
        for at in 0..2 {
            let declared = lanes.vectors[at].clamp(1, WIDEST);
            let pattern = |width: u32| match at {
                0 => Pattern { across, stride: part[0], row_stride: 0, width },
                _ => Pattern { across, stride: 0, row_stride: part[1], width },
            };
            let loads = f64::from(part[at]) / f64::from(declared);
            let Some(copying) = lanes.copies[at] else {
                demand[0] += warps * loads * f64::from(pattern(declared).passes_of_cache()) * self.pass();
                demand[1] += warps * loads;
                continue;
            };
            let wider = |most: u32| {
                let last = if widths == Widths::Best { most.clamp(declared, WIDEST) } else { declared };
                [1, 2, 4].into_iter().filter(move |width| (declared..=last).contains(width))
            };
            let passes = |(width, count): (u32, u32)| f64::from(count) / f64::from(width);
            let read = wider(part[at]).map(|width| passes((width, pattern(width).wavefronts())));
            let least = read.fold(f64::INFINITY, f64::min);
            demand[0] += warps * f64::from(part[at]) * least * self.pass();
            demand[1] += warps * loads;
            // Copied once: through the first-level cache into registers, from there to shared memory.
            let copying = copying.clamp(1, tile.threads());
            let row = extents[at].div_ceil(copying);
            let depth = (tile.k * copying).div_ceil(tile.threads()).max(1);
            let stored = |width: u32| Pattern {
                across: copying.min(WARP),
                stride: row,
                row_stride: depth * extents[at],
                width,
            };
            let stores = wider(row).map(|width| passes((width, stored(width).wavefronts())));
            let least = stores.fold(f64::INFINITY, f64::min);
            let words = f64::from(extents[at]) / f64::from(WARP);
            demand[0] += words * (1.0 + least) * self.pass();
            demand[1] += 2.0 * words / f64::from(declared);
        }
        demand
    }
}
