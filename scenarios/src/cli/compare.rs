//! `foretrain compare`: what differs between two runs, of results on disk or of scenarios.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use indexmap::{IndexMap, IndexSet};
use reports::compared::{self, Compared, Side};
use reports::finding::fastest;
use reports::naming::Naming;
use reports::summary::{RunSummary, SCHEMA_VERSION, Summary, short_path};
use reports::wording::said;
use scenarios::experiment::BASE;
use scenarios::run::{Options, execute};
use scenarios::{Point, library};
use serde::Deserialize;

use super::input::{self, Changes, STDIN};
use super::output::{JSON, page};
use super::printer::Printer;
use super::progress::Bar;
use super::trouble::{self, Trouble};
use super::{Exit, Format, SEED};

/// Values of an axis that are named.
const VALUES_MAX: usize = 8;
/// Points of a sweep of which it is said how they differ.
const POINTS_MAX: usize = 1_000;

/// Two runs, and how they are compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  foretrain compare out/before out/after
  foretrain compare out/mine:plain :offload --format markdown
  foretrain compare my.yaml --set-b training.micro_batch=2

A and B are folders that `foretrain run` wrote, scenario files, or names of library scenarios; scenarios are simulated. \
`:VARIANT` behind them chooses a variant; without it the fastest is taken.")]
pub(super) struct Arguments {
    /// First run: a folder of results, a scenario file or name, each with `:VARIANT` if it has
    /// several
    #[arg(value_name = "A")]
    a: String,
    /// Second run, or `:VARIANT` for another variant of the first; the first's source if not given
    #[arg(value_name = "B")]
    b: Option<String>,
    #[command(flatten)]
    changes: Changes,
    /// Replace a setting of the second run only
    #[arg(long = "set-b", value_name = "PATH=VALUE")]
    set_b: Vec<String>,
    /// The variant of both runs, where none stands behind them
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The root of all randomness of what is simulated
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,
    /// Print everything, not what fits on a screen
    #[arg(long)]
    all: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Forms of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Table,
    /// Tables for a pull request
    Markdown,
    /// For programs
    Json,
    /// A row a figure
    Csv,
}

/// Source of a run as it was asked for.
struct Asked<'a> {
    source: &'a str,
    variant: Option<&'a str>,
    set: Vec<String>,
    /// Settings that the other run does not have.
    own: &'a [String],
}

/// Results of a source, and the run of them that is compared.
struct Chosen {
    summary: Summary,
    index: usize,
    /// Folder, file or name, without the variant.
    source: String,
    /// Settings that only this run has of the command line.
    own: Vec<String>,
}

/// Compares two runs.
pub(super) fn compare(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let problems_as = if arguments.format == Form::Json { Format::Json } else { Format::Table };
    compared(arguments, printer).or_else(|trouble| Ok(trouble.report(printer, problems_as)))
}

fn compared(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    if arguments.b.is_none() && arguments.set_b.is_empty() {
        let reason = "one run is compared with nothing: name another, `:VARIANT`, or `--set-b PATH=VALUE`";
        return Err(Trouble::Mistake(reason.to_owned()));
    }
    let [asked_a, asked_b] = arguments.asked();
    let (a, b) = (chosen(&asked_a, arguments)?, chosen(&asked_b, arguments)?);
    let names = names([&a, &b]);
    let compared = Compared::of(&a.side(&names[0]), &b.side(&names[1]));
    match arguments.format {
        Form::Table => printer.print_text(&page("the table", |out| {
            compared::terminal(out, &compared, arguments.all, printer.style)
        })?),
        Form::Markdown => printer.print_bytes(&page("the tables", |out| compared::markdown(out, &compared))?),
        Form::Json => printer.print(&trouble::json(&compared)),
        Form::Csv => printer.print_bytes(&page("the rows", |out| compared::csv(out, &compared))?),
    }
}

impl Arguments {
    fn asked(&self) -> [Asked<'_>; 2] {
        let (a, variant_a) = split(&self.a);
        let (b, variant_b) = match &self.b {
            None => (a, variant_a),
            Some(b) => match b.strip_prefix(':') {
                Some(variant) => (a, Some(variant)),
                None => split(b),
            },
        };
        let set = &self.changes.set;
        let path = |set: &str| set.split('=').next().unwrap_or_default().to_owned();
        let common = set.iter().filter(|set| self.set_b.iter().all(|own| path(own) != path(set)));
        let set_b = common.chain(&self.set_b).cloned().collect();
        let variant = self.variant.as_deref();
        [
            Asked { source: a, variant: variant_a.or(variant), set: set.clone(), own: &[] },
            Asked { source: b, variant: variant_b.or(variant), set: set_b, own: &self.set_b },
        ]
    }
}

