//! Graphs as data, against published figures and plain versions.

mod cache;
mod import;
mod presets;
mod sampling;
mod settings;
