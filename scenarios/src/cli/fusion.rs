//! `run --explain-fusion` and `show --kernels`: groups of operators that are one kernel, and the
//! kernels that a search compares, as tables.

use std::fs;
use std::path::Path;

use scenarios::run::{self, Options};
use scenarios::{Experiment, Resolved};
use serde::Serialize;

use super::Exit;
use super::files::cannot_write;
use super::printer::Printer;
use super::trouble::Trouble;

/// Writes a row for each kernel of several operators, of each variant.
///
/// # Errors
/// No variant asks for fusion, or the file cannot be written.
pub(super) fn write_groups(path: &Path, experiment: &Experiment, options: &Options) -> Result<(), Trouble> {
    let groups = run::fused(experiment, options);
    if groups.is_empty() {
        return Err(Trouble::Mistake(
            "`--explain-fusion` has nothing to write: no variant makes one kernel of several operators; write \
             `techniques: { fusion: { policy: searched } }`"
                .to_owned(),
        ));
    }
    fs::write(path, table(&groups)?).map_err(|error| cannot_write(path, &error))
}

/// Prints the kernels that a device is asked to time, as a file for `techniques.fusion.measured`.
pub(super) fn print_kernels(resolved: &Resolved, printer: &Printer) -> Result<Exit, Trouble> {
    let kernels = run::kernels(&resolved.scenario).map_err(Trouble::Mistake)?;
    printer.print_bytes(&table(&kernels)?)
}

/// Rows as comma-separated values.
fn table(rows: &[impl Serialize]) -> Result<Vec<u8>, Trouble> {
    let mut table = csv::Writer::from_writer(Vec::new());
    rows.iter()
        .try_for_each(|row| table.serialize(row))
        .map_err(|error| Trouble::Mistake(error.to_string()))?;
    table.into_inner().map_err(|error| Trouble::Mistake(error.to_string()))
}
