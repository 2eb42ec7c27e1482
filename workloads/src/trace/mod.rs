//! Recorded steps of a real program, replayed: a profiler's trace becomes lanes of host threads and
//! device streams.
//!
//! ```text
//! kineto    events of a file, one after the other            -> Recording
//! lanes     host gaps, launches, waits; device durations     -> Lanes
//! lower     one stream of the engine for each lane           -> Replay
//! replay    simulated, beside what was recorded              -> Replayed
//! ```
//!
//! Lanes hold how long hosts and devices worked and what each piece waits for, never when a device
//! activity began: that is what a replay finds.

pub mod changes;
mod constants;
mod handoffs;
mod host;
mod intervals;
pub mod kineto;
pub mod lanes;
mod launches;
pub mod lower;
mod names;
pub mod recording;
pub mod replay;
mod waits;

pub use lanes::Lanes;

pub use recording::Recording;
pub use replay::{Replayed, replay};
