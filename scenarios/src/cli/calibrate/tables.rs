//! Constants of kernels from measured tables.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use calibration::{Errors, Table};
use hw_models::catalogue::nearest::remedy;
use reports::quantity;
use scenarios::beginning;
use scenarios::calibration::{Calibration, Class, Options, calibrate as fit, embedded, embedded_names};

use super::{Arguments, FOLDER, SAMPLES_MIN, in_words, page, put_hardware, today};
use crate::cli::files;
use crate::cli::interrupt;
use crate::cli::printer::Printer;
use crate::cli::progress::Bar;
use crate::cli::trouble::{self, Trouble};
use crate::cli::{Exit, Format, VERSION};

/// Longest table that is read.
const MOST_BYTES: usize = 64 << 20;
/// All tables that come with foretrain.
const ALL: &str = "all";

/// Fits what the tables measured.
pub(super) fn fitted(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    interrupt::catch();
    let tables = tables(&arguments.from)?;
    let folder = arguments.out.as_ref().map(|out| out.join(FOLDER));
    folder.as_deref().map(files::make).transpose()?;
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
    let written = folder.as_deref().map(|folder| write(folder, &found, &arguments.from)).transpose()?;
    match arguments.format {
        Format::Json => printer.print(&trouble::json(&found)),
        Format::Table => {
            let shown = |files: Vec<PathBuf>| {
                let shown: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                format!("\nwritten: {}\n", shown.join(", "))
            };
            printer.print(&(text(&found) + &written.map(shown).unwrap_or_default()))
        }
    }
}

/// The tables of these names; a file wins over a table of foretrain's, or over all of them.
fn tables(names: &[String]) -> Result<Vec<Table>, Trouble> {
    let (mut tables, mut wrong) = (Vec::new(), Vec::new());
    let meant =
        |name| if name == ALL && !Path::new(name).exists() { embedded_names().collect() } else { vec![name] };
    for name in names.iter().flat_map(|name| meant(name)) {
        match bytes(name)? {
            bytes if bytes.len() > MOST_BYTES => {
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
    let read = File::open(name).and_then(|file| beginning(file, MOST_BYTES));
    match (read, embedded(name)) {
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

/// A hardware file for every device, and a page with every row beside what the file says of it.
fn write(folder: &Path, found: &Calibration, from: &[String]) -> Result<Vec<PathBuf>, Trouble> {
    let fitted = format!(
        "Fitted by foretrain calibrate --from {}. Starts of kernels are those of the catalogue.",
        from.join(" ")
    );
    let mut written = Vec::new();
    for hardware in found.hardware(&today()) {
        let name = &hardware.device.name;
        let file = format!("{name}.yaml");
        let page = page::of_tables(&hardware, &file, found)?;
        written.push(put_hardware(folder, &file, &fitted, &hardware)?);
        written.push(files::put(folder, &format!("{name}.html"), &page)?);
    }
    Ok(written)
}

fn text(found: &Calibration) -> String {
    let classes = found.classes.iter().map(class).collect::<Vec<_>>().join("\n");
    if found.classes.len() > 1 { classes + "\n" + &at_a_glance(&found.classes) } else { classes }
}

/// What each class is off on what was held out, in a line.
fn at_a_glance(classes: &[Class]) -> String {
    let heading =
        ["held out", "n", "MAPE", "95 % interval", "median", "p95", "catalogue's MAPE"].map(str::to_owned);
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let row = |class: &Class| {
        let Errors { samples, mean, interval, median, p95, .. } = class.held_out;
        let percent = |share| if samples >= SAMPLES_MIN { percent(share) } else { String::new() };
        let interval = interval.map(|ends| ends.map(percent).join(" to ")).unwrap_or_default();
        let name = format!("{} {}", class.device, class.kernels);
        let catalogue = percent(class.catalogue.mean);
        [name, samples.to_string(), percent(mean), interval, percent(median), percent(p95), catalogue]
    };
    let rows: Vec<[String; 7]> = std::iter::once(heading).chain(classes.iter().map(row)).collect();
    let widths: [usize; 7] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; 7]| {
        let (name, numbers) = (&row[0], row.iter().zip(widths).skip(1));
        let numbers: String = numbers.map(|(cell, width)| format!("  {cell:>width$}")).collect();
        format!("{name:0$}{numbers}\n", widths[0])
    };
    rows.iter().map(line).collect()
}

fn class(class: &Class) -> String {
    let constants: Vec<String> =
        class.constants.iter().map(|(name, value)| format!("{name} {}", quantity::count(*value))).collect();
    let errors = |errors: &Errors| match errors.samples {
        0 => "no row".to_owned(),
        _ => in_words(errors),
    };
    let Class { fitted, held_out, formula_alone, catalogue, .. } = class;
    let [fitted, held_out, alone, catalogue] = [fitted, held_out, formula_alone, catalogue].map(errors);
    format!(
        "{} {}\n  constants      {}\n  corrections    {} shapes\n  fitted         {fitted}\n  held out       {held_out}\n  \
         formula alone  {alone}\n  catalogue      {catalogue}\n",
        class.device,
        class.kernels,
        constants.join(", "),
        class.corrections,
    )
}
