//! Pages of drives in which rows are read.
//!
//! ```text
//! pages = pages of the table (1 - (1 - share of rows read)^(rows on a page))
//! time  = latency + pages service      as far as enough are in flight (crate::storage::Requests)
//! ```
//!
//! Threads of a GPU write requests to queues in its own memory, and drives write pages there (BaM,
//! Qureshi et al., ASPLOS 2023): a warp reads a row and waits for each of its pages
//! (`read_feature_kernel` of github.com/jeongminpark417/GIDS). Threads of the host fault on a file
//! that is mapped into memory, as the baseline of the same repository does: each has a page in
//! flight.

use crate::machine::{Machine, NoRoute, PartId};
use crate::storage::{Array, Requests, Way};

/// Pages that are read, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageReads {
    /// Different pages.
    pub pages: u64,
    /// Bytes of a page.
    pub page: u64,
    /// Readers of them.
    pub by: PageReaders,
}

/// Threads that read pages of drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageReaders {
    /// Warps of a GPU, on at most this number of multiprocessors.
    Gpu(u32),
    /// Threads of the host.
    Host(u32),
}

/// Warps of a multiprocessor that wait for a page each: those of the blocks that also read rows of
/// host memory there.
const WARPS: u32 = 32;
/// Requests that the queues of a drive hold: 128 of 1,024 each (`GIDS.py`, `nvm-block-bench`).
const QUEUED: u32 = 128 * 1_024;
/// Latency of a drive of which none is known (us): NAND flash, an estimate.
const NAND_US: f64 = 80.0;
/// Time of the host on a fault beside the drive's (us), an estimate: entry, page table, block
/// layer.
const FAULT_US: f64 = 5.0;

impl PageReads {
    /// Bytes of all pages.
    pub const fn bytes(&self) -> u64 {
        self.pages.saturating_mul(self.page)
    }

    /// Requests at an array of this number of drives. Fewer pages than threads are all in flight.
    pub fn requests(&self, drives: usize) -> Requests {
        let drives = u32::try_from(drives).unwrap_or(u32::MAX);
        let (threads, issue_s) = match self.by {
            PageReaders::Gpu(multiprocessors) => {
                (multiprocessors.saturating_mul(WARPS).min(QUEUED.saturating_mul(drives)), 0.0)
            }
            PageReaders::Host(threads) => (threads, FAULT_US * 1e-6 / f64::from(threads.max(1))),
        };
        let depth = threads.min(u32::try_from(self.pages).unwrap_or(u32::MAX)).max(1);
        Requests { block: self.page, depth, issue_s }
    }

    /// Rate at which the drives of an array serve them (bytes/s), links to `end` and other readers
    /// left aside.
    ///
    /// # Errors
    /// If nothing joins a drive and the other end.
    pub fn bytes_per_s(&self, machine: &Machine, array: &Array, end: PartId) -> Result<f64, NoRoute> {
        let members = array.drives.len();
        let requests = self.requests(members);
        let mut slowest = f64::INFINITY;
        for &drive in &array.drives {
            let route = machine.route(drive, end)?;
            let Some(model) = machine.drive_model(drive) else { continue };
            let mut model = model.clone();
            model.read_latency_us.get_or_insert(NAND_US);
            if let PageReaders::Host(_) = self.by {
                model.read_latency_us = model.read_latency_us.map(|latency| latency + FAULT_US);
            }
            let rate = model.read_gb_per_s.map_or_else(|| machine.bytes_per_s(&route), |rate| rate * 1e9);
            let of_drive = requests.bytes_per_s(&model, Way::Read, rate, [members as u64, array.chunk]);
            slowest = slowest.min(of_drive * members as f64);
        }
        Ok(slowest)
    }
}
