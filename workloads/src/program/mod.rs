//! Programs.
pub mod base;
pub mod execution;
pub mod issuer;
pub mod modes;
pub mod path;
pub mod run;
pub mod statement;
pub mod trace_graph;
