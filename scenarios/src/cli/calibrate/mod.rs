//! `foretrain calibrate`: constants of devices, from measuring them or from tables that others measured.

mod device;
mod devices;
mod diff;
mod needs;
mod page;
mod samples;
mod tables;

use std::path::{Path, PathBuf};

use calibration::Errors;
use calibration::hardware::Hardware;

use super::printer::Printer;
use super::trouble::Trouble;
use super::{Exit, Format, files};
use device::Target;

/// Fewest samples of which there are statistics.
const SAMPLES_MIN: usize = 5;

/// Errors in words; of few samples only how many there are.
fn in_words(errors: &Errors) -> String {
    match errors.samples {
        few if few < SAMPLES_MIN => format!("n {few}, too few for statistics"),
        _ => errors.to_string(),
    }
}

/// What is measured or fitted, and how it is told.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("what").required(true).args(["from", "device", "dry_run"]).multiple(true)),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Fit tables of measured kernels: CSV files, names of tables that come with foretrain (`gemm_h100_xla.csv`), or `all` of
    /// those
    #[arg(long, num_args = 1.., value_name = "FILE|NAME", conflicts_with_all = ["device", "dry_run", "quick", "resume", "suite", "dir", "budget", "with_torch", "python"])]
    from: Vec<String>,
    /// Measure a device: `host`, `cuda` or `cuda:1`, `recorded:FILE` (samples.jsonl of an earlier measurement), or `synthetic`
    #[arg(long, value_name = "DEVICE")]
    device: Option<Target>,
    /// Say what measuring needs, what of it is missing, and how to get it
    #[arg(long)]
    dry_run: bool,
    /// Measure only what scenarios ask for most
    #[arg(long)]
    quick: bool,
    /// Go on with a measurement that was interrupted
    #[arg(long)]
    resume: bool,
    /// Probes, separated by commas; all if not given
    #[arg(long, value_name = "PROBE", value_delimiter = ',')]
    suite: Vec<String>,
    /// A folder on the drive that is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Measure PyTorch beside the device too: what its operators, gradients and allocator take on the host, and its kernels
    #[arg(long)]
    with_torch: bool,
    /// The Python that PyTorch is asked of
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Seconds after which no task is begun
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    budget: Option<u32>,
    /// The folder in which the folder `calibration` of results is: a hardware file and a page of each device; for tables none
    /// is written if not given, for a device it is `out`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Devices of tables at a time; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), requires = "from")]
    jobs: Option<u16>,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// What else can be done.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Compare two hardware files, constant by constant
    Diff(diff::Arguments),
}

/// The folder of results.
const FOLDER: &str = "calibration";

/// Measures a device, or fits what tables measured.
pub(super) fn calibrate(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let (done, format) = match (&arguments.command, &arguments.device) {
        (Some(Command::Diff(diff)), _) => (diff::compare(diff, printer), diff.format),
        _ if arguments.dry_run => (needs::tell(arguments, printer), arguments.format),
        (None, Some(target)) => (device::measure(target, arguments, printer), arguments.format),
        (None, None) => (tables::fitted(arguments, printer), arguments.format),
    };
    match done {
        Err(end @ Trouble::Output(_)) => Err(end),
        Err(trouble) => Ok(trouble.report(printer, format)),
        Ok(exit) => Ok(exit),
    }
}

/// Writes a hardware file that begins with a sentence about where it is from.
fn put_hardware(folder: &Path, file: &str, from: &str, hardware: &Hardware) -> Result<PathBuf, Trouble> {
    let body = serde_yaml::to_string(hardware).map_err(|error| Trouble::Mistake(error.to_string()))?;
    files::put(folder, file, format!("# {from} Errors are relative.\n{body}").as_bytes())
}

/// The date of the system's clock.
pub(super) fn today() -> String {
    let now = time::OffsetDateTime::now_utc();
    format!("{}-{:02}-{:02}", now.year(), u8::from(now.month()), now.day())
}
