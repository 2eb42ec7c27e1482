//! Models: what the stages of a pipeline compute and hold.

pub(crate) mod exchanged;
pub mod laid;
pub mod profiled;
pub mod transformer;
