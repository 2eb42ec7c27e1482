//! Settings of the allocator, as `PYTORCH_CUDA_ALLOC_CONF` gives them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mistakes::Fault;
use super::sizes::LARGE_SEGMENT;
use crate::settings::{Bytes, Count};

/// Settings of PyTorch's caching allocator, as `PYTORCH_CUDA_ALLOC_CONF` gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Allocator")]
pub struct Settings {
    /// Segments grow and shrink by pages, which leaves fewer fragments.
    pub expandable_segments: bool,
    /// Blocks of this size and more are not split, and serve only requests that are as large; more than 20 MiB.
    pub max_split_size: Option<Bytes>,
    /// Steps between one power of two and the next that sizes are rounded up to; a power of two.
    pub roundup_power2_divisions: Option<Count<1, 64>>,
}

impl Settings {
    /// What is wrong with them.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        let split = self.max_split_size.map(Bytes::bytes);
        let split = split.filter(|&bytes| bytes <= LARGE_SEGMENT).map(Fault::MaxSplitSize);
        let divisions = self.roundup_power2_divisions.map(Count::get);
        let divisions = divisions.filter(|steps| !steps.is_power_of_two()).map(Fault::Divisions);
        split.into_iter().chain(divisions)
    }

    /// Size of blocks that are released before others, and larger ones; none where segments grow.
    pub(super) fn released(&self) -> Option<u64> {
        self.max_split_size.filter(|_| !self.expandable_segments).map(Bytes::bytes)
    }

    /// Blocks of this many bytes and more are oversize.
    pub(super) fn oversize(&self) -> u64 {
        self.max_split_size.map_or(u64::MAX, Bytes::bytes)
    }
}
