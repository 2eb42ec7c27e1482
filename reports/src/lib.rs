//! Summaries, tables, plots and the HTML report of foretrain.
//!
//! `scenarios` fills a [`Summary`] and hands it to a writer. Nothing here opens a file, touches a terminal or knows
//! what a GPU is.

pub mod state;
pub mod summary;

pub use summary::Summary;
