//! Devices that are there: the only part of this crate that touches hardware, looks at a clock and opens files.

#[cfg(any(target_os = "linux", windows))]
mod cuda;
#[cfg(target_os = "linux")]
mod host;
mod python;
mod torch;

#[cfg(any(target_os = "linux", windows))]
pub use cuda::Cuda;
#[cfg(target_os = "linux")]
pub use host::Host;
pub use python::{Greeting, Python, TorchGpu};
pub use torch::{Torch, Workloads};
