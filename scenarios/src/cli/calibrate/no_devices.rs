//! Devices of a build that measures none.

use std::path::Path;

use calibration::measure::Device;

use crate::cli::trouble::Trouble;

/// Refuses to open the machine.
pub(super) fn host(_: &Path) -> Result<Box<dyn Device>, Trouble> {
    Err(Trouble::without_devices())
}

/// Refuses to open a GPU.
pub(super) fn cuda(_: u32, _: &Path) -> Result<Box<dyn Device>, Trouble> {
    Err(Trouble::without_devices())
}

/// Refuses to start PyTorch.
pub(super) fn torch(_: &Path, _: Option<u32>) -> Result<Box<dyn Device>, Trouble> {
    Err(Trouble::without_devices())
}
