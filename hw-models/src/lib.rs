//! Hardware models of foretrain: catalogue of devices and machines, topology, kernels, copies, collectives, storage.
//! Depends on `sim-core` only; the crate `calibration` beside it finds their constants.
//!
//! A pipeline with profiled stage times needs no machine; the models come with the scenarios that describe one.

pub mod allocator;
pub mod catalogue;
pub mod collectives;
pub mod copies;
pub mod errors;
pub mod host;
pub mod kernels;
pub mod machine;
pub mod provenance;
pub mod search;
pub mod settings;
pub mod storage;
