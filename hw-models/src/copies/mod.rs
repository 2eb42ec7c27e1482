//! Copies between host and device by a copy engine: a start, and then what their links give ([`Transfers`](crate::machine::Transfers)).
//!
//! Two alphas: that of copies issued back to back, and that of a copy somebody waits for. Pageable memory is staged
//! through the driver's pinned buffer by the CPU: slower, and three times the traffic on host memory.

mod at_once;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use sim_core::time::Time;

use crate::kernels::picoseconds;
use crate::provenance::Provenance;

pub use at_once::{CopyStream, rate_beside, rates_at_once, seconds_at_once};

/// The catalogue of copies, `hw-models/catalogue/copies.yaml`.
pub const COPIES: &str = include_str!("../../catalogue/copies.yaml");

/// Copies by class of the GPU's link to its host, `pcie4`.
pub type CopyCatalogue = IndexMap<String, CopyParameters>;

/// Copies over one class of link. What the link carries of them is said where links are
/// ([`CopyRates`](crate::catalogue::CopyRates)).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyParameters {
    /// Host to device.
    pub to_device: Starts,
    /// Device to host.
    pub from_device: Starts,
    /// Most of a copy from or to pageable memory (GB/s).
    pub pageable_gb_per_s: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// What passes before the bytes of a copy do.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Starts {
    /// Of one copy among many (us).
    pub issue_us: f64,
    /// Of a copy that is waited for (us).
    pub sync_us: f64,
}

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Host to device.
    ToDevice,
    /// Device to host.
    FromDevice,
}

/// Kinds of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostMemory {
    /// Page-locked: the copy engine reads and writes it.
    Pinned,
    /// Ordinary memory, staged.
    Pageable,
}

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// From where to where.
    pub direction: Direction,
    /// The host's side.
    pub memory: HostMemory,
    /// Somebody waits for it, rather than issuing the next.
    pub synchronised: bool,
}

/// What a copy asks for beside its links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyCost {
    /// Before its bytes flow.
    pub latency: Time,
    /// Its speed at most (bytes/s), where something else than links limits it.
    pub at_most: Option<f64>,
    /// Times that a byte passes host memory.
    pub passes: f64,
}

impl HostMemory {
    /// Times that a byte of a copy passes it: of a pageable one it is read, written to the staging buffer and read again by the engine,
    /// or the other way around.
    pub const fn passes(self) -> f64 {
        match self {
            Self::Pinned => 1.0,
            Self::Pageable => 3.0,
        }
    }
}

impl CopyParameters {
    /// A copy.
    pub fn cost(&self, copy: Copy) -> CopyCost {
        let starts = match copy.direction {
            Direction::ToDevice => self.to_device,
            Direction::FromDevice => self.from_device,
        };
        let alpha = if copy.synchronised { starts.sync_us } else { starts.issue_us };
        let at_most = match copy.memory {
            HostMemory::Pinned => None,
            HostMemory::Pageable => Some(self.pageable_gb_per_s * 1e9),
        };
        CopyCost { latency: picoseconds(alpha * 1e-6), at_most, passes: copy.memory.passes() }
    }
}