/// Source and variant of `SOURCE:VARIANT`; a source whose own name has a colon wins.
fn split(argument: &str) -> (&str, Option<&str>) {
    let is_source = argument == STDIN || Path::new(argument).exists() || library::get(argument).is_some();
    match argument.rsplit_once(':') {
        Some((source, variant)) if !is_source && source != "library" => (source, Some(variant)),
        _ => (argument, None),
    }
}

/// Reads or simulates a source, and chooses a run of it.
fn chosen(asked: &Asked<'_>, arguments: &Arguments) -> Result<Chosen, Trouble> {
    let Asked { source, own, .. } = asked;
    let (summary, index) = match results_of(source) {
        Some(path) => {
            let summary = read(&path)?;
            let index = of_results(&summary, asked)?;
            (summary, index)
        }
        None if source.contains('/') && !Path::new(source).exists() => {
            return Err(Trouble::Mistake(format!(
                "there is no folder or file `{source}`: `foretrain run FILE` writes its results to `out/NAME`"
            )));
        }
        None => {
            let summary = simulated(asked, arguments)?;
            let index = one_point(&summary, &(0..summary.variants.len()).collect::<Vec<_>>(), source)?;
            (summary, index)
        }
    };
    Ok(Chosen { summary, index, source: (*source).to_owned(), own: own.to_vec() })
}

/// Place of `results.json`, if a source is a folder or such a file.
fn results_of(source: &str) -> Option<PathBuf> {
    let path = Path::new(source);
    if path.is_dir() {
        return Some(path.join(JSON));
    }
    (path.extension().is_some_and(|extension| extension == "json")).then(|| path.to_owned())
}

/// Reads results.
fn read(path: &Path) -> Result<Summary, Trouble> {
    /// The one field that results of all versions have.
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: u32,
    }
    let shown = path.display();
    let mistake = |reason: String| Trouble::Mistake(reason);
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            mistake(format!("there is no `{shown}`: name a folder that `foretrain run` wrote, or a scenario"))
        }
        _ => mistake(format!("`{shown}` cannot be read: {error}")),
    })?;
    let versioned: Versioned = serde_json::from_slice(&bytes).map_err(|error| {
        mistake(format!("`{shown}` is no results.json: {error}: name a folder that `foretrain run` wrote"))
    })?;
    if versioned.schema_version != SCHEMA_VERSION {
        return Err(mistake(format!(
            "`{shown}` has schema_version {}, and this foretrain reads {SCHEMA_VERSION}: run its scenario again",
            versioned.schema_version
        )));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| mistake(format!("`{shown}` is damaged: {error}: run its scenario again")))
}

/// Simulates a scenario: of several variants the one asked for, or all.
fn simulated(asked: &Asked<'_>, arguments: &Arguments) -> Result<Summary, Trouble> {
    let experiment = input::experiment(asked.source, &Changes { set: asked.set.clone() })?;
    if experiment.search().is_none() {
        let at = |point: Point| RunSummary { point: point.values(), ..RunSummary::default() };
        let points: Vec<RunSummary> = experiment.points().take(POINTS_MAX).map(at).collect();
        let axes: Vec<String> = experiment.swept().map(str::to_owned).collect();
        refuse_several(&points, &axes, asked.source)?;
    }
    let options = Options {
        seed: arguments.seed,
        jobs: None,
        variants: asked.variant.map(str::to_owned).into_iter().collect(),
        reproduce: String::new(),
    };
    Ok(execute(&experiment, &options, &Bar::new(arguments.quiet, "runs"))?)
}

/// The run of results that is asked for.
fn of_results(summary: &Summary, asked: &Asked<'_>) -> Result<usize, Trouble> {
    let Asked { source, variant, set, .. } = asked;
    let known: IndexSet<&str> = summary.variants.iter().map(|run| run.variant.as_str()).collect();
    if let Some(variant) = variant.filter(|variant| !known.contains(variant)) {
        let known = known.into_iter().collect::<Vec<_>>().join("`, `");
        return Err(Trouble::Mistake(format!(
            "`{source}` has no variant `{variant}`: name one of `{known}`"
        )));
    }
    let mut runs: Vec<usize> = (0..summary.variants.len()).collect();
    runs.retain(|&index| variant.is_none_or(|variant| summary.variants[index].variant == variant));
    for setting in set {
        let Some((path, value)) = setting.split_once('=') else {
            return Err(Trouble::Mistake(format!("`--set {setting}` has no `=`: write `--set PATH=VALUE`")));
        };
        if !summary.axes.iter().any(|axis| axis == path) {
            return Err(Trouble::Mistake(format!(
                "`{source}` was not swept over `{path}`: name its scenario instead, which is then simulated with it"
            )));
        }
        let is = |run: &RunSummary| {
            run.point.get(path).is_some_and(|written| written == value || said(written) == value)
        };
        let there = values(&runs.iter().map(|&index| &summary.variants[index]).collect::<Vec<_>>(), path);
        runs.retain(|&index| is(&summary.variants[index]));
        if runs.is_empty() {
            return Err(Trouble::Mistake(format!("`{source}` has no run at {path}={value}: it has {there}")));
        }
    }
    one_point(summary, &runs, source)
}

