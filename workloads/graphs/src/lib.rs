//! Graphs as data: node types, relations, degrees, and what follows from them for mini-batches.
//! Depends on no other crate of the workspace, opens no files, and knows neither kernels nor time.
//!
//! ```text
//!   preset, statistics in YAML, edge list      GraphSource, import
//!       |
//!   Graph       node types, relations with histograms of degrees
//!       |
//!   Sample      nodes and edges of a mini-batch, hop by hop, by expectation      sampling
//!       |
//!   hit rate    of a cache that holds a share of the rows                        cache
//! ```
//!
//! ```
//! use graphs::GraphSource;
//!
//! let reddit = GraphSource::Preset("reddit".to_owned()).graph()?;
//! assert_eq!(reddit.nodes(), 232_965);
//! # Ok::<(), graphs::Problem>(())
//! ```
#![forbid(unsafe_code)]

pub mod cache;
mod checks;
pub mod degrees;
pub mod edges;
pub mod graph;
pub mod import;
mod laws;
mod presets;
mod relations;
pub mod sampling;
pub mod settings;

pub use degrees::Degrees;
pub use graph::{Graph, NodeType, Relation};
pub use presets::{preset_names, preset_sources};
pub use settings::{GraphSource, Problem, Statistics};
