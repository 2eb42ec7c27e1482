//! Products of segments of rows, each with a weight of its own: typed linear layers of relational
//! graph networks, all types in one kernel.
//!
//! Blocks take tiles of rows of one segment, as the GEMM template of Hector does (Wu et al.,
//! "Hector: An Efficient Programming and Compilation Framework for Implementing Relational Graph
//! Neural Networks in GPU Architectures", ASPLOS 2024, section 3). The last tile of a segment is
//! half full on average:
//!
//! ```text
//! blocks = (rows / tile + segments / 2) ceil(n / tn)
//! ```
//!
//! A block has one tile: it loads rows and weights, multiplies and stores, and does nothing of that
//! at once, so that times of memory and of the rest add up.
//!
//! A weight gradient sums over the rows of its segment. Where results are stored, a block has the
//! whole segment: that of the longest walks all its rows, a step after the other, while other SMs
//! are idle. Where they are added by atomics, rows are [dealt out](dealt).

mod dealt;

use serde::{Deserialize, Serialize};

use super::rows::Blocks;
use super::{Dtype, KernelClass, KernelCost, KernelError, KernelModel, Layout, StreamClass};
use crate::reads::INDEX_BYTES;

/// Products of rows with one weight for each segment of them (typed linear layers), in one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segments {
    /// Rows of all segments.
    pub rows: u64,
    /// Segments, each with its weight.
    pub segments: u64,
    /// Rows of the longest segment.
    pub longest: u64,
    /// Columns of the output.
    pub n: u64,
    /// Columns of the rows that are multiplied.
    pub k: u64,
    /// Type of rows, weights and output.
    pub dtype: Dtype,
    /// Output of the rows, gradient of the rows, or gradient of the weights.
    pub layout: Layout,
    /// Rows are found by a list inside the kernel.
    pub gathered: bool,
    /// Different rows of the table they are found in; as `rows` where they are in order.
    pub table: u64,
    /// Results are added by atomics: to rows that others add to as well, or to a weight gradient of
    /// which each block sums some rows.
    pub scattered: bool,
}

/// Rows of a tile, of which the kernel takes the fastest.
const TILES: [u64; 3] = [128, 64, 32];
/// Columns of a tile, at most.
const COLUMNS: u64 = 128;
/// Sides of the part of a weight gradient that a block sums.
const GRADIENT: u64 = 64;
/// Thread blocks of a tile that an SM holds at once.
const RESIDENT: u64 = 4;
/// Share of the shorter of memory and the rest that the longer does not hide.
const SERIAL: f64 = 1.0;

impl KernelModel {
    /// Products of segments of rows.
    ///
    /// # Errors
    /// When the GPU has no rate or the catalogue no parameters for the type.
    pub fn segments(&self, shape: &Segments) -> Result<KernelCost, KernelError> {
        if shape.layout == Layout::WeightGradient && shape.scattered {
            return self.dealt(shape);
        }
        let achieved = self.parameters.stream(StreamClass::Elementwise)?.achieved;
        let graph = &self.parameters.graph;
        let peak = self.peak(shape.dtype)? / f64::from(self.facts.sms.max(1)) * graph.products;
        let indexed = self.indexed(shape.read(), shape.table_bytes());
        let bytes = indexed.memory.saturating_add(shape.beside_rows()).max(1);
        let added = if shape.scattered { shape.results() } else { 0 };
        let walked_s = graph.walked_row_ns * 1e-9;
        let blocks = |tile: u64| Blocks {
            count: shape.blocks(tile),
            resident: RESIDENT,
            bytes,
            achieved,
            serial: SERIAL,
            seconds: move |sms: u32| {
                let multiplied = shape.padded_flops(tile) / (peak * f64::from(sms));
                let cached = indexed.cache.saturating_add(shape.weights_again(tile));
                let moved = self.cache_seconds(cached, sms) + self.atomic_seconds(added, sms);
                let walked = match shape.layout {
                    Layout::WeightGradient => {
                        let steps = shape.rows as f64 * shape.parts(GRADIENT) as f64 * walked_s;
                        (steps / (f64::from(sms) * RESIDENT as f64)).max(shape.longest as f64 * walked_s)
                    }
                    _ => 0.0,
                };
                multiplied.max(moved).max(walked)
            },
        };
        let best = Blocks::fastest(self, TILES.into_iter().map(blocks)).unwrap_or_else(|| blocks(TILES[0]));
        Ok(best.cost(self, graph.start_us, shape.flops(), KernelClass::Segments(shape.dtype)))
    }
}

impl Segments {
    /// Multiplications and additions, `2 rows n k`.
    pub fn flops(&self) -> f64 {
        2.0 * self.rows as f64 * self.n as f64 * self.k as f64
    }

    /// Rows, weights and results, each once (bytes).
    pub fn bytes(&self) -> u64 {
        self.read().min(self.table_bytes()).saturating_add(self.beside_rows())
    }

    /// Elements of all weights.
    pub const fn weights(&self) -> u64 {
        self.segments.saturating_mul(self.n).saturating_mul(self.k)
    }

    /// Bytes of rows that are read by index.
    const fn read(&self) -> u64 {
        self.rows.saturating_mul(self.k).saturating_mul(self.dtype.bytes())
    }

    /// Bytes of the different ones among them.
    const fn table_bytes(&self) -> u64 {
        let rows = if self.gathered { self.table } else { self.rows };
        rows.saturating_mul(self.k).saturating_mul(self.dtype.bytes())
    }

    /// Bytes of weights, of rows of `n` columns and of lists, each once.
    fn beside_rows(&self) -> u64 {
        let elements = self.weights().saturating_add(self.rows.saturating_mul(self.n));
        let lists = u64::from(self.gathered) + u64::from(self.scattered);
        elements
            .saturating_mul(self.dtype.bytes())
            .saturating_add(self.rows.saturating_mul(lists * INDEX_BYTES))
    }

    /// Elements of its output.
    const fn results(&self) -> u64 {
        match self.layout {
            Layout::WeightGradient => self.weights(),
            _ => self.rows.saturating_mul(self.n),
        }
    }

    /// Parts of such sides of the gradient of a weight.
    const fn parts(&self, side: u64) -> u64 {
        self.n.div_ceil(side).saturating_mul(self.k.div_ceil(side))
    }

    /// Bytes of weights that blocks find in the cache, as others of their segment brought them.
    fn weights_again(&self, tile: u64) -> u64 {
        match self.layout {
            Layout::WeightGradient => 0,
            _ => {
                let all = self.tiles(tile).saturating_mul(self.n * self.k);
                all.saturating_sub(self.weights()).saturating_mul(self.dtype.bytes())
            }
        }
    }

    /// Thread blocks of tiles; weight gradients have a block for each part of each segment.
    fn blocks(&self, tile: u64) -> u64 {
        match self.layout {
            Layout::WeightGradient => self.segments.saturating_mul(self.parts(GRADIENT)).max(1),
            _ => self.tiles(tile).saturating_mul(self.n.div_ceil(COLUMNS)).max(1),
        }
    }

    /// Tiles, the last one of each segment half full.
    fn tiles(&self, tile: u64) -> u64 {
        (self.rows / tile).saturating_add(self.segments.min(self.rows).div_ceil(2))
    }

    /// Multiplications and additions with those of padding.
    fn padded_flops(&self, tile: u64) -> f64 {
        match self.layout {
            Layout::WeightGradient => self.flops(),
            _ => 2.0 * (self.tiles(tile) * tile) as f64 * self.n as f64 * self.k as f64,
        }
    }
}
