//! Programs: what Python does in an iteration, statement by statement, over the operators of a
//! model, and what it takes in each execution mode.
//!
//! ```text
//! statement      as it is written                                      -> Program
//! path           branches and trips drawn, before the run              -> Path of an iteration
//! modes, issuer  threads that issue, check, wait; the device's stream  -> Lanes
//! run            simulated                                             -> Executed
//! ```
//!
//! Overlap of Python and graph, stalls, speed-ups and the moment of a fall-back emerge in the
//! engine.

pub mod base;
pub mod check;
pub mod convert;
pub mod execution;
pub mod issuer;
pub mod modes;
pub mod path;
pub mod reach;
pub mod run;
pub mod statement;
pub mod trace_graph;

/// Published programs by name: a model, fragments and statements.
pub const PROGRAMS: &str = include_str!("../../presets/programs.yaml");
