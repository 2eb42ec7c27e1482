//! What drives are used for tensors and states, and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bytes, Count, Duration};

/// What techniques use of the drives of each node: one array (RAID 0), reached by a path of software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    /// The first so many drives of each node; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drives: Option<Count<1, 4_096>>,
    /// The path: `direct` past the page cache into page-locked memory, `buffered` through the cache, `bounce`, `gpu-direct`.
    pub path: String,
    /// Bytes of a request; those of the path when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<Bytes>,
    /// Requests that are outstanding at a time; those of the path when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<Count<1, 65_536>>,
    /// What the host spends on a request before it can issue the next; that of the path when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue: Option<Duration>,
}

impl Default for Storage {
    fn default() -> Self {
        Self { drives: None, path: "direct".to_owned(), block: None, depth: None, issue: None }
    }
}
