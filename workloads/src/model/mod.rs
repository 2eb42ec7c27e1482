//! Models: what the stages of a pipeline compute and hold.

pub mod profiled;
pub mod transformer;
