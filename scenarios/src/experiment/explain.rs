//! The resolved scenario as YAML, every value with its origin.

use indexmap::IndexMap;
use serde_json::Value as Json;

use super::Resolved;
use super::calibrations::CALIBRATION;
use super::check::trace::meaningless;
use super::files;
use crate::text::node::{Layer, Node, Value};
use crate::text::source::Sources;
use crate::text::yaml;

/// The setting that names a trace.
const TRACE: [&str; 3] = ["model", "trace", "file"];

/// One line per value: `stages: 8  # my.yaml:4`. `place` gives the name under which a file is
/// found, of that which it has where foretrain runs; without it files have the names that the
/// scenario gives them.
pub(super) fn explain(
    resolved: &Resolved,
    sources: &Sources,
    place: Option<&dyn Fn(&str) -> String>,
) -> String {
    let settings = complete(resolved, sources, place);
    let mut writer = Writer { resolved, sources, lines: Vec::new() };
    writer.map(&settings, &mut Vec::new());
    let width = writer
        .lines
        .iter()
        .filter(|line| !line.1.is_empty())
        .map(|line| line.0.chars().count())
        .max()
        .unwrap_or(0);
    let print = |(text, origin): &(String, String)| match origin.is_empty() {
        true => format!("{text}\n"),
        false => format!("{text:width$}  # {origin}\n"),
    };
    writer.lines.iter().map(print).collect()
}

/// Settings by path, each value on one line.
pub(super) fn by_path(resolved: &Resolved, sources: &Sources) -> IndexMap<String, String> {
    fn flatten(value: &Json, path: &str, all: &mut IndexMap<String, String>) {
        match value {
            Json::Object(inner) if !inner.is_empty() || path.is_empty() => {
                for (key, value) in inner {
                    let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    flatten(value, &below, all);
                }
            }
            _ => {
                all.insert(path.to_owned(), inline(value));
            }
        }
    }
    let mut all = IndexMap::new();
    flatten(&complete(resolved, sources, None), "", &mut all);
    all
}

/// The settings of a scenario, with defaults and what follows from them.
fn complete(resolved: &Resolved, sources: &Sources, place: Option<&dyn Fn(&str) -> String>) -> Json {
    let mut settings = reports::json::value(&resolved.scenario).unwrap_or_default();
    if let (None, Some(machine)) = (place, &resolved.scenario.machine) {
        let complete = machine.complete(resolved.scenario.constants.devices());
        settings["machine"] = reports::json::value(&complete).unwrap_or_default();
    }
    for path in meaningless(&resolved.scenario) {
        let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
        let place = if above.is_empty() { Some(&mut settings) } else { settings.get_mut(above) };
        place.and_then(Json::as_object_mut).map(|map| map.shift_remove(key));
    }
    let listed = resolved.tree.at(&[CALIBRATION]).map(|node| &node.value);
    if let (Some(place), Some(Value::List(items))) = (place, listed) {
        let found = |node: &Node| {
            let path = files::relative(&sources.get(node.mark.source).name, node.as_text()?);
            Some(Json::from(place(&path)))
        };
        settings[CALIBRATION] = items.iter().filter_map(found).collect();
    }
    let trace = resolved.tree.at(&TRACE);
    if let (Some(place), Some((node, text))) = (place, trace.and_then(|node| Some((node, node.as_text()?))))
        && !files::is_of_library(text)
    {
        let path = files::relative(&sources.get(node.mark.source).name, text);
        settings[TRACE[0]][TRACE[1]][TRACE[2]] = Json::from(place(&path));
    }
    settings
}

/// Origin of one setting.
pub(super) fn origin(resolved: &Resolved, sources: &Sources, path: &str) -> String {
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    Writer { resolved, sources, lines: Vec::new() }.origin(&path)
}

struct Writer<'a> {
    resolved: &'a Resolved,
    sources: &'a Sources,
    /// Text and origin; maps have no origin of their own.
    lines: Vec<(String, String)>,
}

impl Writer<'_> {
    fn map(&mut self, map: &Json, path: &mut Vec<String>) {
        for (key, value) in map.as_object().into_iter().flatten() {
            let indent = "  ".repeat(path.len());
            path.push(key.clone());
            match value {
                Json::Object(inner) if !inner.is_empty() => {
                    self.lines.push((format!("{indent}{}:", yaml::scalar(key)), String::new()));
                    self.map(value, path);
                }
                _ => {
                    let line = format!("{indent}{}: {}", yaml::scalar(key), inline(value));
                    self.lines.push((line, self.origin(path)));
                }
            }
            path.pop();
        }
    }

    fn origin(&self, path: &[String]) -> String {
        if let Some(reason) = self.resolved.derived.get(path.join(".").as_str()) {
            return format!("derived: {reason}");
        }
        let nearest = self.resolved.tree.nearest(path);
        // A bare name stands for the whole map around it.
        match (self.resolved.tree.at(path), &nearest.value) {
            (None, Value::Map(_)) => {
                self.like(path).map_or("default".to_owned(), |like| format!("derived: from `{like}`"))
            }
            _ => written(nearest, self.sources),
        }
    }
}

impl Writer<'_> {
    /// The part of the catalogue that a part of the machine is described as like.
    fn like(&self, path: &[String]) -> Option<&str> {
        let above = (1..path.len()).rev().filter(|_| path[0] == "machine");
        above.filter_map(|depth| self.resolved.tree.at(&path[..depth])?.child("like")?.as_text()).next()
    }
}

fn written(node: &Node, sources: &Sources) -> String {
    let source = sources.get(node.mark.source);
    match node.layer {
        Layer::Set => format!("--set {}", source.text),
        Layer::File => format!("{}:{}", source.name, node.mark.line),
        Layer::Variant => format!("{}:{}, variant", source.name, node.mark.line),
        Layer::Sweep => format!("{}:{}, sweep", source.name, node.mark.line),
    }
}

/// A scalar or a list on one line.
fn inline(value: &Json) -> String {
    match value {
        Json::String(text) => yaml::scalar(text),
        Json::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
