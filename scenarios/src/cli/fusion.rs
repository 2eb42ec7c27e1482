//! `--explain-fusion`: groups of operators that are one kernel, as a table.

use std::fs;
use std::path::Path;

use scenarios::Experiment;
use scenarios::run::{self, Options};

use super::files::cannot_write;
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
    let mut table = csv::Writer::from_writer(Vec::new());
    for group in &groups {
        table.serialize(group).map_err(|error| Trouble::Mistake(error.to_string()))?;
    }
    let table = table.into_inner().map_err(|error| Trouble::Mistake(error.to_string()))?;
    fs::write(path, table).map_err(|error| cannot_write(path, &error))
}
