//! Models: what the stages of a pipeline compute and hold.

pub mod laid;
pub mod profiled;
pub mod transformer;
