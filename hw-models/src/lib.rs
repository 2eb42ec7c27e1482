//! Hardware models of foretrain: catalogue of devices and machines, topology, kernels, copies, collectives, storage, and
//! their calibration. Depends on `sim-core` only.
//!
//! A pipeline with profiled stage times needs no machine; the models come with the scenarios that describe one.

pub mod allocator;
pub mod calibration;
pub mod catalogue;
pub mod collectives;
pub mod copies;
pub mod host;
pub mod kernels;
pub mod machine;
pub mod provenance;
pub mod storage;
