//! Promises of measuring and fitting, by subject.

mod copies;
mod fitted;
mod framework;
mod growth;
mod interference;
mod known;
mod measured;
mod overlay;
mod products;
#[cfg(feature = "devices")]
mod python;
mod reads;
mod tiles;
#[cfg(feature = "devices")]
mod torch;