/// The run to compare of some at one point: the fastest, or the best of a search.
fn one_point(summary: &Summary, runs: &[usize], source: &str) -> Result<usize, Trouble> {
    let of = |index: &usize| &summary.variants[*index];
    let Some(&first) = runs.first() else {
        return Err(Trouble::Mistake(format!("`{source}` has no runs: run its scenario again")));
    };
    if summary.search.is_some() {
        return Ok(first);
    }
    let candidates: Vec<RunSummary> = runs.iter().map(of).cloned().collect();
    refuse_several(&candidates, &summary.axes, source)?;
    Ok(runs[fastest(&candidates).unwrap_or(0)])
}

/// Refuses runs of several points, with the settings that tell these apart.
fn refuse_several(runs: &[RunSummary], axes: &[String], source: &str) -> Result<(), Trouble> {
    if runs.iter().all(|run| run.point == runs[0].point) {
        return Ok(());
    }
    let all: Vec<&RunSummary> = runs.iter().collect();
    let naming = Naming::of(runs, axes);
    let choice = |(path, _): (&str, &str)| format!("\n  --set {path}=...  of {}", values(&all, path));
    let choices: String = naming.paths().map(choice).collect();
    Err(Trouble::Mistake(format!("`{source}` has several points: choose one of them{choices}")))
}

/// Values of runs at a path: `1, 2, 4`.
fn values(runs: &[&RunSummary], path: &str) -> String {
    let values: IndexSet<&str> =
        runs.iter().filter_map(|run| run.point.get(path)).map(String::as_str).collect();
    let more = values.len().saturating_sub(VALUES_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    let named = values.into_iter().take(VALUES_MAX).map(str::to_owned);
    named.chain(more).collect::<Vec<_>>().join(", ")
}

impl Chosen {
    fn run(&self) -> &RunSummary {
        &self.summary.variants[self.index]
    }

    /// True if the file names its variant.
    fn has_variants(&self) -> bool {
        self.run().variant != BASE
    }

    fn side(&self, name: &str) -> Side<'_> {
        let run = self.run();
        let mut words = vec![self.source.clone()];
        words.extend(self.has_variants().then(|| format!("variant {}", run.variant)));
        words.extend(run.point.iter().map(|(path, value)| format!("{path}={value}")));
        words.extend(self.own.iter().filter(|set| !self.is_of_point(set)).cloned());
        Side { name: name.to_owned(), source: words.join(", "), run, settings: self.settings() }
    }

    fn is_of_point(&self, set: &str) -> bool {
        set.split_once('=').is_some_and(|(path, _)| self.run().point.contains_key(path))
    }

    /// Settings of the run; those that its point sets are those of the point.
    fn settings(&self) -> Option<IndexMap<String, String>> {
        let run = self.run();
        let mut settings = self.summary.settings.get(&run.variant)?.clone();
        for (path, value) in &run.point {
            let below = format!("{path}.");
            settings.retain(|known, _| !known.starts_with(&below));
            settings.insert(path.clone(), value.clone());
        }
        Some(settings)
    }
}

/// Names that tell two runs apart: their variants, sources, or what is set of them.
fn names(sides: [&Chosen; 2]) -> [String; 2] {
    let distinct = |names: [String; 2]| (names[0] != names[1]).then_some(names);
    let variant = |side: &Chosen| side.run().variant.clone();
    let source = |side: &Chosen| {
        let path = Path::new(&side.source);
        let stem = if path.is_dir() { path.file_name() } else { path.file_stem() };
        stem.and_then(|stem| stem.to_str()).unwrap_or(&side.source).to_owned()
    };
    let same_source = sides[0].source == sides[1].source;
    let of_settings = || {
        let setting = |set: &String| {
            let (path, value) = set.split_once('=').unwrap_or((set, ""));
            format!("{} {value}", short_path(path))
        };
        let own = sides[1].own.iter().map(setting).collect::<Vec<_>>().join(", ");
        let first = if sides[0].has_variants() { variant(sides[0]) } else { source(sides[0]) };
        (!own.is_empty()).then_some([first, own])
    };
    let plain = || distinct(sides.map(variant)).filter(|_| same_source);
    plain()
        .or_else(|| of_settings().filter(|_| same_source))
        .or_else(|| distinct(sides.map(source)))
        .or_else(|| distinct(sides.map(|side| side.source.clone())))
        .unwrap_or_else(|| ["A".to_owned(), "B".to_owned()])
}
