//! `foretrain import`: a profiler's trace as it is understood, and its steps replayed; or the
//! arguments or the document of a training framework as a scenario; or an edge list as a graph
//! file.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use indexmap::IndexMap;
use reports::imported::{self, Imported};
use reports::summary::{Forecast, LaneTime, SCHEMA_VERSION, StepTime};
use scenarios::catalogue;
use scenarios::interchange::Target;
use scenarios::run::trace_replay;
use sim_core::time::Time;
use workloads::lanes::QUEUE;
use workloads::trace::traced::Findings;
use workloads::trace::{Fault, Replayed, Traced, WhatIf, chakra, kineto, replay};

use super::output::page;
use super::printer::Printer;
use super::traced::TraceFile;
use super::trouble::Trouble;
use super::{Exit, Format, import_graph, import_plan};

/// A source to read.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    source: Source,
}

/// Writer of the source.
#[derive(Debug, Subcommand)]
enum Source {
    /// A trace of PyTorch's profiler: `torch.profiler` with `export_chrome_trace`
    Kineto(Trace),
    /// A graph of MLCommons Chakra with recorded durations: an `.et` file of `chakra_converter`
    Chakra(Trace),
    /// Arguments of Megatron-LM, or a launch script, as a scenario
    Megatron(import_plan::Arguments),
    /// A JSON configuration of DeepSpeed, which may have comments and `auto`, as a scenario
    Deepspeed(import_plan::Document),
    /// A TOML file of a torchtitan job as a scenario
    Torchtitan(import_plan::Document),
    /// A `ConfigContainer` of Megatron-Bridge as YAML, overrides of a recipe, or both, as a
    /// scenario; NeMo 2 by the paths of its overrides
    MegatronBridge(import_plan::Container),
    /// An edge list as a graph file: statistics with histograms of degrees
    Graph(import_graph::Arguments),
}

/// A trace, and changes of it.
#[derive(Debug, clap::Args)]
struct Trace {
    /// The trace: plain, or packed with gzip or zstd
    file: PathBuf,
    /// Change a part to another share of its time: `host=50%`, `kernels=200%`, `copies=80%`,
    /// `collectives=50%` (without waiting for peers), `loader=none`; or `launch=graphs`,
    /// `elementwise=chained` or `batched`, `gpu=h100-sxm5-80gb`, `link=pcie5` (`gpu=RECORDED:NEW`
    /// where the trace does not name its GPU)
    #[arg(long = "what-if", value_name = "PART=SHARE")]
    what_if: Vec<String>,
    /// Launches that a stream of a device may have waiting; a thread that launches more stalls
    #[arg(long, value_name = "COUNT", default_value_t = QUEUE, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    launch_queue: u64,
    /// Write the replay for a viewer of timelines, a `.pftrace` or a `.json`
    #[arg(long = "trace", value_name = "FILE", value_parser = TraceFile::parser())]
    written: Option<TraceFile>,
    /// Form of the answer
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// Reads a trace or arguments, and says what came of it.
pub(super) fn import(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let reader = |file: File| kineto::read(file).map(Traced::of).map_err(|error| error.to_string());
    match &arguments.source {
        Source::Kineto(trace) => replayed(trace, reader, printer),
        Source::Chakra(trace) => {
            let graph =
                |file| chakra::read(file).map(chakra::Graph::traced).map_err(|error| error.to_string());
            replayed(trace, graph, printer)
        }
        Source::Megatron(plan) => import_plan::arguments(Target::MEGATRON, plan, printer),
        Source::Deepspeed(plan) => import_plan::document(Target::DEEPSPEED, plan, printer),
        Source::MegatronBridge(plan) => import_plan::container(Target::MEGATRON_BRIDGE, plan, printer),
        Source::Graph(edges) => import_graph::import(edges, printer),
        Source::Torchtitan(plan) => import_plan::document(Target::TORCHTITAN, plan, printer),
    }
}

/// Reads a trace, replays it and says what came of it.
fn replayed(
    arguments: &Trace,
    read: impl Fn(File) -> Result<Traced, String>,
    printer: &Printer,
) -> Result<Exit, Trouble> {
    let shown = arguments.file.display();
    let file = File::open(&arguments.file).map_err(|error| format!("cannot be read: {error}"));
    let traced = file.and_then(read);
    let mut traced = traced.map_err(|error| Trouble::Mistake(format!("`{shown}` {error}")))?;
    let mut what_if = WhatIf::default();
    for written in &arguments.what_if {
        what_if.set(written).map_err(|error| Trouble::Mistake(format!("`--what-if {written}`: {error}")))?;
    }
    let changes = what_if.apply(&mut traced, catalogue::hardware());
    let changes = changes.map_err(|faults| {
        let told = |Fault { field, message, help }: &Fault| format!("`--what-if {field}`: {message}: {help}");
        Trouble::Mistake(faults.iter().map(told).collect::<Vec<_>>().join("; "))
    })?;
    let replayed = replay(&traced, arguments.launch_queue)
        .map_err(|error| Trouble::Mistake(format!("`{shown}`: {error}")))?;
    if let Some(written) = &arguments.written {
        let path = written.write(replayed.activities, |tracer| {
            trace_replay(&traced, arguments.launch_queue, tracer).map_err(Trouble::Mistake).map(|()| true)
        })?;
        path.into_iter().for_each(|path| printer.tell(&format!("trace: {}\n", path.display())));
    }
    let told = told(&arguments.file, &traced, &replayed);
    let forecast = Forecast::of(&told.steps).filter(|_| changes.is_empty());
    let imported = Imported { changes, forecast, ..told };
    match arguments.format {
        Format::Json => {
            let mut text = serde_json::to_string_pretty(&imported)
                .map_err(|error| Trouble::Mistake(error.to_string()))?;
            text.push('\n');
            printer.print(&text)
        }
        Format::Table => {
            printer.print_text(&page("the table", |out| imported::write(out, &imported, printer.style))?)
        }
    }
}

fn told(file: &Path, traced: &Traced, replayed: &Replayed) -> Imported {
    let Findings { counts, unexplained, .. } = &traced.findings;
    let owned = |(name, count): (&&str, &u64)| ((*name).to_owned(), *count);
    let seconds = |spent: &[(String, Time)]| -> IndexMap<String, f64> {
        spent.iter().map(|(cause, time)| (cause.clone(), time.as_secs())).collect()
    };
    Imported {
        schema_version: SCHEMA_VERSION,
        file: file.display().to_string(),
        devices: traced.device_names(),
        rank: traced.rank.map(|(rank, ranks)| [rank, ranks]),
        understood: counts.understood.iter().map(owned).collect(),
        ignored: counts.ignored.iter().map(|(name, count)| (name.clone(), *count)).collect(),
        refused: counts.refused.iter().map(owned).collect(),
        truncated: counts.truncated.clone(),
        found: traced.findings.words().map(|(what, count)| (what.to_owned(), count)).into_iter().collect(),
        unexplained_s: unexplained.1.as_secs(),
        changes: Vec::new(),
        forecast: None,
        steps: replayed
            .steps
            .iter()
            .map(|step| StepTime {
                recorded_s: step.recorded.map(Time::as_secs),
                replayed_s: step.replayed.as_secs(),
            })
            .collect(),
        host_share: replayed.host_share(),
        critical_path_s: seconds(&replayed.critical),
        lanes: replayed
            .lanes
            .iter()
            .map(|lane| LaneTime { name: lane.name.clone(), time_s: seconds(&lane.spent) })
            .collect(),
    }
}
