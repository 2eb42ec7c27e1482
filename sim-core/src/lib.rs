//! The discrete-event core of foretrain: time, fluid resources, pools, stores, and streams of operations.
//! It depends on no other crate of the workspace and knows no GPU, tensor, model, YAML or plot.

pub mod engine;
pub mod fixed;
pub mod fold;
pub mod id;
pub mod noise;
pub mod observe;
pub mod outcome;
pub mod platform;
pub mod program;
pub mod queue;
pub mod record;
pub mod sharing;
pub mod time;
pub mod validate;

pub use engine::{Options, simulate, simulate_observed};
