//! `foretrain calibrate diff`: two hardware files beside each other.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use calibration::hardware::Hardware;
use reports::quantity;
use scenarios::beginning;
use scenarios::hardware::{Difference, MAX_BYTES, differences, read};
use serde::Serialize;

use crate::cli::printer::Printer;
use crate::cli::trouble::{self, Trouble};
use crate::cli::{Exit, Format};

/// What is compared, and how it is told.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A hardware file
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Another one
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
}

/// What was found, for programs.
#[derive(Serialize)]
struct Answer {
    /// What else is different: then the machine is another one, not a machine that changed.
    warnings: Vec<String>,
    constants: Vec<Difference>,
}

/// Compares two files.
pub(super) fn compare(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let Arguments { before, after, format } = arguments;
    let files = (hardware(before), hardware(after));
    let (old, new) = match files {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => {
            let wrong: Vec<String> = [old.err(), new.err()].into_iter().flatten().collect();
            return Err(Trouble::Mistake(wrong.join("; ")));
        }
    };
    let answer = Answer { warnings: warnings(&old, &new), constants: differences(&old, &new) };
    printer.print(&match format {
        Format::Json => trouble::json(&answer),
        Format::Table => {
            let heading = |path: &Path, hardware: &Hardware| {
                let Hardware { device, date, .. } = hardware;
                format!("{}: {}, {}, {date}\n", path.display(), device.name, device.driver)
            };
            heading(before, &old) + &heading(after, &new) + &text(&answer)
        }
    })
}

fn hardware(path: &Path) -> Result<Hardware, String> {
    let shown = path.display();
    let bytes = File::open(path).and_then(|file| beginning(file, MAX_BYTES));
    let bytes = bytes.map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("there is no file `{shown}`"),
        ErrorKind::IsADirectory => format!("`{shown}` is a folder: name a file in it"),
        _ => format!("cannot read `{shown}`: {error}"),
    })?;
    read(&bytes).map_err(|wrong| format!("`{shown}` {wrong}"))
}

fn warnings(old: &Hardware, new: &Hardware) -> Vec<String> {
    let differs = |what: &str, old: &str, new: &str| {
        (old != new).then(|| format!("another {what}: {old} before, {new} after"))
    };
    let (before, after) = (&old.device, &new.device);
    let facts = before.facts.iter().filter_map(|(name, fact)| differs(name, fact, after.facts.get(name)?));
    let moved = [(old, "first"), (new, "second")].into_iter().filter(|(hardware, _)| !hardware.steady);
    let moved =
        moved.map(|(_, which)| format!("the device of the {which} file changed while it was measured"));
    [differs("device", &before.name, &after.name), differs("driver", &before.driver, &after.driver)]
        .into_iter()
        .flatten()
        .chain(facts)
        .chain(moved)
        .collect()
}

fn text(answer: &Answer) -> String {
    let mut text: String = answer.warnings.iter().map(|warning| format!("{warning}\n")).collect();
    let value = |value: Option<f64>, unit: &str| {
        let value = value.map_or_else(
            || "not told".to_owned(),
            |value| format!("{} {unit}", quantity::significant(value)),
        );
        value.trim_end().to_owned()
    };
    let rows: Vec<[String; 5]> = answer
        .constants
        .iter()
        .map(|one| {
            let verdict = match one.beyond {
                Some(true) => "beyond both errors",
                Some(false) => "within",
                None => "",
            };
            let change = one.change.map(quantity::change).unwrap_or_default();
            let [before, after] = [one.before, one.after].map(|number| value(number, one.unit));
            [one.constant.clone(), before, after, change, verdict.to_owned()]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    text.push('\n');
    for [name, before, after, change, verdict] in &rows {
        let [a, b, c, d] = widths;
        let line = format!("  {name:a$}  {before:>b$}  {after:>c$}  {change:>d$}  {verdict}");
        text += &(line.trim_end().to_owned() + "\n");
    }
    let beyond = rows.iter().filter(|row| row[4].starts_with("beyond")).count();
    text + &format!("\n{beyond} of {} constants changed by more than the errors of both\n", rows.len())
}
