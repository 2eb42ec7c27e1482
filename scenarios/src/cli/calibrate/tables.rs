//! Constants of kernels from measured tables.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use hw_models::calibration::{Errors, Table};
use hw_models::catalogue::nearest::remedy;
use reports::quantity;
use scenarios::calibration::{Calibration, Class, Options, calibrate as fit, embedded, embedded_names};

use super::{Arguments, FOLDER, samples, today};
use crate::cli::printer::Printer;
use crate::cli::progress::{self, Bar};
use crate::cli::trouble::{self, Trouble};
use crate::cli::{Exit, Format, VERSION};

/// Longest table that is read.
const MOST_BYTES: u64 = 64 << 20;

/// Fits what the tables measured.
pub(super) fn fitted(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    progress::catch_interrupts();
    let tables = tables(&arguments.from)?;
    let folder = arguments.out.as_ref().map(|out| out.join(FOLDER));
    folder.as_deref().map(samples::make).transpose()?;
    let options = Options { jobs: arguments.jobs.map(usize::from), version: VERSION.to_owned() };
    let found = fit(&tables, &options, &Bar::new(arguments.quiet, "classes of kernels"));
    let Some(found) = found.map_err(Trouble::Tables)? else {
        printer.complain("interrupted before everything was fitted; nothing is kept");
        return Ok(Exit::Interrupted);
    };
    for rows in &found.left_out {
        let noun = if rows.rows == 1 { "row" } else { "rows" };
        printer.tell(&format!(
            "left out: {} {noun} of {} {}: {}\n",
            rows.rows, rows.device, rows.kernels, rows.reason
        ));
    }
    if found.classes.is_empty() {
        return Err(Trouble::Mistake("no row of the tables can be fitted".to_owned()));
    }
    folder.as_deref().map(|folder| write(folder, &found, &arguments.from)).transpose()?;
    match arguments.format {
        Format::Json => printer.print(&trouble::json(&found)),
        Format::Table => {
            let written = folder.map(|folder| format!("\nhardware files: {}\n", folder.display()));
            printer.print(&(text(&found) + &written.unwrap_or_default()))
        }
    }
}

/// The tables of these names; a file wins over a table of foretrain's.
fn tables(names: &[String]) -> Result<Vec<Table>, Trouble> {
    let (mut tables, mut wrong) = (Vec::new(), Vec::new());
    for name in names {
        match bytes(name)? {
            bytes if bytes.len() as u64 > MOST_BYTES => {
                let message =
                    format!("`{name}` is longer than {} MiB: cut the table into several", MOST_BYTES >> 20);
                return Err(Trouble::Mistake(message));
            }
            bytes => match Table::read(name, &bytes[..]) {
                Ok(table) => tables.push(table),
                Err(error) => wrong.push(error),
            },
        }
    }
    if wrong.is_empty() { Ok(tables) } else { Err(Trouble::Tables(wrong)) }
}

fn bytes(name: &str) -> Result<Vec<u8>, Trouble> {
    let beginning = |file: File| {
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    match (File::open(name).and_then(beginning), embedded(name)) {
        (Ok(bytes), _) => Ok(bytes),
        (Err(error), Some(text)) if error.kind() == ErrorKind::NotFound => Ok(text.as_bytes().to_vec()),
        (Err(error), None) if error.kind() == ErrorKind::NotFound => {
            let known: Vec<&str> = embedded_names().collect();
            let remedy = remedy(name, &known, "table");
            Err(Trouble::Mistake(format!("there is no file `{name}`: {remedy}")))
        }
        (Err(error), _) => Err(Trouble::Mistake(format!("cannot read `{name}`: {error}"))),
    }
}

/// A hardware file for every device.
fn write(folder: &Path, found: &Calibration, from: &[String]) -> Result<(), Trouble> {
    for hardware in found.hardware(&today()) {
        let body = serde_yaml::to_string(&hardware).map_err(|error| Trouble::Mistake(error.to_string()))?;
        let head = format!(
            "# Fitted by foretrain calibrate --from {}. Starts of kernels are those of the catalogue. Errors are relative.\n",
            from.join(" ")
        );
        samples::put(folder, &format!("{}.yaml", hardware.device.name), (head + &body).as_bytes())?;
    }
    Ok(())
}

fn text(found: &Calibration) -> String {
    found.classes.iter().map(class).collect::<Vec<_>>().join("\n")
}

fn class(class: &Class) -> String {
    let constants: Vec<String> =
        class.constants.iter().map(|(name, value)| format!("{name} {}", quantity::count(*value))).collect();
    let errors = |errors: &Errors| match errors.samples {
        0 => "no row".to_owned(),
        _ => errors.to_string(),
    };
    let [fitted, held_out, alone] = [&class.fitted, &class.held_out, &class.formula_alone].map(errors);
    format!(
        "{} {}\n  constants      {}\n  corrections    {} shapes\n  fitted         {fitted}\n  held out       {held_out}\n  \
         formula alone  {alone}\n",
        class.device,
        class.kernels,
        constants.join(", "),
        class.corrections,
    )
}
