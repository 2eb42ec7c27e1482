//! `foretrain show --kernels`: kernels among which fusion searches, as a file for
//! `techniques.fusion.measured`.

use scenarios::Resolved;

use super::Exit;
use super::printer::Printer;
use super::trouble::Trouble;

/// Prints the kernels that a device is asked to time.
pub(super) fn print(resolved: &Resolved, printer: &Printer) -> Result<Exit, Trouble> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut rows = scenarios::run::kernels(&resolved.scenario).map_err(Trouble::Mistake)?.into_iter();
    rows.try_for_each(|row| writer.serialize(row)).map_err(|error| Trouble::Mistake(error.to_string()))?;
    let text = writer.into_inner().map_err(|error| Trouble::Mistake(error.to_string()))?;
    printer.print_bytes(&text)
}
