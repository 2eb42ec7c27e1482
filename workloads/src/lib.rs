//! Workloads of foretrain: what a training step executes, where its tensors are, and in which order.
//! Depends on `sim-core` (and `hw-models`), never on scenarios or reports; opens no files and knows no YAML.
//!
//! A plan passes through four levels, because each technique acts where its information is:
//!
//! ```text
//!   PipelinePlan
//!      |  model::profiled
//!   OpGraph      operators and storages per stage, chunk and phase        <- techniques::recompute rewrites it
//!      |  order::generate (GPipe, 1F1B, interleaved, ZB-H1, ZB-H2, ZB-V, ZB-auto)
//!   Order        per stage: which phase of which chunk and micro-batch after which
//!      |  realise::visits
//!   Schedule     lanes of items over storages, the micro-batch as parameter
//!      |  techniques decide (bpipe fills the Dispositions), realise::{recompute, moves, messages} execute, check proves
//!      |  lower, with the CostBook: here times come in
//!   Program      streams of operations on resources, for sim_core::simulate
//! ```
//!
//! A technique *decides* and never says how long anything takes; contention, bubbles, stalls and running out of memory
//! emerge in the engine. The whole chain is [`plan::build`].

pub mod chain;
pub mod check;
pub mod cost;
pub mod disposition;
pub mod graph;
pub mod limits;
pub mod lower;
pub mod model;
pub mod names;
pub mod order;
pub mod plan;
pub mod realise;
pub mod schedule;
pub mod techniques;
mod timing;
