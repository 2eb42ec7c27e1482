//! Models: what the stages of a pipeline compute and hold.

pub(crate) mod draft;
pub(crate) mod exchanged;
pub mod flops;
pub mod hosted;
pub(crate) mod laid;
pub mod layered;
pub(crate) mod names;
pub mod network;
pub mod profiled;
pub mod reuse;
pub mod transformer;
pub(crate) mod views;
