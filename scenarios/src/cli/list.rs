//! `foretrain list`: what there is to choose from.

use clap::ValueEnum;
use reports::summary::SCHEMA_VERSION;
use scenarios::library;
use scenarios::schema::Shape;
use serde::Serialize;

use super::input;
use super::printer::Printer;
use super::trouble::{self, Trouble};
use super::{Exit, Format, facts, validate};

/// What is listed.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What to list; everything that can be listed if not given
    topic: Option<Topic>,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Topic {
    /// Experiments that come with foretrain and run from any directory
    Scenarios,
    /// Nodes that machines are made of
    Machines,
    /// GPUs
    Gpus,
    /// Links inside a node
    Links,
    /// Network interfaces
    Nics,
    /// Networks between nodes
    Fabrics,
    /// NVMe drives
    Ssds,
    /// Published transformers and lists of layers
    Models,
    /// Published graphs, by their statistics
    Graphs,
    /// Systems that run graph networks, with the networks that each runs and trains
    GraphSystems,
    /// Frameworks, and what their hosts take to issue work
    Frameworks,
    /// Orders in which pipeline stages work on their micro-batches
    Schedules,
    /// Ways to change what is executed, where and in which order
    Techniques,
    /// Settings of techniques as real systems have them
    Presets,
    /// Figures that expectations and citations can be about
    Metrics,
    /// Sets of measurements that predictions are judged on
    Validations,
}

/// What there is, for programs.
#[derive(Serialize)]
struct Listing {
    schema_version: u32,
    items: Vec<Item>,
}

/// One thing to choose.
#[derive(Default, Serialize)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) description: String,
    /// How far its figures are to be trusted.
    pub(super) confidence: Option<String>,
    /// Where they are from.
    pub(super) source: Option<String>,
    /// Figures that only programs are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<serde_json::Value>,
}

/// Lists a topic, or the topics.
pub(super) fn list(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let items = match arguments.topic {
        None => topics(),
        Some(Topic::Scenarios) => scenarios()?,
        Some(Topic::Machines) => facts::machines(),
        Some(Topic::Gpus) => facts::gpus(),
        Some(Topic::Links) => facts::links(),
        Some(Topic::Nics) => facts::nics(),
        Some(Topic::Fabrics) => facts::fabrics(),
        Some(Topic::Ssds) => facts::ssds(),
        Some(Topic::Models) => facts::models(),
        Some(Topic::Graphs) => facts::graphs(),
        Some(Topic::GraphSystems) => facts::graph_systems(),
        Some(Topic::Frameworks) => facts::frameworks(),
        Some(Topic::Schedules) => settings(&["parallelism", "schedule"]),
        Some(Topic::Techniques) => techniques(),
        Some(Topic::Presets) => facts::presets(),
        Some(Topic::Metrics) => settings(&["expect", "0", "metric"]),
        Some(Topic::Validations) => validations()?,
    };
    match (arguments.format, arguments.topic) {
        (Format::Json, _) => {
            printer.print(&trouble::json(&Listing { schema_version: SCHEMA_VERSION, items }))
        }
        (Format::Table, Some(_)) => printer.print(&table(&items)),
        (Format::Table, None) => printer.print(&(table(&items) + "\nnext: foretrain list scenarios\n")),
    }
}

fn topics() -> Vec<Item> {
    let possible = Topic::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let item = |value: clap::builder::PossibleValue| Item {
        name: value.get_name().to_owned(),
        description: value.get_help().map(ToString::to_string).unwrap_or_default(),
        ..Item::default()
    };
    possible.map(item).collect()
}

fn scenarios() -> Result<Vec<Item>, Trouble> {
    let item = |name: &str| {
        let experiment = input::library_experiment(name)?;
        let description = experiment.description().map_or_else(|| experiment.name().to_owned(), one_sentence);
        Ok(Item { name: name.to_owned(), description, ..Item::default() })
    };
    library::names().map(item).collect()
}

fn validations() -> Result<Vec<Item>, Trouble> {
    let item = |(name, description)| Item { name, description, ..Item::default() };
    Ok(validate::sets()?.into_iter().map(item).collect())
}

/// Techniques; presets of them are a list of their own.
fn techniques() -> Vec<Item> {
    settings(&["techniques"]).into_iter().filter(|item| item.name != "presets").collect()
}

/// The choices at a path of the schema.
fn settings(path: &[&str]) -> Vec<Item> {
    let described = Shape::file().at(path).map(Shape::described).unwrap_or_default();
    let item = |(name, documentation): (&str, String)| Item {
        name: name.to_owned(),
        description: one_sentence(&documentation),
        ..Item::default()
    };
    described.into_iter().map(item).collect()
}

/// The first sentence, without its full stop.
fn one_sentence(text: &str) -> String {
    let end = text.match_indices(['.', '?', '!']).find(|(at, mark)| text[at + mark.len()..].starts_with(' '));
    let sentence = end.map_or(text, |(at, mark)| &text[..at + mark.len()]);
    sentence.trim_end().trim_end_matches('.').to_owned()
}

/// A line for each: name, description, how far it is to be trusted.
fn table(items: &[Item]) -> String {
    let width =
        |column: fn(&Item) -> &str| items.iter().map(|item| column(item).chars().count()).max().unwrap_or(0);
    let (names, descriptions) = (width(|item| &item.name), width(|item| &item.description));
    let line = |Item { name, description, confidence, .. }: &Item| match confidence {
        Some(confidence) => format!("{name:names$}  {description:descriptions$}  confidence {confidence}\n"),
        None => format!("{name:names$}  {description}\n"),
    };
    items.iter().map(line).collect()
}
