//! Models: what the stages of a pipeline compute and hold.

pub(crate) mod cut;
pub(crate) mod exchanged;
pub(crate) mod laid;
pub mod profiled;
pub mod transformer;
