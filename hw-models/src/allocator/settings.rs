//! Settings of the allocator, as `PYTORCH_CUDA_ALLOC_CONF` gives them.

use serde::{Deserialize, Serialize};

use super::mistakes::Fault;
use super::sizes::LARGE_SEGMENT;

/// Settings of the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Blocks of this many bytes and more are not split, and serve only requests that are as large; more than 20 MiB.
    pub max_split_size: Option<u64>,
    /// Steps between one power of two and the next that sizes are rounded up to; a power of two up to 64.
    pub roundup_power2_divisions: Option<u32>,
    /// Segments grow.
    pub expandable_segments: bool,
}

/// Most steps between powers of two.
const DIVISIONS_MAX: u32 = 64;

impl Settings {
    /// What is wrong with them.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        let split = self.max_split_size.filter(|&bytes| bytes <= LARGE_SEGMENT).map(Fault::MaxSplitSize);
        let divisions = self
            .roundup_power2_divisions
            .filter(|&steps| !steps.is_power_of_two() || steps > DIVISIONS_MAX)
            .map(Fault::Divisions);
        split.into_iter().chain(divisions)
    }

    /// Blocks of this many bytes and more are oversize.
    pub(super) fn oversize(&self) -> u64 {
        self.max_split_size.unwrap_or(u64::MAX)
    }
}
