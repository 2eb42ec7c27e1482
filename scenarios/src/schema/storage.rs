//! Arrays of drives that tensors and states are kept on, and how they are reached.

use hw_models::storage::DriveSet;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bytes, Count, Duration, Rate, Share};

/// Arrays of drives by name. Every node has each of them.
pub type Storage = IndexMap<String, DriveArray>;

/// Drives of a node as one array (RAID 0), and the software path to them. Techniques on one array
/// share its bandwidth, capacity and wear.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DriveArray {
    /// Drives of the array: a number of them from the first of each node on, or their names; all
    /// when absent. A drive is in one array at most.
    pub drives: Option<DriveSet>,
    /// The path: `direct` past the page cache into page-locked memory, `buffered` through the cache, `bounce` to and from a GPU
    /// through small buffers of the host, `gpu-direct` without any. When absent `direct` for what is in host memory and `gpu-direct` for
    /// what is on GPUs.
    #[schemars(extend("examples" = ["direct", "buffered", "bounce", "gpu-direct"]))]
    pub path: Option<String>,
    /// Bytes of a request; those of the path when absent.
    pub block: Option<Bytes>,
    /// Requests that are outstanding at a time; those of the path when absent.
    pub depth: Option<Count<1, 65_536>>,
    /// Time of the host for a request before it can issue the next; that of the path when absent.
    pub issue: Option<Duration>,
    /// Measured rates of the array; when absent, drives and path limit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<ArrayRates>,
    /// Write amplification of the workload that the drives are rated for; 1 when absent, 2.5 in
    /// SSDTrain's account.
    pub rated_amplification: Option<Share>,
    /// Write amplification of this workload; 1 when absent.
    pub amplification: Option<Share>,
    /// Factor on the write cycles of the drives, as data is retained for a short time only; 1 when
    /// absent, 86 in SSDTrain's account (a day rather than three years).
    pub retention: Option<Share>,
}

/// Rates that an array was measured to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayRates {
    /// Rate of writes.
    pub write: Rate,
    /// Rate of reads.
    pub read: Rate,
}
