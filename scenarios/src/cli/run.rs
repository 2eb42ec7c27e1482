//! `foretrain run`: simulate, say what was found, write the report.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use reports::summary::{FailureKind, RunSummary, Summary};
use reports::terminal::{self, Style};
use scenarios::Experiment;
use scenarios::expectation::Expectation;
use scenarios::interchange::quoted;
use scenarios::run::{Options, execute, shown};

use super::check::Checked;
use super::input::{self, Inputs};
use super::output::{REPORT, Results, Staging};
use super::printer::Printer;
use super::progress::{self, Bar};
use super::trouble::{self, Trouble};
use super::{Exit, Format, SEED, each};

/// What is run, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: Inputs,
    /// Run only this variant; may be repeated
    #[arg(long = "variant", value_name = "NAME")]
    variants: Vec<String>,
    /// The root of all randomness
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Simulations at a time; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The folder in which each scenario gets a folder of results
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Output::Table)]
    format: Output,
    /// Say what would be run and simulate nothing
    #[arg(long)]
    plan: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// What was found, for people
    Table,
    /// As in results.json
    Json,
    /// As in results.csv
    Csv,
}

/// Runs each file in turn.
pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    progress::catch_interrupts();
    let problems_as = if arguments.format == Output::Json { Format::Json } else { Format::Table };
    each(&arguments.inputs.files, problems_as, printer, |index, file| {
        if progress::interrupted() {
            return Ok(Exit::Interrupted);
        }
        if index > 0 && arguments.format == Output::Table {
            printer.print("\n")?;
        }
        let experiment = input::experiment(file, &arguments.inputs.changes)?;
        let options = arguments.options(file);
        if arguments.plan {
            let checked = Checked::of(&experiment, &options, &Bar::new(arguments.quiet, "runs"))?;
            return print_plan(&checked, arguments.format, printer);
        }
        simulate(&experiment, &options, &folder_name(&arguments.inputs.files[..=index]), arguments, printer)
    })
}

fn simulate(
    experiment: &Experiment,
    options: &Options,
    folder: &str,
    arguments: &Arguments,
    printer: &Printer,
) -> Result<Exit, Trouble> {
    let staging = Staging::open(&arguments.out, folder)?;
    let (counted, budget) = match experiment.search() {
        Some(search) => ("plans", search.budget_ns().map(Duration::from_nanos)),
        None => ("runs", None),
    };
    let summary = execute(experiment, options, &Bar::new(arguments.quiet, counted).within(budget))?;
    if progress::interrupted() && summary.variants.is_empty() {
        printer.complain("interrupted before any run had ended");
        return Ok(Exit::Interrupted);
    }
    let results = Results::of(&summary, scenario(experiment, options, &summary)?)?;
    let report = staging.commit(&results.files())?.join(REPORT);
    match arguments.format {
        Output::Table => print_summary(&summary, &report, printer)?,
        Output::Json => printer.print_bytes(&results.json)?,
        Output::Csv => printer.print_bytes(&results.csv)?,
    };
    if progress::interrupted() {
        printer.complain(&format!("interrupted; {} runs had ended and are kept", summary.variants.len()));
        return Ok(Exit::Interrupted);
    }
    Ok(exit(experiment, &summary, printer))
}

/// Exit code of a run that was not interrupted: 0 if every promise holds, some run gives a step time and none deadlocks. No step
/// time at all is a result, too, where the file promises that something does not fit.
fn exit(experiment: &Experiment, summary: &Summary, printer: &Printer) -> Exit {
    let deadlocks =
        |run: &RunSummary| run.failure.as_ref().is_some_and(|it| it.kind == FailureKind::Deadlock);
    let numbers = summary.variants.iter().any(|run| run.step_time().is_some());
    let promised = experiment.promises().iter().any(Expectation::says_does_not_fit);
    if !numbers && !promised {
        printer.complain(
            "no run gives a step time: ask for less, or promise it in the file: `expect: [{ does_not_fit: VARIANT }]`",
        );
    }
    let kept = summary.expectations.iter().all(|promise| promise.passed);
    match kept && (numbers || promised) && !summary.variants.iter().any(deadlocks) {
        true => Exit::Fine,
        false => Exit::BrokenPromise,
    }
}

/// The run that is shown, as a scenario that gives it again from wherever it is kept.
fn scenario(experiment: &Experiment, options: &Options, summary: &Summary) -> Result<String, Trouble> {
    // A path that cannot be made absolute is one of no file, and stays as it is.
    let place = |path: &str| {
        std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
    };
    Ok(shown(experiment, options, summary, &place)?)
}

fn print_summary(summary: &Summary, report: &Path, printer: &Printer) -> Result<Exit, Trouble> {
    let mut text = Vec::new();
    terminal::write(&mut text, summary, Style { colour: printer.color }).map_err(Trouble::Output)?;
    text.extend(format!("\nreport: {}\n", report.display()).bytes());
    printer.print_bytes(&text)
}

fn print_plan(checked: &Checked<'_>, format: Output, printer: &Printer) -> Result<Exit, Trouble> {
    match format {
        Output::Json => printer.print(&trouble::json(checked)),
        Output::Table | Output::Csv => {
            printer.print(&format!("{}; nothing was simulated\n{}", checked.in_words(), checked.impossible()))
        }
    }
}

/// The folder of the last of `files`: named after it, with a number where one before has the same name.
fn folder_name(files: &[String]) -> String {
    let names: Vec<String> = files.iter().map(|file| input::folder_name(file)).collect();
    match names.split_last() {
        None => String::new(),
        Some((name, before)) => match before.iter().filter(|other| *other == name).count() {
            0 => name.clone(),
            count => format!("{name}-{}", count + 1),
        },
    }
}

impl Arguments {
    fn options(&self, file: &str) -> Options {
        Options {
            seed: self.seed,
            jobs: self.jobs.map(usize::from),
            variants: self.variants.clone(),
            reproduce: self.reproduce(file),
        }
    }

    /// A command that gives the same results: without what changes only where and how they are shown.
    fn reproduce(&self, file: &str) -> String {
        let mut words = vec!["run".to_owned(), file.to_owned()];
        words.extend(self.inputs.changes.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        words.extend(self.variants.iter().flat_map(|variant| ["--variant".to_owned(), variant.clone()]));
        if self.seed != SEED {
            words.extend(["--seed".to_owned(), self.seed.to_string()]);
        }
        command(words.into_iter())
    }
}

/// A command line of foretrain as it would be typed in a shell.
pub(super) fn command(arguments: impl Iterator<Item = String>) -> String {
    let quoted = arguments.map(|argument| quoted(&argument));
    std::iter::once("foretrain".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        let command =
            command(["run", "my file.yaml", "--set", "name=it's", ""].map(str::to_owned).into_iter());
        assert_eq!(command, r"foretrain run 'my file.yaml' --set 'name=it'\''s' ''");
    }

    #[test]
    fn two_files_of_one_name_get_two_folders() {
        let files = ["a/x.yaml", "y.yaml", "b/x.yaml"].map(str::to_owned);
        assert_eq!(folder_name(&files), "x-2");
        assert_eq!(folder_name(&files[..2]), "y");
    }
}
