//! `foretrain run`: simulate, say what was found, write the report.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use reports::summary::{FailureKind, RunSummary, SearchProof, Summary};
use reports::terminal;
use scenarios::Experiment;
use scenarios::expectation::Expectation;
use scenarios::interchange::quoted;
use scenarios::run::{self, MAX_SHARDS, Options, Progress, Shard, resume, shown};

use super::check::Checked;
use super::emit::{self, Cluster};
use super::files::cannot_write;
use super::fusion;
use super::input::{self, Inputs};
use super::interrupt::{self, interrupted};
use super::journal::Journal;
use super::output::{REPORT, Results, Staging, page};
use super::printer::Printer;
use super::progress::Bar;
use super::request::{How, Request};
use super::shards;
use super::traced::TraceFile;
use super::trouble::{self, Trouble};
use super::{Exit, each};

/// What is run, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    how: How,
    /// Say what would be run and simulate nothing
    #[arg(long)]
    plan: bool,
    /// Refuse to begin anew: go on with a run that was stopped, as `run` does wherever there is one
    #[arg(long, conflicts_with_all = ["plan", "shard", "emit"])]
    resume: bool,
    /// Simulate only every N-th run from the I-th on (of a search, groups of plans), for `foretrain merge`
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Print what runs all shards on a cluster, then merges them
    #[arg(long, value_name = "CLUSTER", conflicts_with_all = ["plan", "shard"])]
    emit: Option<Cluster>,
    /// Shards that it runs; 16, or as many as there are runs, if not given
    #[arg(long, value_name = "N", requires = "emit", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHARDS)))]
    shards: Option<u32>,
    /// Write the run of one variant, of a sweep or a search the best, for a viewer of timelines: a
    /// `.pftrace` for <https://ui.perfetto.dev>, or a `.json` for those that read Chrome's traces
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "shard", "emit"], value_parser = TraceFile::parser())]
    trace: Option<TraceFile>,
    /// Write the groups of operators that `techniques.fusion` makes kernels of, with bytes, times
    /// and refusals, as CSV; of a sweep those of its first point
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "shard", "emit"])]
    explain_fusion: Option<PathBuf>,
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
    interrupt::catch();
    let files = &arguments.inputs.files;
    if let Some(reason) = arguments.refused() {
        return Ok(Trouble::Mistake(reason.to_owned()).report(printer, arguments.how.problems_as()));
    }
    each(files, arguments.how.problems_as(), printer, |index, file| {
        if interrupted() {
            return Ok(Exit::Interrupted);
        }
        if index > 0 && arguments.how.format == Output::Table {
            printer.print("\n")?;
        }
        let Inputs { changes, .. } = &arguments.inputs;
        let request = Request { file, folder: folder_name(&files[..=index]), changes, how: &arguments.how };
        perform(&request, arguments, printer)
    })
}

fn perform(request: &Request<'_>, arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let experiment = input::experiment(request.file, request.changes)?;
    let options = request.options();
    if let Some(trace) = &arguments.trace {
        trace.refuse_several(&experiment, &options.variants)?;
    }
    if let Some(path) = &arguments.explain_fusion {
        fusion::write_groups(path, &experiment, &options)?;
    }
    if arguments.plan {
        let shard = arguments.shard.unwrap_or(Shard::WHOLE);
        let checked = Checked::of(&experiment, &options, shard, &Bar::new(request.how.quiet, "runs"))?;
        return print_plan(&checked, request.how.format, printer);
    }
    if let Some(cluster) = arguments.emit {
        return emit::emit(&experiment, &options, request, (cluster, arguments.shards), printer);
    }
    match arguments.shard {
        Some(shard) => shards::work(&experiment, &options, request, shard, printer),
        None => {
            let journal = request.journal(&experiment, printer);
            if arguments.resume && journal.as_ref().is_none_or(|journal| journal.len() == 0) {
                return Err(Trouble::Mistake(format!(
                    "`{}` holds no stopped run of this file with these settings: leave out `--resume`",
                    request.how.out.display()
                )));
            }
            simulate(&experiment, &options, request, (journal, arguments.trace.as_ref()), printer)
        }
    }
}

impl Arguments {
    /// Why there can be no workers.
    fn refused(&self) -> Option<&'static str> {
        let files = &self.inputs.files;
        match (self.shard.is_some(), self.emit.is_some()) {
            (true, _) | (_, true) if files.len() > 1 => {
                Some("shards are of one file: leave the others out, or run each of them in turn")
            }
            _ if self.trace.is_some() && files.len() > 1 => {
                Some("`--trace` is of one file: leave the others out, or run each of them in turn")
            }
            _ if self.explain_fusion.is_some() && files.len() > 1 => {
                Some("`--explain-fusion` is of one file: leave the others out, or run each in turn")
            }
            (_, true) if files.contains(&input::STDIN.to_owned()) => {
                Some("workers have no standard input: write the scenario to a file, and name that")
            }
            _ => None,
        }
    }
}

/// Simulates an experiment but for what a journal knows, and writes its results, of one run its
/// trace.
pub(super) fn simulate(
    experiment: &Experiment,
    options: &Options,
    request: &Request<'_>,
    (journal, trace): (Option<Journal>, Option<&TraceFile>),
    printer: &Printer,
) -> Result<Exit, Trouble> {
    let staging = Staging::open(&request.how.out, &request.folder)?;
    let answer = Answer { experiment, options, how: request.how, staging: &staging, trace, printer };
    let bar = request.bar(experiment);
    let known = journal.as_ref().map(|journal| journal as &dyn run::Journal);
    let run = || resume(experiment, options, &bar, known);
    let summary = interrupt::patiently(run, || answer.without_the_rest(journal.as_ref()))?;
    drop(bar);
    if let Some((path, error)) = journal.as_ref().and_then(Journal::failure) {
        printer.tell(&format!("warning: nobody could go on with this run: {}\n", cannot_write(path, error)));
    }
    answer.give(&summary, journal)
}

