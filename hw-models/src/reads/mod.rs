//! Reads of host memory that are no copies: rows of a table that threads of a GPU read over its
//! link, that threads of the host gather into a buffer, or that move on page faults. Rows of the
//! memory of other GPUs are read likewise, rows on drives in pages ([`PageReads`]).
//!
//! A link has two ceilings (Min et al., "EMOGI", VLDB 2020; Min et al., "PyTorch-Direct", 2021):
//! its requests in flight, each for a round trip, and its payload. A request occupies its slot the
//! longer the more it asks for. With R = requests in flight / round trip
//!
//! ```text
//! link         = max(lines (1 + mean bytes / 150) / R, bytes / payload rate)
//! translations = accesses (1 - reach / pages touched) walk
//! time         = start + (link^3 + SMs^3 + translations^3)^(1/3)
//! ```
//!
//! Every 32-byte sector that a row touches travels, in requests of at most a line of 128 bytes
//! ([`Requests`]). Pages touched beyond the reach of page tables that the GPU keeps are walked for,
//! once an access where indices are random, once a page where they are sorted.
//!
//! A thread block waits for the index, then for the row: few SMs keep few requests in flight, and a
//! handful of them saturates the link.

mod host;
mod managed;
mod pages;
mod requests;
mod sockets;

use serde::{Deserialize, Serialize};
use sim_core::fixed::Rate;
use sim_core::time::Time;

use crate::kernels::picoseconds;

pub use host::HostGather;
pub use managed::{ManagedReads, Migration};
pub use pages::{PageReaders, PageReads};
pub use requests::{Order, PERIOD, Requests, RowReads};
pub use sockets::Sockets;

/// Reads of host memory by threads of a GPU over a link of 16 lanes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkReads {
    /// Requests in flight.
    pub in_flight: f64,
    /// Round trip of a request without payload (us).
    pub round_trip_us: f64,
    /// Payload (GB/s).
    pub payload_gb_per_s: f64,
    /// Launch and first round trips of a kernel that reads (us).
    pub start_us: f64,
    /// Table whose translations the GPU keeps where indices are random (GB).
    pub reach_gb: f64,
    /// Walk of page tables for a random row beyond that (ns).
    pub walk_ns: f64,
}

/// Cost of reads, in terms of what they share with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadCost {
    /// Launch and first round trips.
    pub fixed: Time,
    /// Line requests.
    pub lines: u64,
    /// Demand on [`LinkReads::requests_per_s`], of which a request with payload takes more.
    pub requests: u64,
    /// Demand on [`LinkReads::payload`]: sectors as they travel (bytes).
    pub bytes: u64,
    /// Speed alone, by whichever ceiling, walks or SMs are slowest (bytes/s).
    pub cap: Rate,
    /// Fewest SMs that are as fast but for 2 %.
    pub sms: u32,
}

/// Payload for which a request stays in flight as long again as for the round trip (bytes). Read
/// off sorted rows of H100 (measurements/probes/gathers.jsonl); the 4.7 GB/s of 32-byte reads and
/// 12.3 of merged ones that EMOGI reports of a V100 on PCIe 3 have the same ratio.
const SAME_AGAIN: f64 = 150.0;
/// Power with which times of the link, of SMs and of walks add up, between sum and maximum: chosen
/// on the same gathers for walks. Those on 8 and 16 of 132 SMs, where SMs and the link take about
/// as long, are 7 and 4 % too fast with it, and 9 % with the maximum.
const OVERLAP: f64 = 3.0;
/// Time of SMs, over that of the link, of which no more than 2 % is seen.
const HIDDEN: f64 = 0.4;
/// Reach where indices are sorted over that where they are random, as walks find upper levels that
/// the walks before have left. On H100, as the next two.
const SORTED_REACH: f64 = 2.47;
/// Walk of page tables for the next page of a sorted list (ns).
const SORTED_WALK_NS: f64 = 25.5;
/// Page of page-locked host memory as GPUs translate it (bytes).
const PAGE: f64 = 65_536.0;
/// Index of a row, read from memory of the GPU before the row is (us).
const INDEX_US: f64 = 0.67;
/// Threads of the blocks that an SM holds.
const THREADS: f64 = 1_024.0;
/// Bytes of the entry of an index list.
pub const INDEX_BYTES: u64 = 8;

impl LinkReads {
    /// Estimate for a link that was not measured, by what large transfers and its wires reach
    /// (GB/s): 256 requests in flight on PCIe 3, 768 on PCIe 4 (Min et al., 2021), more on PCIe 5.
    pub fn estimated(nominal_gb_per_s: f64, effective_gb_per_s: f64) -> Self {
        let (in_flight, round_trip_us) = match nominal_gb_per_s {
            ..20.0 => (256.0, 1.44),
            20.0..40.0 => (768.0, 2.0),
            _ => (1_024.0, 1.31),
        };
        let payload_gb_per_s = effective_gb_per_s;
        let (start_us, reach_gb, walk_ns) = (14.6, 0.689, 25.5);
        Self { in_flight, round_trip_us, payload_gb_per_s, start_us, reach_gb, walk_ns }
    }

