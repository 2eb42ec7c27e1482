//! `foretrain validate`: how far predictions are from measurements.

mod dry_run;
mod on_device;
mod own;
mod recorded;
mod tuned;

use std::path::PathBuf;

use reports::validation::{self, Validation};
use scenarios::validation::{Options, names, title, validate as judge};

use crate::cli::interrupt;
use crate::cli::output::{CSV, JSON, REPORT, Staging, page};
use crate::cli::printer::Printer;
use crate::cli::progress::Bar;
use crate::cli::run::{Output, command};
use crate::cli::trouble::Trouble;
use crate::cli::{Exit, VERSION};

/// What is judged, and how it is told.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Names of sets (`foretrain list validations`), of workloads with `--on-device` or `--recorded`; all if none is given
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Run workloads in PyTorch on this machine's GPU, and compare them with what is predicted for it
    #[arg(long, conflicts_with = "recorded")]
    on_device: bool,
    /// Compare what a GPU did before: the `on-device.jsonl` of `--on-device`
    #[arg(long, value_name = "FILE")]
    recorded: Option<PathBuf>,
    /// Search over the axes of plans that others tuned, and tell where theirs are among the best; it
    /// takes minutes
    #[arg(long, conflicts_with_all = ["names", "on_device", "recorded", "calibration"])]
    tuned: bool,
    /// Judge a set of one's own: a YAML file that says how rows of a table become scenarios
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["names", "on_device", "recorded", "tuned", "calibration"]
    )]
    set: Option<String>,
    /// The folder with the table of `--set`; that of the file if not given
    #[arg(long, value_name = "FOLDER", requires = "set")]
    data: Option<String>,
    /// A hardware file of `foretrain calibrate` to predict with; may be given more than once
    #[arg(long, value_name = "FILE")]
    calibration: Vec<PathBuf>,
    /// The Python that has PyTorch
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "on_device")]
    python: PathBuf,
    /// Run only the rows that tell most
    #[arg(long, requires = "on_device")]
    quick: bool,
    /// Tell which workloads would run, what memory each needs, and what is predicted
    #[arg(long, requires = "on_device")]
    dry_run: bool,
    /// Which GPU of the catalogue it is, where its driver's name does not tell (`foretrain list gpus`)
    #[arg(long, value_name = "NAME", requires = "on_device")]
    gpu: Option<String>,
    /// Predictions at a time; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The folder in which the folder `validate` of results is
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Output::Table)]
    format: Output,
    /// Print everything, not what fits on a screen
    #[arg(long)]
    all: bool,
    /// End with exit code 1 if errors are beyond what is to be reached, not only if they are worse
    /// than committed
    #[arg(long)]
    strict: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// The folder of results.
const FOLDER: &str = "validate";

/// Judges the sets.
pub(super) fn validate(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    interrupt::catch();
    if let Some(set) = &arguments.set {
        return own::judge(set, arguments, printer);
    }
    match &arguments.recorded {
        _ if arguments.dry_run => dry_run::tell(arguments, printer),
        _ if arguments.on_device => on_device::measure(arguments, printer),
        _ if arguments.tuned => tuned::tell(arguments, printer),
        Some(file) => recorded::replay(file, arguments, printer),
        None if arguments.calibration.is_empty() => {
            judged(arguments, printer, &[], |options, bar| judge(&arguments.names, options, bar))
        }
        None => {
            let remedy =
                "`--calibration` goes with `--on-device` or `--recorded FILE`: sets say what they rest on";
            Err(Trouble::Mistake(remedy.to_owned()))
        }
    }
}

/// Judges, tells and keeps the results; `said` are the words of the command line beyond the names.
fn judged(
    arguments: &Arguments,
    printer: &Printer,
    said: &[String],
    judge: impl FnOnce(&Options, &Bar) -> Result<Option<Validation>, Vec<String>>,
) -> Result<Exit, Trouble> {
    let words = ["validate"].map(str::to_owned).into_iter().chain(said.iter().cloned());
    let options = Options {
        jobs: arguments.jobs.map(usize::from),
        version: VERSION.to_owned(),
        reproduce: command(words.chain(arguments.names.iter().cloned())),
    };
    let staging = Staging::open(&arguments.out, FOLDER)?;
    let judged = judge(&options, &Bar::new(arguments.quiet, "runs"));
    let Some(found) = judged.map_err(|wrong| Trouble::Mistake(wrong.join("; ")))? else {
        printer.complain("interrupted before all rows were predicted; nothing is kept");
        return Ok(Exit::Interrupted);
    };
    let [json, csv, report] = [
        page(JSON, |out| reports::json::write(out, &found))?,
        page(CSV, |out| validation::csv::write(out, &found))?,
        page(REPORT, |out| validation::html(out, &found))?,
    ];
    let report = staging.commit(&[(JSON, &json), (CSV, &csv), (REPORT, &report)])?.join(REPORT);
    match arguments.format {
        Output::Table => {
            let table = page("the table", |out| match arguments.all {
                true => validation::terminal::write(out, &found, printer.style),
                false => validation::brief::write(out, &found, printer.style),
            })?;
            printer.print_text(&table)?;
            let rest = if arguments.all { "" } else { "; `--all` prints everything" };
            printer.print_text(format!("\nreport: {}{rest}\n", report.display()).as_bytes())?
        }
        Output::Json => printer.print_bytes(&json)?,
        Output::Csv => printer.print_bytes(&csv)?,
    };
    Ok(exit(&found, arguments.strict))
}

/// The sets, each with its title.
pub(super) fn sets() -> Result<Vec<(String, String)>, Trouble> {
    Ok(names().map(|name| (name.to_owned(), title(name).unwrap_or_default())).collect())
}

/// Fine unless a part is worse than it was, or with `strict` beyond what is to be reached.
fn exit(found: &Validation, strict: bool) -> Exit {
    match found.is_as_committed() && (found.passed() || !strict) {
        true => Exit::Fine,
        false => Exit::BrokenPromise,
    }
}
