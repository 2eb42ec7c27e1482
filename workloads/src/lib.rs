//! workloads.
