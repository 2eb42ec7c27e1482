//! Scenarios: the language in which experiments are written, and everything that runs them.
//!
//! ```text
//! bytes --text--> Node tree, every value with its position
//!       --experiment--> layers merged, typed by schema, checked: Experiment
//!       --resolve--> one Scenario per variant and point
//! ```
//!
//! Only this crate opens files and talks to the terminal, and within it only the command line does.
#![forbid(unsafe_code)]

pub mod calibration;
pub mod catalogue;
mod constants;
pub mod expectation;
pub mod experiment;
pub mod hardware;
pub mod library;
mod plans;
pub mod run;
pub mod schema;
pub mod soak;
mod text;
pub mod validation;

pub use experiment::{Experiment, Files, Infeasible, Point, Resolved, load};
pub use hardware::MAX_BYTES;
pub use schema::{Scenario, json_schema};
pub use text::lines::{WrongLine, read_lines};
pub use text::problem::{Failure, Note, Problem};
pub use text::source::{Mark, Source, Sources};
