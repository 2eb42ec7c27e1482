//! Every row of every set beside its prediction, as CSV.

use std::io::{self, Write};

use super::Validation;

/// Columns; what was measured is one of them, as `column value, column value`.
const COLUMNS: [&str; 10] =
    ["set", "part", "place", "unit", "measured", "predicted", "error", "inputs", "left_out", "explanation"];

/// Writes a line for each row.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, validation: &Validation) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    for (set, part) in validation.parts() {
        for row in &part.rows {
            let [measured, predicted] = [row.measured, row.predicted].map(|value| value.to_string());
            let error = format!("{:.6}", row.error());
            let label = row.label();
            let explanation = row.explanation.as_deref().unwrap_or_default();
            writer.write_record([
                &*set.name,
                &part.name,
                &row.place,
                row.unit.name(),
                &measured,
                &predicted,
                &error,
                &label,
                "",
                explanation,
            ])?;
        }
        for row in &part.left_out {
            let (label, reason) = (row.label(), row.reason.as_str());
            writer.write_record([&*set.name, &part.name, &row.place, "", "", "", "", &label, reason, ""])?;
        }
    }
    writer.flush()
}
