//! Recorded steps of a real program, replayed: a profiler's trace becomes lanes of host threads and
//! device streams.
//!
//! ```text
//! kineto    events of a file, one after the other            -> Recording
//! chakra    nodes of a file, a graph                         -> Traced, with its lanes
//! traced    host gaps, launches, waits; device durations     -> Traced, with its lanes
//! replay    simulated, beside what was recorded              -> Replayed
//! ```

pub mod chakra;
pub mod changes;
mod constants;
mod handoffs;
mod hardware;
mod host;
mod intervals;
pub mod kineto;
mod launches;
mod measured;
mod names;
mod packed;
pub mod recording;
pub mod replay;
mod skew;
pub mod traced;
mod waits;
mod what_if;

pub use hardware::{Fault, Hardware};
pub use measured::Measured;
pub use recording::Recording;
pub use replay::{Replayed, replay, simulation};
pub use traced::Traced;
pub use what_if::{Elementwise, Launching, Loader, WhatIf};
