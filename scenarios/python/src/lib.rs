//! Native half of the Python package `foretrain`.
//!
//! ```text
//! foretrain (python/foretrain)   dicts, data frames, notebooks
//!    | texts and JSON
//! foretrain._native (here)       loads, runs, draws; without the interpreter lock
//!    |
//! scenarios, reports             as the command line uses them
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "extension")]
mod native;
