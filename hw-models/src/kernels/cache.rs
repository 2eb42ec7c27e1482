//! What kernels leave in the second-level cache for the next ones.
//!
//! Whether something is still there is told by its reuse distance (Mattson, Gecsei, Slutz and Traiger, IBM Systems Journal
//! 1970): the bytes touched from one use to the next. A cache that always forgot what was used least recently would keep all
//! that returns within its size, and nothing else; a real one, of sets and partitions, loses more and more of it between two
//! shares of its size:
//!
//! ```text
//! hits = (lost - distance / size) / (lost - kept), from 0 to 1
//! ```

use super::{KernelModel, Stream};

/// Bytes of rows read by index, by origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indexed {
    /// From memory.
    pub(super) memory: u64,
    /// From the second-level cache.
    pub(super) cache: u64,
}

impl KernelModel {
    /// Of `bytes` that are used again after `distance` bytes of anything, themselves included, those that still lie in the
    /// cache.
    pub fn cached(&self, bytes: u64, distance: u64) -> u64 {
        let cache = &self.parameters.cache;
        let share = distance as f64 / self.facts.l2_bytes;
        let hits = ((cache.lost - share) / (cache.lost - cache.kept)).clamp(0.0, 1.0);
        (bytes as f64 * hits) as u64
    }

    /// A pass that is run again and again over the same buffers, as kernels are timed: all it reads and writes returns once it
    /// has gone by, and what is overwritten before it has left the cache is never sent to HBM.
    pub fn repeated(&self, shape: &Stream) -> Stream {
        let touched = shape.bytes_read.saturating_add(shape.bytes_written);
        Stream { bytes_cached: self.cached(touched, touched), ..*shape }
    }

    /// Origins of rows that are read by index at random: each row of their table comes from memory
    /// once, and comes again where the cache holds only a share of the table.
    pub(super) fn indexed(&self, read: u64, table: u64) -> Indexed {
        let table = table.min(read);
        let share = self.parameters.cache.lost * self.facts.l2_bytes / table.max(1) as f64;
        let missed = (read - table) as f64 * (1.0 - share).max(0.0);
        let memory = table.saturating_add(missed as u64);
        Indexed { memory, cache: read - memory.min(read) }
    }

    /// Time of `bytes` out of the cache for so many SMs (s).
    pub(super) fn cache_seconds(&self, bytes: u64, sms: u32) -> f64 {
        let of_sm = self.parameters.cache.bytes_per_clock * self.facts.clock_hz;
        bytes as f64 / (of_sm * f64::from(sms))
    }
}
