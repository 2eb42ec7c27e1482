//! Summaries, tables, plots and the HTML report of foretrain.
//!
//! `scenarios` fills a [`Summary`] (or a [`Validation`] or a [`Calibration`], which have writers of their own) and hands it to a writer. Nothing here
//! opens a file or touches a terminal.
//!
//! ```text
//! Summary --+-- finding    one sentence
//!           +-- terminal   sentence, table, bars
//!           +-- json, csv  everything, for programs
//!           +-- html       one self-contained page with plots
//! ```
#![forbid(unsafe_code)]

mod absent;
mod axis;
pub mod calibration;
mod case;
pub mod csv;
pub mod finding;
pub mod html;
pub mod json;
mod matrix;
pub mod naming;
mod plots;
mod published;
pub mod quantity;
mod ranking;
mod standing;
pub mod state;
pub mod summary;
mod table;
pub mod terminal;
pub mod validation;
pub mod wording;

pub use calibration::Calibration;
pub use summary::Summary;
pub use validation::Validation;
