//! Summaries, tables, plots and the HTML report of foretrain.
//!
//! `scenarios` fills a [`Summary`] (or a [`Validation`] or a [`Calibration`], which have writers of their own) and hands it to a writer. Nothing here
//! opens a file or touches a terminal.
//!
//! ```text
//! Summary --+-- finding    one sentence
//!           +-- winners    the fastest of every cell over two axes
//!           +-- terminal   sentence, table, bars
//!           +-- json, csv  everything, for programs
//!           +-- html       one self-contained page with plots
//! ```
//!
//! A run that fits, told beside one that does not:
//!
//! ```
//! use reports::finding::finding;
//! use reports::summary::RunSummary;
//!
//! let plain = RunSummary { variant: "plain".to_owned(), ..RunSummary::default() };
//! let offload = RunSummary {
//!     variant: "offload".to_owned(),
//!     fits: true,
//!     step_time_s: Some(1.5),
//!     ..RunSummary::default()
//! };
//! let found = finding(&[plain, offload], &[], &[], None).to_string();
//! assert!(found.contains("offload") && found.contains("1.50 s"), "{found}");
//! ```
#![forbid(unsafe_code)]

mod axis;
#[cfg(feature = "measured")]
pub mod calibration;
pub mod campaign;
mod case;
pub mod compared;
pub mod csv;
mod explained;
pub mod explanation;
pub mod finding;
pub mod html;
pub mod imported;
pub mod json;
mod matrix;
pub mod naming;
mod plots;
mod published;
pub mod quantity;
mod ranking;
pub mod searched;
mod standing;
pub mod state;
pub mod summary;
mod table;
pub mod terminal;
pub mod trace;
#[cfg(feature = "measured")]
pub mod validation;
mod winners;
pub mod wording;

#[cfg(feature = "measured")]
pub use calibration::Calibration;
pub use explained::explained;
pub use standing::note_ties;
pub use summary::Summary;
#[cfg(feature = "measured")]
pub use validation::Validation;
pub use winners::{Axis, Winner, Winners};
