//! Techniques. A technique decides: it rewrites the operator graph or fills the [table of
//! dispositions](crate::disposition). It executes nothing and knows no time.

pub mod bpipe;
pub mod offload;
pub mod recompute;
pub mod swap;
pub mod zero_infinity;
pub mod zero_offload;
