//! `foretrain list`: what there is to choose from.

use clap::ValueEnum;
use reports::summary::SCHEMA_VERSION;
use scenarios::library;
use scenarios::schema::Shape;
use serde::Serialize;

use super::input;
use super::printer::Printer;
use super::trouble::{self, Trouble};
use super::{Exit, Format};

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
    /// Orders in which pipeline stages work on their micro-batches
    Schedules,
    /// Ways to change what is executed, where and in which order
    Techniques,
    /// Figures that expectations and citations can be about
    Metrics,
}

/// What there is, for programs.
#[derive(Serialize)]
struct Listing {
    schema_version: u32,
    items: Vec<Item>,
}

/// One thing to choose.
#[derive(Serialize)]
struct Item {
    name: String,
    description: String,
}

/// Lists a topic, or the topics.
pub(super) fn list(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let items = match arguments.topic {
        None => topics(),
        Some(Topic::Scenarios) => scenarios()?,
        Some(Topic::Schedules) => settings(&["parallelism", "schedule"]),
        Some(Topic::Techniques) => settings(&["techniques"]),
        Some(Topic::Metrics) => settings(&["expect", "0", "metric"]),
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
    };
    possible.map(item).collect()
}

fn scenarios() -> Result<Vec<Item>, Trouble> {
    let item = |name: &str| {
        let experiment = input::library_experiment(name)?;
        let description = experiment.description().map_or_else(|| experiment.name().to_owned(), one_sentence);
        Ok(Item { name: name.to_owned(), description })
    };
    library::names().map(item).collect()
}

/// The choices at a path of the schema.
fn settings(path: &[&str]) -> Vec<Item> {
    let described = Shape::file().at(path).map(Shape::described).unwrap_or_default();
    let item = |(name, documentation): (&str, String)| Item {
        name: name.to_owned(),
        description: one_sentence(&documentation),
    };
    described.into_iter().map(item).collect()
}

/// The first sentence, without its full stop.
fn one_sentence(text: &str) -> String {
    let end = text.match_indices(['.', '?', '!']).find(|(at, mark)| text[at + mark.len()..].starts_with(' '));
    let sentence = end.map_or(text, |(at, mark)| &text[..at + mark.len()]);
    sentence.trim_end().trim_end_matches('.').to_owned()
}

fn table(items: &[Item]) -> String {
    let width = items.iter().map(|item| item.name.chars().count()).max().unwrap_or(0);
    items.iter().map(|Item { name, description }| format!("{name:width$}  {description}\n")).collect()
}