    /// Estimate for reads of the memory of other GPUs over NVLink (GB/s): payload alone limits
    /// them, as no number of requests in flight is known; a round trip as over PCIe 5, and no
    /// walks, as peers map all of each other's memory in pages of 2 MiB.
    pub const fn of_nvlink(payload_gb_per_s: f64) -> Self {
        let (in_flight, reach_gb) = (f64::INFINITY, f64::INFINITY);
        let (round_trip_us, start_us, walk_ns) = (1.31, 1.31, 0.0);
        Self { in_flight, round_trip_us, payload_gb_per_s, start_us, reach_gb, walk_ns }
    }

    /// Reads over a link that is `factor` times as fast.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let (in_flight, payload) = (self.in_flight * factor, self.payload_gb_per_s * factor);
        Self { in_flight, payload_gb_per_s: payload, ..self }
    }

    /// Requests without payload that it answers.
    pub fn requests_per_s(&self) -> Rate {
        Rate::per_second(self.in_flight / (self.round_trip_us * 1e-6))
    }

    /// Payload that it carries (bytes/s).
    pub fn payload(&self) -> Rate {
        Rate::per_second(self.payload_gb_per_s * 1e9)
    }

    /// Cost of reads of rows by a kernel that holds at most `sms` SMs.
    pub fn cost(&self, reads: &RowReads, sms: u32) -> ReadCost {
        let found = reads.found();
        let bytes = found.sectors * 32.0;
        let requests = found.lines + bytes / SAME_AGAIN;
        let answered = requests * self.round_trip_us * 1e-6 / self.in_flight;
        let link = answered.max(bytes / (self.payload_gb_per_s * 1e9));
        let of_sm = self.of_sm(reads);
        let enough = of_sm / (HIDDEN * link).max(f64::MIN_POSITIVE);
        let enough = enough.ceil().clamp(1.0, f64::from(sms.max(1)));
        let by = [link, of_sm / f64::from(sms.max(1)), self.walks(reads)];
        let seconds = by.map(|seconds| seconds.powf(OVERLAP)).iter().sum::<f64>().powf(OVERLAP.recip());
        ReadCost {
            fixed: picoseconds(self.start_us * 1e-6),
            lines: found.lines.ceil() as u64,
            requests: requests.ceil() as u64,
            bytes: (bytes as u64).max(1),
            cap: Rate::per_second(bytes.max(1.0) / seconds.max(f64::MIN_POSITIVE)),
            sms: enough as u32,
        }
    }

    /// Time of all rows on a single SM, whose blocks take a round trip for each pass of their
    /// threads along a row (s).
    fn of_sm(&self, reads: &RowReads) -> f64 {
        let elements = reads.row_bytes.div_ceil(reads.element_bytes.max(1)).max(1);
        let threads = (1_u64 << elements.ilog2()).min(256);
        let passes = reads.rows as f64 * elements.div_ceil(threads) as f64;
        passes * threads as f64 / THREADS * (self.round_trip_us + INDEX_US) * 1e-6
    }

    /// Time of walks of page tables (s).
    fn walks(&self, reads: &RowReads) -> f64 {
        let pages = (reads.table_bytes() as f64 / PAGE).max(1.0);
        let touched = pages * -(-(reads.rows as f64) / pages).exp_m1();
        let missed = |reach_gb: f64| (1.0 - reach_gb * 1e9 / (touched * PAGE)).max(0.0);
        let ns = match reads.order {
            Order::Random => reads.rows as f64 * missed(self.reach_gb) * self.walk_ns,
            Order::Sorted => touched * missed(SORTED_REACH * self.reach_gb) * SORTED_WALK_NS,
        };
        ns * 1e-9
    }
}

impl ReadCost {
    /// Time with the link for itself and all the SMs it was given.
    pub fn alone(&self) -> Time {
        let seconds = self.bytes as f64 / self.cap.units_per_second();
        self.fixed.saturating_add(picoseconds(seconds))
    }
}

/// Bytes of all indices, which a copy brings to the GPU before rows are read.
pub const fn index_bytes(rows: u64) -> u64 {
    rows.saturating_mul(INDEX_BYTES)
}

/// Time in which a GPU of a memory bandwidth (bytes/s) sorts indices: eight digits, each a pass
/// that reads and writes keys and values. Constants are the three rows of H100 that were measured
/// (35.8, 97.5 and 188 us of 1,000, 100,000 and 1,000,000 indices); nothing judges them.
pub fn sorting(rows: u64, hbm_bytes_per_s: f64) -> Time {
    const ONE_BLOCK: u64 = 8_192;
    const ONE_BLOCK_US: f64 = 35.8;
    const PASSES_US: f64 = 88.0;
    const BYTES_A_ROW: f64 = 336.0;
    if rows <= ONE_BLOCK {
        return picoseconds(ONE_BLOCK_US * 1e-6);
    }
    picoseconds(PASSES_US * 1e-6 + rows as f64 * BYTES_A_ROW / hbm_bytes_per_s)
}
