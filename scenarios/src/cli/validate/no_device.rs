//! Workloads in a build without devices: none runs.

use super::Arguments;
use crate::cli::Exit;
use crate::cli::printer::Printer;
use crate::cli::trouble::Trouble;

/// Refuses to run workloads.
pub(super) fn measure(_: &Arguments, _: &Printer) -> Result<Exit, Trouble> {
    Err(Trouble::without_devices())
}
