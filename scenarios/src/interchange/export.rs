//! From a plan to arguments.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value as Json;

use super::Target;
use super::command::Given as Argument;
use super::import::experiment;
use super::reading::Reading;
use super::rules::{Written, plain};
use super::shell::Word;
use super::tree::{Said, at, differences, resolved as settings_of};
use crate::experiment::{Experiment, Resolved, leads_to};
use crate::plans;
use crate::schema::Model;
use crate::text::problem::{Failure, Problem};
use crate::text::source::Sources;

/// Arguments that say a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// The target.
    pub target: Target,
    /// GPUs of a node, and nodes.
    pub gpus: [u64; 2],
    /// The arguments, one a line.
    pub arguments: Vec<Line>,
    /// Settings about the machine and the simulation, for which there are no arguments.
    pub beside: Vec<Origin>,
}

/// An argument, and the settings that it says.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name and its values.
    pub words: Vec<String>,
    /// The settings.
    pub settings: Vec<Origin>,
}

/// A setting, and where it is written.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    /// Its path.
    pub path: String,
    /// The file and line, `default`, or what it is derived from.
    pub origin: String,
}

/// Writes a plan as the arguments of a target.
///
/// # Errors
/// Every setting that the target cannot do, with its place and a remedy.
pub fn export(experiment: &Experiment, resolved: &Resolved, target: Target) -> Result<Exported, Failure> {
    let refuse = |problems| Failure::new(experiment.sources().clone(), problems);
    if !matches!(resolved.scenario.model, Model::Transformer(_)) {
        let path = resolved.scenario.model.path();
        let message = format!("plans of transformers are exported to {}, not of `{path}`", target.name);
        let help = "write the model as `model: { transformer: ... }`";
        return Err(refuse(vec![Problem::new(experiment.mark(resolved, path), message).help(help)]));
    }
    let table = target.table();
    let settings = settings_of(resolved, table);
    let lookup = |path: &str| match path {
        "@release" => table.releases.newest().map(Json::from),
        path => at(&settings, path),
    };
    let refusal = |path: &str, help: &str| {
        let value = lookup(path).as_ref().and_then(plain).map(|value| format!(": {value}"));
        let (noun, value) = (target.form.noun(), value.unwrap_or_default());
        let message = format!("{} has no {noun} for `{path}{value}`", target.name);
        Problem::new(experiment.mark(resolved, path), message).help(help)
    };
    let (mut written, mut problems, mut refused) = (Vec::new(), Vec::new(), BTreeSet::new());
    for rule in &table.rules {
        match rule.write(&lookup, target.conversions) {
            Some(arguments) => written.extend(arguments),
            None => {
                problems.push(refusal(rule.obstacle(&lookup), rule.remedy.as_deref().unwrap_or(REMOVE)));
                refused.extend(rule.paths());
            }
        }
    }
    for unsaid in unsaid(target, &settings, &written, &refused) {
        problems.push(match unsaid {
            Unsaid::Setting(path) => refusal(&path, REMOVE),
            // What is refused can be why.
            Unsaid::Plan(_) if !refused.is_empty() => continue,
            Unsaid::Plan(message) => {
                let message = format!("{} would be told something else: {message}", target.name);
                Problem::new(experiment.mark(resolved, "model"), message).help("change that setting")
            }
        });
    }
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    let origin = |path: &String| Origin { path: path.clone(), origin: experiment.origin(resolved, path) };
    let line = |Written { name, values, paths }: Written| Line {
        words: [vec![name], values].concat(),
        settings: paths.iter().map(origin).collect(),
    };
    let is_written = |path: &&String| at(&settings, path).is_some() && origin(path).origin != "default";
    Ok(Exported {
        target,
        gpus: gpus(resolved),
        arguments: written.into_iter().map(line).collect(),
        beside: table.beside.iter().filter(is_written).map(origin).collect(),
    })
}

const REMOVE: &str = "remove the setting, or export to a target that has it";

/// A part of a plan that arguments do not say.
enum Unsaid {
    Setting(String),
    /// The arguments make no plan at all: why not.
    Plan(String),
}

/// Imports the arguments of a plan, and gives the settings that do not come back. Paths that are
/// `refused` have been reported, and stay as they are.
fn unsaid(target: Target, settings: &Json, written: &[Written], refused: &BTreeSet<&str>) -> Vec<Unsaid> {
    let table = target.table();
    let mut sources = Sources::default();
    let source = sources.add(target.name, "");
    let mut reading = Reading::new(target, source, &[]);
    reading.elsewhere = refused.iter().map(|path| (*path).to_owned()).collect();
    reading.fact("release", table.releases.newest().map(Json::from));
    let argument = |written: &Written| Argument {
        name: written.name.clone(),
        written: written.name.clone(),
        mark: source.start(),
        values: written.values.iter().map(|value| Word::alone(value, 1)).collect(),
    };
    reading.arguments(&written.iter().map(argument).collect::<Vec<_>>());
    let messages = |problems: Vec<Problem>| problems.into_iter().map(|it| Unsaid::Plan(it.message)).collect();
    if !reading.problems.is_empty() {
        return messages(reading.problems);
    }
    // Files that a scenario names are not at hand here; what they measure is no part of a plan.
    let beside = table.beside.iter().map(String::as_str);
    let beside = beside.filter(|path| !matches!(*path, "calibration" | "campaign" | "run"));
    for path in beside.chain(refused.iter().copied()) {
        let value = at(settings, path);
        let said = |value| Said { value, mark: source.start(), by: None };
        reading.settings.retain(|known, _| !leads_to(path, known));
        reading.settings.extend(value.map(|value| (path.to_owned(), said(value))));
    }
    let again = match experiment(&reading.settings, target.name, source, sources) {
        Ok(experiment) => experiment,
        Err(failure) => return messages(failure.problems),
    };
    let Some(point) = again.points().next() else { return Vec::new() };
    let variant = again.variants().next().unwrap_or_default().to_owned();
    let again = match again.resolve(&variant, &point) {
        Ok(again) => settings_of(&again, table),
        Err(infeasible) => return vec![Unsaid::Plan(infeasible.reason)],
    };
    let elsewhere = |path: &str| table.beside.iter().chain(&table.spelled).any(|it| it == path);
    differences(settings, &again, &elsewhere).into_iter().map(Unsaid::Setting).collect()
}

/// GPUs of a node, and nodes.
fn gpus(resolved: &Resolved) -> [u64; 2] {
    plans::machine::of(&resolved.scenario).map_or([1, 1], |machine| {
        let per_node = u64::from(machine.gpus_per_node()).max(1);
        [per_node, u64::from(machine.gpus()).div_ceil(per_node)]
    })
}
