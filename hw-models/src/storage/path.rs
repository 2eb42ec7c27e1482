//! Paths of software between drives and memories: what a block costs the host.

use indexmap::IndexMap;
use serde::Deserialize;

use crate::provenance::Provenance;

use super::{Requests, Way};

/// The catalogue of paths, `hw-models/catalogue/storage.yaml`.
pub const PATHS: &str = include_str!("../../catalogue/storage.yaml");

/// Paths by name, `gpu-direct`.
pub type PathCatalogue = IndexMap<String, PathParameters>;

/// A path between an array and a memory or a GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathParameters {
    /// How bytes come to a GPU.
    pub staging: Staging,
    /// Times that a byte passes host memory where it goes there, be it to a buffer: once if the drive writes it there; thrice if it is
    /// copied from the page cache, which is a read and a write more.
    pub passes: f64,
    /// Most that its thread reads (GB/s): its copy out of the page cache, and what it waits for. None: the drives and links limit.
    #[serde(default)]
    pub read_gb_per_s: Option<f64>,
    /// Most that its thread writes (GB/s).
    #[serde(default)]
    pub write_gb_per_s: Option<f64>,
    /// Whether the host's end of a copy to or from a GPU is page-locked.
    pub pinned: bool,
    /// Bytes of a request (KiB).
    pub block_kib: u64,
    /// Requests outstanding at a time.
    pub depth: u32,
    /// What the host spends on a request before it can issue the next (us).
    pub issue_us: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// How bytes come from an array to a GPU, or the other way around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Staging {
    /// The drive reads and writes the memory of the GPU; host memory is not touched.
    None,
    /// All of a tensor goes into a buffer of the host, then all of it to where it is going.
    Whole,
    /// Through two buffers of so many outstanding requests: one is filled while the other is emptied.
    Pipelined,
}

impl PathParameters {
    /// Its requests.
    pub fn requests(&self) -> Requests {
        Requests { block: self.block_kib << 10, depth: self.depth, issue_s: self.issue_us * 1e-6 }
    }

    /// Most that its thread moves (byte/s); infinite where drives and links limit.
    pub fn of_thread(&self, way: Way) -> f64 {
        let rate = match way {
            Way::Read => self.read_gb_per_s,
            Way::Write => self.write_gb_per_s,
        };
        rate.map_or(f64::INFINITY, |rate| rate * 1e9)
    }
}
