//! Recorded steps of a real program, replayed: a profiler's trace becomes lanes of host threads and
//! device streams.
//!
//! ```text
//! kineto    events of a file, one after the other            -> Recording
//! traced    host gaps, launches, waits; device durations     -> Traced, with its lanes
//! replay    simulated, beside what was recorded              -> Replayed
//! ```

pub mod changes;
mod constants;
mod handoffs;
mod host;
mod intervals;
pub mod kineto;
mod launches;
mod names;
pub mod recording;
pub mod replay;
pub mod traced;
mod waits;
mod what_if;

pub use recording::Recording;
pub use replay::{Replayed, replay, simulation};
pub use traced::Traced;
pub use what_if::{Loader, WhatIf};
