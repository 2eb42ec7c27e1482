//! What a framework's caching allocator makes of the tensors of a rank.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Failure, RunSummary};

/// What the ranks of a stage need of their GPUs, all alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocatorPeak {
    /// The stage ("stage 3").
    pub device: String,
    /// What the GPU has for the plan.
    pub capacity_bytes: u64,
    /// What is not the allocator's: driver, context, communicators.
    pub outside_bytes: u64,
    /// The most that tensors had at a time.
    pub peak_allocated_bytes: u64,
    /// The most that segments had at a time: what the allocator had taken from the driver.
    pub peak_reserved_bytes: u64,
    /// Share of [`Self::peak_reserved_bytes`] beyond [`Self::peak_allocated_bytes`]: taken, but never of use.
    pub fragmentation: f64,
    /// [`Self::peak_allocated_bytes`] by kind, largest first.
    pub by_kind_bytes: IndexMap<String, u64>,
    /// What was executed when tensors had most.
    pub allocated_in: Option<Moment>,
    /// What was executed when segments had most.
    pub reserved_in: Option<Moment>,
    /// How often the GPU was waited for and free segments were returned to the driver, because it
    /// had no more, by the end of the second step.
    pub retries: u64,
}

/// An operator in execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The operator ("value gradient").
    pub operator: String,
    /// Where and for what ("backward of micro-batch 3, block 4").
    pub of: String,
}

impl AllocatorPeak {
    /// All that is taken of the GPU at most.
    pub fn needed_bytes(&self) -> u64 {
        self.outside_bytes.saturating_add(self.peak_reserved_bytes)
    }

    /// The part of the capacity that is taken at most.
    pub fn fullness(&self) -> f64 {
        self.needed_bytes() as f64 / self.capacity_bytes.max(1) as f64
    }
}

impl Moment {
    /// `value gradient in backward of micro-batch 3, block 4`.
    pub fn words(&self) -> String {
        format!("{} in {}", self.operator, self.of)
    }
}

/// Holder of the part of segments that is in no tensor, of a memory that ran out.
pub const FRAGMENTS: &str = "fragments of the allocator";

impl RunSummary {
    /// Why it is said to fit although the allocator was not asked; `None`: it was, or the run does not fit, or has a profile's bytes.
    pub fn fits_without_allocator(&self) -> Option<&str> {
        self.allocator_unknown.as_deref().filter(|_| self.fits)
    }

    /// True if the verdict, fits or not, is the allocator's.
    pub fn is_judged_by_allocator(&self) -> bool {
        let refuses = |failure: &Failure| failure.holders_bytes.contains_key(FRAGMENTS);
        !self.allocator.is_empty() || self.failure.as_ref().is_some_and(refuses)
    }
}
