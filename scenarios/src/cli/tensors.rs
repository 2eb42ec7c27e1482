//! `foretrain show --tensors`: tensors of a run, as a file for `techniques.movement_plan`.

use scenarios::Resolved;
use workloads::passes::movement_plan::{Listed, Row};

use super::Exit;
use super::printer::Printer;
use super::trouble::Trouble;

/// Prints the tensors that wait for the backward pass, and where they are meanwhile.
pub(super) fn print(resolved: &Resolved, printer: &Printer) -> Result<Exit, Trouble> {
    let listed = scenarios::run::tensors(&resolved.scenario, 1).map_err(Trouble::Mistake)?;
    let header = [&Row::COLUMNS[..], &Listed::COLUMNS].concat();
    let mut rows = listed.into_iter().map(|Listed { row, bytes, stage }| {
        row.texts().into_iter().chain([bytes.to_string(), stage.to_string()])
    });
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written =
        writer.write_record(header).and_then(|()| rows.try_for_each(|row| writer.write_record(row)));
    written.map_err(|error| Trouble::Mistake(error.to_string()))?;
    let text = writer.into_inner().map_err(|error| Trouble::Mistake(error.to_string()))?;
    printer.print_bytes(&text)
}
