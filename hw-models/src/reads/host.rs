//! Gathers by threads of the host: rows of host memory into a buffer, which a copy then takes to
//! the GPU.
//!
//! Small rows wait for memory, one after the other; long ones move at the rate of a thread. Threads
//! beyond the first reach a share of their number, as two of them share a core and all of them the
//! memory:
//!
//! ```text
//! time = rows max((latency + bytes / rate) / threads, 2 bytes / memory)
//! ```
//!
//! The constants are fitted on every second of the 44 gathers of
//! `measurements/probes/gathers.jsonl` (a virtual machine of 16 cores, rows of 128 to 4,096 bytes,
//! 1 to 16 threads); the others are off by 12 % in the median.

use sim_core::time::Time;

use super::Order;
use crate::kernels::picoseconds;

/// Rows that threads of the host gather.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostGather {
    /// Rows.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Order of the indices.
    pub order: Order,
    /// Threads.
    pub threads: u32,
    /// Memory of the host that is read and written (bytes/s).
    pub memory_bytes_per_s: f64,
}

/// Start of a row at a random place (ns).
const RANDOM_NS: f64 = 27.06;
/// Start of a row behind another (ns).
const SORTED_NS: f64 = 20.76;
/// Bytes that a thread moves in a nanosecond.
const BYTES_PER_NS: f64 = 6.043;
/// Share of the speed of a single thread that each of several has.
const OF_SEVERAL: f64 = 0.6865;

impl HostGather {
    /// Time with the memory for itself.
    pub fn alone(&self) -> Time {
        let start = match self.order {
            Order::Random => RANDOM_NS,
            Order::Sorted => SORTED_NS,
        };
        let row = (start + self.row_bytes as f64 / BYTES_PER_NS) * 1e-9;
        let threads = match self.threads {
            0 | 1 => 1.0,
            several => OF_SEVERAL * f64::from(several),
        };
        let moved = self.traffic() as f64 / self.memory_bytes_per_s;
        picoseconds((self.rows as f64 * row / threads).max(moved))
    }

    /// Bytes of host memory that are read and written; the copy of the buffer reads them once more.
    pub const fn traffic(&self) -> u64 {
        self.rows.saturating_mul(self.row_bytes).saturating_mul(2)
    }
}
