//! `foretrain show --tensors`: tensors of a run, as a file for `techniques.movement_plan`.

use scenarios::Resolved;

use super::Exit;
use super::printer::Printer;
use super::trouble::Trouble;

const HEADER: [&str; 7] = ["tensor", "tier", "out", "wait", "in", "bytes", "stage"];

/// Prints the tensors that wait for the backward pass, and where they are meanwhile.
pub(super) fn print(resolved: &Resolved, printer: &Printer) -> Result<Exit, Trouble> {
    let listed = scenarios::run::tensors(&resolved.scenario, 1).map_err(Trouble::Mistake)?;
    let rows = listed.into_iter().map(|listed| {
        let [tensor, tier, out, wait, back] = listed.row.texts();
        [tensor, tier, out, wait, back, listed.bytes.to_string(), listed.stage.to_string()]
    });
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut rows = [HEADER.map(str::to_owned)].into_iter().chain(rows);
    rows.try_for_each(|row| writer.write_record(row)).map_err(|error| Trouble::Mistake(error.to_string()))?;
    let text = writer.into_inner().map_err(|error| Trouble::Mistake(error.to_string()))?;
    printer.print_bytes(&text)
}
