//! scenarios.
