//! Weight gradients of segments whose rows are dealt out to thread blocks, as in the code that
//! Hector generates (github.com/K-Wu/HET at 31bc0c4: the grid of `RGNNOps.inc.h`, blocks of each
//! relation in `mysgemm_KernelsBlockConfigurations.h`, tiles in `macros.h`).
//!
//! A segment has blocks in proportion to its rows, one at least. A block sums a part of 32 x 32 over
//! its rows, 8 at a time, each step awaiting an index and the row it names, and adds its sum to the
//! gradient by atomics:
//!
//! ```text
//! shares = max(min(rows / 32, 4096), segments)
//! walked = steps (cached read + read) max(1, shares parts / (SMs resident))
//! time   = start + max(memory, multiplied, walked, cache, atomics + longest's conflicts)
//! ```

use super::super::rows::Blocks;
use super::{KernelClass, KernelCost, KernelError, KernelModel, Segments, StreamClass};

/// Sides of the part of a gradient that a block sums.
const PART: u64 = 32;
/// Rows of a step.
const STEP: u64 = 8;
/// Threads of a block.
const THREADS: u32 = 64;
/// Rows for which there is a share, and the most shares.
const ROWS: u64 = 32;
const SHARES: u64 = 4_096;
/// Blocks that an SM holds where its limits are unknown: those of the parts that hold fewest.
const RESIDENT: u32 = 16;

impl KernelModel {
    /// A weight gradient in parts, over shares of the rows.
    pub(super) fn dealt(&self, shape: &Segments) -> Result<KernelCost, KernelError> {
        let achieved = self.parameters.stream(StreamClass::Embedding)?.achieved;
        let graph = &self.parameters.graph;
        let peak = self.peak(shape.dtype)? / f64::from(self.facts.sms.max(1)) * graph.products;
        let indexed = self.indexed(shape.read(), shape.table_bytes());
        let (shares, parts) = (shape.shares(), shape.parts(PART));
        let resident = u64::from(
            self.facts.multiprocessor.as_ref().map_or(RESIDENT, |sm| sm.blocks.min(sm.threads / THREADS)),
        );
        let steps = shape.rows.div_ceil(shares).div_ceil(STEP) as f64;
        let walked = steps * graph.read_ns * (graph.cached + 1.0) * 1e-9;
        let of_longest = shares as f64 * (shape.longest as f64 / shape.rows.max(1) as f64).min(1.0);
        let conflicts = of_longest * graph.conflict_ns * 1e-9;
        let blocks = Blocks {
            count: shares.saturating_mul(parts),
            resident,
            bytes: indexed.memory.saturating_add(shape.beside_rows()).max(1),
            achieved,
            serial: graph.serial,
            seconds: |sms: u32| {
                let multiplied = shape.multiplied(parts) / (peak * f64::from(sms));
                let waves =
                    (shares.saturating_mul(parts) as f64 / (f64::from(sms) * resident as f64)).max(1.0);
                let cache = self.cache_seconds(indexed.cache.saturating_add(shape.columns_again()), sms);
                let added = self.atomic_seconds(shares.saturating_mul(shape.n).saturating_mul(shape.k), sms);
                multiplied.max(walked * waves).max(cache).max(added + conflicts)
            },
        };
        Ok(blocks.cost(self, graph.start_us, shape.flops(), KernelClass::Segments(shape.dtype)))
    }
}

impl Segments {
    /// Shares of rows, each of one segment.
    fn shares(&self) -> u64 {
        self.rows.div_ceil(ROWS).min(SHARES).max(self.segments.min(self.rows)).max(1)
    }

    /// Multiplications and additions, those of parts that are not full as well.
    fn multiplied(&self, parts: u64) -> f64 {
        2.0 * self.rows as f64 * (parts * PART * PART) as f64
    }

    /// Bytes of columns that another part of the same rows has brought to the cache.
    fn columns_again(&self) -> u64 {
        let others = |columns: u64| columns.div_ceil(PART).saturating_sub(1);
        let again =
            self.k.saturating_mul(others(self.n)).saturating_add(self.n.saturating_mul(others(self.k)));
        self.rows.saturating_mul(again).saturating_mul(self.dtype.bytes())
    }
}
