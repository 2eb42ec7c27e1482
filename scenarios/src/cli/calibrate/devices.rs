//! Devices of this machine, opened.

use std::path::Path;

use calibration::devices::{Cuda, Host, Torch};
use calibration::measure::Device;

use crate::cli::trouble::Trouble;

/// The machine, and the drive that `folder` is on.
pub(super) fn host(folder: &Path) -> Result<Box<dyn Device>, Trouble> {
    Ok(Box::new(Host::open(folder)))
}

/// Its GPU of this number, and the same drive.
pub(super) fn cuda(number: u32, folder: &Path) -> Result<Box<dyn Device>, Trouble> {
    Ok(Box::new(Cuda::open(number, folder)))
}

/// PyTorch of the interpreter `python`, on the GPU of this number or on the host.
pub(super) fn torch(python: &Path, gpu: Option<u32>) -> Result<Box<dyn Device>, Trouble> {
    Ok(Box::new(Torch::open(python, gpu)))
}
