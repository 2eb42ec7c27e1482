//! Programs.
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
