//! Devices that are there: the only part of this crate that touches hardware, looks at a clock and opens files.

#[cfg(target_os = "linux")]
mod host;

#[cfg(target_os = "linux")]
pub use host::Host;
