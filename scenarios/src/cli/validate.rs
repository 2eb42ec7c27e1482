//! `foretrain validate`: how far predictions are from measurements.

use std::path::PathBuf;

use reports::terminal::Style;
use reports::validation::{self, Validation};
use scenarios::validation::{Options, validate as judge};

use super::output::{CSV, JSON, REPORT, Staging, page};
use super::printer::Printer;
use super::progress::{self, Bar};
use super::run::{Output, command};
use super::trouble::Trouble;
use super::{Exit, VERSION};

/// What is judged, and how it is told.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Names of sets (`foretrain list validations`); all if none is given
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Predictions at a time; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The folder in which the folder `validate` of results is
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Output::Table)]
    format: Output,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// The folder of results.
const FOLDER: &str = "validate";

/// Judges the sets.
pub(super) fn validate(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    progress::catch_interrupts();
    let options = Options {
        jobs: arguments.jobs.map(usize::from),
        version: VERSION.to_owned(),
        reproduce: command(["validate".to_owned()].into_iter().chain(arguments.names.iter().cloned())),
    };
    let staging = Staging::open(&arguments.out, FOLDER)?;
    let judged = judge(&arguments.names, &options, &Bar::new(arguments.quiet, "runs"));
    let Some(found) = judged.map_err(|wrong| Trouble::Mistake(wrong.join("; ")))? else {
        printer.complain("interrupted before all rows were predicted; nothing is kept");
        return Ok(Exit::Interrupted);
    };
    let [json, csv, report] = [
        page(JSON, |out| found.json(out))?,
        page(CSV, |out| validation::csv::write(out, &found))?,
        page(REPORT, |out| validation::html(out, &found))?,
    ];
    let report = staging.commit(&[(JSON, &json), (CSV, &csv), (REPORT, &report)])?.join(REPORT);
    match arguments.format {
        Output::Table => {
            let mut text = page("the table", |out| {
                validation::terminal::write(out, &found, Style { colour: printer.color })
            })?;
            text.extend(format!("\nreport: {}\n", report.display()).bytes());
            printer.print_bytes(&text)?
        }
        Output::Json => printer.print_bytes(&json)?,
        Output::Csv => printer.print_bytes(&csv)?,
    };
    Ok(exit(&found))
}

fn exit(found: &Validation) -> Exit {
    if found.passed() { Exit::Fine } else { Exit::BrokenPromise }
}
