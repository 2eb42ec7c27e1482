//! Managed memory: pages move to the GPU when a thread faults on them.
//!
//! The driver moves leaves of 64 KiB, and a whole block of 2 MiB once more than half of it is there
//! (NVIDIA's tree-based prefetcher; Ganguly et al., "Interplay between Hardware Prefetcher and Page
//! Eviction Policy in CPU-GPU Unified Virtual Memory", ISCA 2019). Faults are served in batches, so
//! that what moves does so at a fraction of the link. Tables beyond the GPU's memory evict as much
//! as they bring.

use sim_core::time::Time;

use super::RowReads;
use crate::kernels::picoseconds;

/// Faults of a GPU on memory that it shares with its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManagedReads {
    /// Rate at which faulted pages move (bytes/s).
    pub bytes_per_s: f64,
    /// Memory of the GPU that is left for pages (bytes).
    pub room: u64,
}

/// Pages that reads move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Bytes to the GPU.
    pub bytes: u64,
    /// Bytes that leave to make room.
    pub evicted: u64,
    /// Time of both.
    pub time: Time,
}

/// Bytes of a leaf.
const LEAF: f64 = 65_536.0;

impl ManagedReads {
    /// As measured on H100 on PCIe 5: a million random rows of 512 bytes bring a table of 8 GB in
    /// 1.265 s (`measurements/probes/gathers.jsonl`); 100,000 rows of 2,408 bytes take 1.315 s, of
    /// 512 bytes 1.662 s.
    pub const fn measured(room: u64) -> Self {
        Self { bytes_per_s: 6.32e9, room }
    }

    /// Migration for rows at random places of a table of which nothing is there.
    pub fn first_touch(&self, reads: &RowReads) -> Migration {
        let (table, touched) = (reads.table_bytes(), touched(reads));
        let moved = if touched > 0.5 { 1.0 } else { touched };
        let bytes = (table as f64 * moved) as u64;
        let evicted = bytes.saturating_sub(self.room);
        let time = picoseconds((bytes + evicted) as f64 / self.bytes_per_s);
        Migration { bytes, evicted, time }
    }

    /// Migration where the pages of earlier reads fill the room: a touched leaf is there as often as
    /// a share of the table has room, and another leaves for each that comes.
    pub fn steady(&self, reads: &RowReads) -> Migration {
        let table = reads.table_bytes() as f64;
        let missing = 1.0 - (self.room as f64 / table.max(1.0)).min(1.0);
        let bytes = (table * touched(reads) * missing) as u64;
        let time = picoseconds(2.0 * bytes as f64 / self.bytes_per_s);
        Migration { bytes, evicted: bytes, time }
    }
}

/// Share of the leaves of a table that rows at random places touch.
fn touched(reads: &RowReads) -> f64 {
    let leaves = (reads.table_bytes() as f64 / LEAF).max(1.0);
    let spans = 1.0 + reads.row_bytes as f64 / LEAF;
    -(-(reads.rows as f64 * spans) / leaves).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::super::Order;
    use super::*;

    fn migration(rows: u64, row_bytes: u64, room: u64) -> Migration {
        let (element_bytes, offset, order, aligned, pitch) = (4, 0, Order::Random, true, row_bytes);
        let table_rows = 8_000_000_000 / row_bytes;
        let reads = RowReads { rows, table_rows, row_bytes, pitch, element_bytes, offset, order, aligned };
        ManagedReads::measured(room).first_touch(&reads)
    }

    #[test]
    fn a_table_comes_as_a_whole_once_half_of_it_is_touched() {
        // Of H100; the first is what the rate is from.
        for (rows, row_bytes, seconds) in
            [(1_000_000, 512, 1.265), (100_000, 2_408, 1.315), (100_000, 512, 1.662)]
        {
            let found = migration(rows, row_bytes, 70 << 30).time.as_secs();
            assert!((found / seconds - 1.0).abs() < 0.25, "{rows} of {row_bytes}: {found} s");
        }
    }

    #[test]
    fn few_rows_bring_their_leaves_and_what_has_no_room_evicts() {
        let few = migration(1_000, 512, 70 << 30);
        assert!(few.bytes < 1_001 * 66_000 && few.evicted == 0, "{few:?}");
        let crowded = migration(1_000_000, 512, 2_000_000_000);
        assert!(crowded.evicted > 5_900_000_000 && crowded.time > migration(1_000_000, 512, 70 << 30).time);
    }
}
