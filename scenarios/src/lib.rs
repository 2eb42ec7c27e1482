//! Scenarios: the language in which experiments are written, and everything that runs them.
//!
//! ```text
//! bytes --text--> Node tree, every value with its position
//!       --experiment--> layers merged, typed by schema, checked: Experiment
//!       --resolve--> one Scenario per variant and point
//! ```
//!
//! Only front ends open files and talk to people: the command line here, and the Python package.
//!
//! A text becomes an experiment, and that a summary:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use scenarios::run::{Options, Unwatched, execute};
//!
//! let text = "
//! name: Which schedule?
//! model: { profiled_pipeline: { stages: 4, forward: 1 ms, backward_input: 1 ms, backward_weight: 1 ms, transfer: 0 ms, activation: 1 GB } }
//! training: { micro_batches: 8 }
//! variants:
//!   1f1b: {}
//!   zb-h1: { parallelism: { schedule: zb-h1 } }
//! ";
//! let files = BTreeMap::from([("tour.yaml".to_owned(), text.as_bytes().to_vec())]);
//! let experiment = scenarios::load(&files, "tour.yaml", &[]).unwrap_or_else(|failure| panic!("{failure}"));
//! let options = Options { seed: 1, jobs: Some(1), variants: Vec::new(), reproduce: String::new() };
//! let summary = execute(&experiment, &options, &Unwatched).unwrap_or_else(|refusal| panic!("{refusal}"));
//! // Eight micro-batches and a bubble of three, of 3 ms each; with weight gradients in the bubble only of 1 ms.
//! let times: Vec<f64> = summary.variants.iter().filter_map(|run| run.step_time_s).collect();
//! assert_eq!(times, [0.033, 0.027]);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "measure", feature = "soak")),
    allow(
        dead_code,
        unused_imports,
        reason = "helpers of what is left out stay beside those that they resemble"
    )
)]

pub mod best_plan;
#[cfg(feature = "measure")]
pub mod calibration;
pub mod campaign;
pub mod catalogue;
mod constants;
pub mod expectation;
pub mod experiment;
pub mod hardware;
pub mod interchange;
pub mod library;
mod plans;
pub mod run;
pub mod schema;
#[cfg(feature = "soak")]
pub mod soak;
mod text;
pub mod topics;
#[cfg(feature = "measure")]
pub mod validation;

pub use experiment::{
    Experiment, Files, Infeasible, Opened, Point, Resolved, beginning, load, refuse_special,
};
pub use hardware::MAX_BYTES;
pub use schema::{Scenario, json_schema, reference};
pub use text::lines::{WrongLine, read_lines};
pub use text::located::{Located, Place};
pub use text::problem::{Failure, Note, Problem};
pub use text::source::{Mark, Source, Sources};

/// Version and commit.
pub const VERSION: &str = env!("FORETRAIN_VERSION");
