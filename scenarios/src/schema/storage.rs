//! Arrays of drives that tensors and states are kept on, and how they are reached.

use hw_models::storage::DriveSet;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bytes, Count, Duration, Rate, Share};

/// Arrays of drives by name. Every node has each of them.
pub type Storage = IndexMap<String, DriveArray>;

/// Drives of a node that are one array (RAID 0), and the software before them. Techniques that use it share what its drives move and
/// hold, and wear them together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DriveArray {
    /// Its drives: the first so many of each node, or those of these names; all when absent. A drive is in one array at most.
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
    /// Most that it was measured to write and read; what its drives and the path give when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<ArrayRates>,
    /// What its drives write for each byte of the workload that they are rated for; 1 when absent, 2.5 in SSDTrain's account.
    pub rated_amplification: Option<Share>,
    /// Bytes that the drives write for each byte written here; 1 when absent.
    pub amplification: Option<Share>,
    /// Times the cycles that they last longer as they need not keep what is written for long; 1 when absent, 86 in SSDTrain's account
    /// (a day rather than three years).
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
