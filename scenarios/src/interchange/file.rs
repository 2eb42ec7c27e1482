//! The scenario file of an import: its settings as YAML, each with the argument that says it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use super::import::{Assumed, Ignored};
use super::rules::plain;
use super::tree::{Said, Settings};
use crate::experiment::{is_below, leads_to};
use crate::text::source::{Mark, Sources};
use crate::text::yaml;

/// Lines about what is ignored and assumed.
pub(super) fn comments(ignored: &[Ignored], assumed: &[Assumed]) -> String {
    let mut text = String::new();
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Ignored { argument, reason, .. } in ignored {
        reasons.entry(reason).or_default().push(argument);
    }
    for (reason, arguments) in reasons {
        let _ = writeln!(text, "# Ignored, {reason}: {}.", arguments.join(", "));
    }
    for Assumed { setting, value, because } in assumed {
        let value = value.as_ref().map(|value| format!(": {}", inline(value))).unwrap_or_default();
        let _ = writeln!(text, "# Assumed {setting}{value} ({because}).");
    }
    text
}

/// The settings as YAML, each with the argument that says it.
pub(super) fn written(settings: &Settings, sources: &Sources) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    // A map of which parts are said is where they are.
    let is_empty = |said: &Said| said.value.as_object().is_some_and(Map::is_empty);
    let is_above = |path: &str| settings.keys().any(|known| is_below(path, known));
    let is_line = |(path, said): &(&String, &Said)| !(is_empty(said) && is_above(path));
    let mut ordered: Vec<(&String, &Said)> = settings.iter().filter(is_line).collect();
    ordered.sort_by_cached_key(|(path, _)| order(path, settings));
    for (path, said) in ordered {
        let keys: Vec<&str> = path.split('.').collect();
        let (last, above) = keys.split_last().unwrap_or((&"", &[]));
        let shared = open.iter().zip(above).take_while(|(a, b)| a == b).count();
        open.truncate(shared);
        for key in &above[shared..] {
            lines.push((format!("{}{key}:", "  ".repeat(open.len())), String::new()));
            open.push(key);
        }
        let origin = match &said.by {
            Some(by) if by.starts_with("--machine") || by.starts_with("--set") => by.clone(),
            Some(by) => format!("{by}, {}", place(sources, said.mark)),
            None => "assumed".to_owned(),
        };
        lines.push((format!("{}{last}: {}", "  ".repeat(open.len()), inline(&said.value)), origin));
    }
    let width = lines.iter().filter(|line| !line.1.is_empty()).map(|line| line.0.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (line, origin) in lines {
        let _ = match origin.is_empty() {
            true => writeln!(text, "{line}"),
            false => writeln!(text, "{line:width$}  # {origin}"),
        };
    }
    text
}

/// Position of a path: parts of a map stand together, where the first of them is.
fn order(path: &str, settings: &Settings) -> Vec<usize> {
    let keys: Vec<&str> = path.split('.').collect();
    let first = |depth: usize| {
        let above = keys[..depth].join(".");
        settings.keys().position(|known| leads_to(&above, known)).unwrap_or_default()
    };
    (1..=keys.len()).map(first).collect()
}

fn place(sources: &Sources, mark: Mark) -> String {
    let place = sources.locate(mark);
    place.rsplit_once(':').map_or(place.clone(), |(line, _)| line.to_owned())
}

/// A value on one line.
fn inline(value: &Json) -> String {
    match value {
        Json::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Json::Object(map) if map.is_empty() => "{}".to_owned(),
        Json::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}: {}", yaml::scalar(key), inline(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Json::String(text) => yaml::scalar(text),
        scalar => plain(scalar).unwrap_or_default(),
    }
}
