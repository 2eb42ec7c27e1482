//! The command line: one module a verb.
//!
//! Results go to standard output, everything else to standard error. The exit code says how it ended: [`Exit`].

mod bug;
#[cfg(feature = "measure")]
mod calibrate;
mod check;
mod compare;
mod emit;
mod explain;
mod export;
mod facts;
mod files;
mod fit;
mod fusion;
mod import;
mod import_graph;
mod import_plan;
mod input;
mod interrupt;
mod journal;
mod lines;
mod list;
mod merge;
mod new;
mod output;
mod plan;
mod printer;
mod progress;
mod request;
mod run;
mod shards;
mod show;
#[cfg(not(feature = "measure"))]
mod simulates_only;
mod task;
mod tensors;
mod traced;
mod trouble;
#[cfg(feature = "measure")]
mod validate;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use printer::Printer;
use scenarios::VERSION;
use trouble::Trouble;
#[cfg(not(feature = "measure"))]
use {simulates_only as calibrate, simulates_only as validate};

/// The seed where none is given.
const SEED: u64 = 1;

const EXAMPLES: &str = "\
Examples:
  foretrain run pipeline-schedules    compare pipeline schedules on profiled A100 runs
  foretrain new my.yaml               begin an experiment of your own
  foretrain run my.yaml --set training.micro_batches=64";

const EXITS: &str = "\
Exit codes:
  0    done; that runs do not fit is a result
  1    a promise of a file is broken, a run deadlocks, none fits with `--fail-if-none-fits`, or predictions are worse than committed
  2    the input is wrong
  3    no such device, or no library for it
  70   a bug in foretrain
  130  interrupted; what had ended is kept";

/// Rehearses a training run before anyone pays for it: time, memory, what limits it, and which technique helps.
#[derive(Debug, Parser)]
#[command(name = "foretrain", version = VERSION, after_help = [EXAMPLES, EXITS].join("\n\n"), max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Whether to colour; `auto` asks the terminal and NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Simulate every variant at every point, say what was found and write a report
    Run(run::Arguments),
    /// Say what differs between two runs: settings, time by cause, memory by kind
    Compare(compare::Arguments),
    /// Say what decides the time of a step: its critical path, and every part twice and half as
    /// fast; or what a word of a table means
    Explain(explain::Arguments),
    /// Write the results of a run whose shards were simulated apart (`run --shard`)
    Merge(merge::Arguments),
    /// Say whether files are right and what running them takes, or everything that is wrong with them
    Check(check::Arguments),
    /// Print a scenario as it is run, every value with its origin
    Show(show::Arguments),
    /// Say how far predictions are from measurements
    Validate(validate::Arguments),
    /// Measure a device, or fit tables that others measured, and say how far that predicts what was not fitted
    Calibrate(calibrate::Arguments),
    /// Write a plan as the arguments of a training framework
    Export(export::Arguments),
    /// Read a profiler's trace and replay it, unchanged or changed; or read the arguments of a training framework as a
    /// scenario
    Import(import::Arguments),
    /// List what there is to choose from
    List(list::Arguments),
    /// Begin a scenario file
    New(new::Arguments),
    /// Print a scenario that searches for the best plan of a model on a machine
    Plan(task::Task),
    /// Look for the largest model, batch or sequence that a machine trains, or the fewest nodes that train a model
    Fit(fit::Arguments),
    /// Print every key of scenario files: a JSON Schema for editors, or a page for people
    Schema {
        /// Form in which they are printed
        #[arg(long, value_enum, default_value_t = SchemaFormat::Json)]
        format: SchemaFormat,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages, one a command
    Man {
        /// The folder that they are written to
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Forms of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemaFormat {
    /// A JSON Schema, for editors
    Json,
    /// Tables of keys, values and meanings
    Markdown,
}

/// How foretrain ends; of several ends the last one here is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Exit {
    /// It did what it was asked; that something does not fit is a result.
    Fine = 0,
    /// A promise of a file is broken, a run deadlocks, none fits where one must, or predictions are farther off than they may be.
    BrokenPromise = 1,
    /// The input is wrong, or there is nowhere to write.
    BadInput = 2,
    /// There is no such device, or a library for it is missing.
    NoDevice = 3,
    /// Ctrl-C; what had ended by then is kept.
    Interrupted = 130,
    /// A mistake in foretrain.
    Bug = 70,
}

/// Parses the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    bug::hook();
    let exit = catch_unwind(AssertUnwindSafe(dispatch)).unwrap_or(Exit::Bug);
    ExitCode::from(exit as u8)
}

fn dispatch() -> Exit {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) => {
            // Help and version, too, come as an error; nobody listening is no reason to complain.
            let _ = answer.print();
            return if answer.use_stderr() { Exit::BadInput } else { Exit::Fine };
        }
    };
    let printer = Printer::new(arguments.color);
    perform(arguments.verb, &printer).unwrap_or_else(|trouble| trouble.report(&printer, Format::Table))
}

/// Does one file after the other; the worst end counts. Stops when nobody reads any more.
fn each(
    files: &[String],
    format: Format,
    printer: &Printer,
    mut one: impl FnMut(usize, &str) -> Result<Exit, Trouble>,
) -> Result<Exit, Trouble> {
    let mut worst = Exit::Fine;
    for (index, file) in files.iter().enumerate() {
        worst = worst.max(match one(index, file) {
            Err(end @ Trouble::Output(_)) => return Err(end),
            Err(trouble) => trouble.report(printer, format),
            Ok(exit) => exit,
        });
    }
    Ok(worst)
}

fn perform(verb: Option<Verb>, printer: &Printer) -> Result<Exit, Trouble> {
    match verb {
        Some(Verb::Run(arguments)) => run::run(&arguments, printer),
        Some(Verb::Compare(arguments)) => compare::compare(&arguments, printer),
        Some(Verb::Explain(arguments)) => explain::explain(&arguments, printer),
        Some(Verb::Merge(arguments)) => merge::merge(&arguments, printer),
        Some(Verb::Check(arguments)) => check::check(&arguments, printer),
        Some(Verb::Show(arguments)) => show::show(&arguments, printer),
        Some(Verb::Validate(arguments)) => validate::validate(&arguments, printer),
        Some(Verb::Calibrate(arguments)) => calibrate::calibrate(&arguments, printer),
        Some(Verb::Export(arguments)) => export::export(&arguments, printer),
        Some(Verb::Import(arguments)) => import::import(&arguments, printer),
        Some(Verb::List(arguments)) => list::list(&arguments, printer),
        Some(Verb::New(arguments)) => new::new(&arguments, printer),
        Some(Verb::Plan(arguments)) => plan::plan(&arguments, printer),
        Some(Verb::Fit(arguments)) => fit::fit(&arguments, printer),
        Some(Verb::Schema { format: SchemaFormat::Json }) => printer.print(&scenarios::json_schema()),
        Some(Verb::Schema { format: SchemaFormat::Markdown }) => printer.print(&scenarios::reference()),
        Some(Verb::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "foretrain", &mut script);
            printer.print_bytes(&script)
        }
        Some(Verb::Man { folder }) => {
            clap_mangen::generate_to(Arguments::command(), &folder)
                .map_err(|error| files::cannot_write(&folder, &error))?;
            Ok(Exit::Fine)
        }
        None => printer.print(&Arguments::command().render_help().to_string()),
    }
}