/// Results of an experiment on their way to its folder and to people.
struct Answer<'a> {
    experiment: &'a Experiment,
    options: &'a Options,
    how: &'a How,
    staging: &'a Staging,
    /// File for the best run, step by step.
    trace: Option<&'a TraceFile>,
    printer: &'a Printer,
}

impl Answer<'_> {
    /// Writes results and prints them. The journal of a run that has ended is needed no more.
    fn give(&self, summary: &Summary, journal: Option<Journal>) -> Result<Exit, Trouble> {
        let &Self { experiment, options, how, printer, .. } = self;
        let is_interrupted = interrupted();
        let none_ended = match &summary.search {
            Some(proof) => proof.fit + proof.did_not_fit == 0,
            None => summary.variants.is_empty(),
        };
        if is_interrupted && none_ended {
            printer.complain(NONE_ENDED);
            return Ok(Exit::Interrupted);
        }
        let results = Results::of(summary, scenario(experiment, options, summary)?)?;
        let report = self.staging.commit(&results.files())?.join(REPORT);
        if !is_interrupted {
            journal.into_iter().for_each(Journal::remove);
        }
        match how.format {
            Output::Table => print_summary(summary, &report, how, printer)?,
            Output::Json => printer.print_bytes(&results.json)?,
            Output::Csv => printer.print_bytes(&results.csv)?,
        };
        if let Some(trace) = self.trace.filter(|_| !is_interrupted) {
            let written = trace.write_run(experiment, options, summary)?;
            printer.tell(&format!("trace: {written}\n"));
        }
        if is_interrupted {
            printer.complain(&match &summary.search {
                Some(SearchProof { left, plans, .. }) => format!(
                    "interrupted with {left} of {plans} plans not looked at: the same command goes on"
                ),
                None => format!("interrupted; {} runs had ended and are kept", summary.variants.len()),
            });
            return Ok(Exit::Interrupted);
        }
        Ok(exit(experiment, summary, how, printer))
    }

    /// Ends an experiment whose simulations under way take too long, with results of those that its
    /// journal has.
    fn without_the_rest(&self, journal: Option<&Journal>) -> Exit {
        let exit = self.of_ended(journal).unwrap_or_else(|trouble| {
            trouble.report(self.printer, self.how.problems_as());
            Exit::Interrupted
        });
        self.staging.clear();
        exit
    }

    fn of_ended(&self, journal: Option<&Journal>) -> Result<Exit, Trouble> {
        let Some(ended) = journal.and_then(Journal::ended) else {
            self.printer.complain(NONE_ENDED);
            return Ok(Exit::Interrupted);
        };
        self.give(&resume(self.experiment, self.options, &Stopped, Some(&ended))?, None)
    }
}

const NONE_ENDED: &str = "interrupted before any run had ended";

/// An experiment of which nothing more is simulated.
struct Stopped;

impl Progress for Stopped {
    fn begin(&self, _: u64) {}
    fn done(&self) {}
    fn stop(&self) -> bool {
        true
    }
}

/// Remedies where a search finds no plan.
const NO_PLAN: &str = "no plan gives a step time: let states leave the GPUs, `techniques: [recompute, zero_offload, zero_infinity]` in \
                       `search.over` of the file, or take more nodes: `foretrain fit MODEL 32xNODE --fewest gpus` says how many";

/// Remedies where no run has a step time.
const NO_RUN: &str = "no run gives a step time: ask for less, or promise it in the file: `expect: [{ does_not_fit: VARIANT }]`";

/// Exit code of a run that was not interrupted: 0 if every promise holds and no run deadlocks. No
/// step time at all is a result, too, unless asked otherwise.
fn exit(experiment: &Experiment, summary: &Summary, how: &How, printer: &Printer) -> Exit {
    let deadlocks =
        |run: &RunSummary| run.failure.as_ref().is_some_and(|it| it.kind == FailureKind::Deadlock);
    let promised = || experiment.promises().iter().any(Expectation::says_does_not_fit);
    let numbers = summary.variants.iter().any(|run| run.step_time().is_some());
    let nothing = !numbers && !promised();
    let fails = nothing && how.fail_if_none_fits;
    let remedy = if summary.search.is_some() { NO_PLAN } else { NO_RUN };
    if fails {
        printer.complain(remedy);
    } else if nothing {
        printer.tell(&format!("note: {remedy}\n"));
    }
    let kept = summary.expectations.iter().all(|promise| promise.passed);
    match kept && !fails && !summary.variants.iter().any(deadlocks) {
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

fn print_summary(summary: &Summary, report: &Path, how: &How, printer: &Printer) -> Result<Exit, Trouble> {
    let report = report.display();
    let (text, report) = match how.all {
        true => {
            let text = page("the text", |out| terminal::write(out, summary, printer.style))?;
            (text, format!("\nreport: {report}\n"))
        }
        false => {
            let text = page("the text", |out| terminal::brief::write(out, summary, printer.style))?;
            (text, format!("  report: {report}; `--all` prints everything\n"))
        }
    };
    printer.print_text(&text)?;
    printer.print_text(report.as_bytes())
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
