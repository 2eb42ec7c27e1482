//! Workloads that a GPU ran, beside what is predicted of them.

use std::fs::File;
use std::path::{Path, PathBuf};

use scenarios::beginning;
use scenarios::hardware;
use scenarios::validation::on_device::{OnMachine, Recorded, judge};

use super::{Arguments, judged};
use crate::cli::Exit;
use crate::cli::printer::Printer;
use crate::cli::trouble::Trouble;

/// Longest record that is read.
const MOST_BYTES: usize = 256 << 20;
/// Judges what a GPU did.
pub(super) fn replay(file: &Path, arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let shown = file.display();
    let bytes = read(file, MOST_BYTES)?;
    let name = file.file_name().map_or_else(|| shown.to_string(), |name| name.to_string_lossy().into_owned());
    let recorded = Recorded::read(&name, &String::from_utf8_lossy(&bytes)).map_err(Trouble::Mistake)?;
    let calibrations = calibrations(&arguments.calibration)?;
    let machine = OnMachine { gpu: recorded.heading.gpu.clone(), calibrations };
    let laid = arguments
        .calibration
        .iter()
        .flat_map(|file| ["--calibration".to_owned(), file.display().to_string()]);
    let said: Vec<String> = ["--recorded".to_owned(), shown.to_string()].into_iter().chain(laid).collect();
    judged(arguments, printer, &said, |options, bar| {
        judge(&arguments.names, &recorded, &machine, options, bar)
    })
}

/// The hardware files, by name.
pub(super) fn calibrations(files: &[PathBuf]) -> Result<Vec<(String, Vec<u8>)>, Trouble> {
    let mut read: Vec<(String, Vec<u8>)> = Vec::new();
    for file in files {
        let shown = file.display();
        let bytes = self::read(file, hardware::MAX_BYTES)?;
        hardware::read(&bytes).map_err(|wrong| Trouble::Mistake(format!("`{shown}` {wrong}")))?;
        let name =
            file.file_name().map_or_else(|| shown.to_string(), |name| name.to_string_lossy().into_owned());
        if read.iter().any(|(known, _)| *known == name) {
            let why = "records name files without their folders";
            return Err(Trouble::Mistake(format!(
                "two hardware files are called `{name}`: rename one, as {why}"
            )));
        }
        read.push((name, bytes));
    }
    Ok(read)
}

/// Several mistakes as one.
pub(super) fn mistake(wrong: &[String]) -> Trouble {
    Trouble::Mistake(wrong.join("; "))
}

/// The text of a file, if it is no longer than `most` bytes.
fn read(file: &Path, most: usize) -> Result<Vec<u8>, Trouble> {
    let shown = file.display();
    let read = File::open(file).and_then(|file| beginning(file, most));
    let bytes = read.map_err(|error| Trouble::Mistake(format!("cannot read `{shown}`: {error}")))?;
    if bytes.len() > most {
        return Err(Trouble::Mistake(format!("`{shown}` is longer than {} MiB", most >> 20)));
    }
    Ok(bytes)
}
