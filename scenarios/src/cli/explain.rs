//! `foretrain explain`: what a step waits for and what faster parts would bring, or a word of a
//! table.

use std::fs::File;
use std::path::{Path, PathBuf};

use hw_models::catalogue::nearest::list;
use reports::explanation::{self, RecordedStep};
use reports::state;
use scenarios::run::{Explaining, explain as explained};
use scenarios::topics::{near, topic};
use workloads::lanes::{LaneUse, QUEUE};
use workloads::trace::{Measured, Traced, kineto, replay};

use super::files;
use super::input::{self, Changes, folder_name};
use super::output::page;
use super::printer::Printer;
use super::progress::Bar;
use super::trouble::{self, Trouble};
use super::{Exit, Format, SEED};

/// A run to explain, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  foretrain explain my.yaml --variant offload
  foretrain explain pipeline bubble

What is a file or a scenario of the library is one; anything else is a word to explain.")]
pub(super) struct Arguments {
    /// A scenario file, the name of a library scenario, `-` for standard input, or a word of a
    /// table (`skew`, `pipeline bubble`)
    #[arg(value_name = "FILE|NAME|WORD", required = true)]
    of: Vec<String>,
    #[command(flatten)]
    changes: Changes,
    /// The variant; the first that fits if not given. Of a sweep the first point that is possible
    /// is explained: `--set` chooses another
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The root of all randomness
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Simulations at a time; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// A trace of PyTorch's profiler (`torch.profiler` with `export_chrome_trace`), whose step is
    /// laid beside the simulated one
    #[arg(long, value_name = "TRACE")]
    measured: Option<PathBuf>,
    /// A folder for `explain-NAME.html`, with a tornado plot of the what-ifs
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print everything, not what fits on a screen
    #[arg(long)]
    all: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Explains a run or a word.
pub(super) fn explain(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    told(arguments, printer).or_else(|trouble| Ok(trouble.report(printer, arguments.format)))
}

fn told(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let words = arguments.of.join(" ");
    match &arguments.of[..] {
        [file] if input::is_there(file) => scenario(file, arguments, printer),
        // A path to what is not there is told as one, but `tokens/s` is a word.
        [file] if file.contains(['/', '\\', '.']) && topic(file).is_none() => {
            scenario(file, arguments, printer)
        }
        _ => word(&words, arguments.format, printer),
    }
}

/// Explains a word.
fn word(word: &str, format: Format, printer: &Printer) -> Result<Exit, Trouble> {
    let Some(topic) = topic(word) else {
        let near = near(word);
        let offer = match near[..] {
            [] => "`foretrain list scenarios` has names, the glossary of the guide has words".to_owned(),
            _ => format!("words near to it are {}", list(near.iter().copied())),
        };
        return Err(Trouble::Mistake(format!("`{word}` is no file, scenario or word of a table: {offer}")));
    };
    if format == Format::Json {
        return printer.print(&trouble::json(&topic));
    }
    let also = match &topic.names[1..] {
        [] => String::new(),
        others => format!(" (also {})", others.join(", ")),
    };
    printer.print_text(format!("{}{also}\n{}\n", topic.names[0], topic.text).as_bytes())
}

/// Explains a run.
fn scenario(file: &str, arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let experiment = input::experiment(file, &arguments.changes)?;
    if experiment.search().is_some() {
        return Err(Trouble::Mistake(format!(
            "`{file}` searches for a plan: run it with `foretrain run {file}`, then explain the best with \
             `foretrain explain out/{}/scenario.yaml`",
            folder_name(file)
        )));
    }
    if let Some(out) = &arguments.out {
        files::make(out)?;
    }
    let measured = arguments.measured.as_deref().map(recorded).transpose()?;
    let how = Explaining {
        variant: arguments.variant.as_deref(),
        seed: arguments.seed,
        jobs: arguments.jobs.map(usize::from),
    };
    let explanation = explained(&experiment, &how, &Bar::new(arguments.quiet, "what-ifs"))?;
    let explanation = match measured {
        None => explanation,
        Some(recorded) => explanation.beside(recorded),
    };
    let written = match &arguments.out {
        None => None,
        Some(out) => {
            let name = format!("explain-{}.html", folder_name(file));
            let bytes = page(&name, |file| explanation::page(file, &explanation))?;
            Some(files::put(out, &name, &bytes)?)
        }
    };
    if arguments.format == Format::Json {
        return printer.print(&trouble::json(&explanation));
    }
    let table =
        page("the table", |out| explanation::terminal(out, &explanation, arguments.all, printer.style))?;
    printer.print_text(&table)?;
    match written {
        None => Ok(Exit::Fine),
        Some(path) => printer.print_text(format!("  page: {}\n", path.display()).as_bytes()),
    }
}

/// The steps of a trace.
fn recorded(path: &Path) -> Result<RecordedStep, Trouble> {
    let shown = path.display();
    let wrong = |reason: String| Trouble::Mistake(format!("`{shown}` {reason}"));
    let file = File::open(path).map_err(|error| wrong(format!("cannot be opened: {error}")))?;
    let recording = kineto::read(file).map_err(|error| wrong(error.to_string()))?;
    let Some(step) = Measured::of(&recording) else {
        return Err(wrong("has no activity of a GPU: record with `ProfilerActivity.CUDA`".to_owned()));
    };
    Ok(RecordedStep {
        file: shown.to_string(),
        steps: step.steps,
        step_s: step.step,
        kernels_s: step.kernels,
        collectives_s: step.collectives,
        copies_s: step.copies,
        nothing_s: step.nothing,
        all_collectives_s: step.all_collectives,
        host_s: host(&Traced::of(recording)),
    })
}

/// Work of the busiest thread in a step (s). `None`: the trace cannot be replayed.
fn host(traced: &Traced) -> Option<f64> {
    const WORK: [&str; 4] = [state::PYTHON, state::DISPATCH, state::RUNTIME_CALLS, state::LOADER];
    let replayed = replay(traced, QUEUE).ok()?;
    let works = |lane: &LaneUse| {
        let work = lane.spent.iter().filter(|(cause, _)| WORK.contains(&cause.as_str()));
        work.map(|(_, time)| time.as_secs()).sum::<f64>()
    };
    let busiest = replayed.lanes.iter().map(works).fold(0.0, f64::max);
    Some(busiest / replayed.steps.len().max(1) as f64)
}
