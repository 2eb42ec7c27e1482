//! From arguments to a scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use hw_models::catalogue::{self, nearest};
use serde::Serialize;
use serde_json::Value as Json;

use super::Target;
use super::command::{self, Given as Argument};
use super::file::{comments, written};
use super::rules::{Meaning, Row, Rule, Setting, Table};
use super::shell::{self, Script, Word};
use super::tree::{Said, Settings, node, of_json, said};
use crate::experiment::{Experiment, assembled, check_settings, is_below, setting};
use crate::text::node::{Node, Value, shorten};
use crate::text::problem::{Failure, Problem};
use crate::text::source::{Mark, SourceId, Sources};
use crate::text::yaml;

/// Longest text (bytes).
const TEXT_MAX: usize = 512 * 1024;

/// Arguments as they are given.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// A launch script, or a file of arguments.
    Text {
        /// Name in messages.
        name: &'a str,
        /// The whole text.
        text: &'a str,
    },
    /// Words of a command line, which a shell has split.
    Words(&'a [String]),
}

/// Facts that arguments do not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// A node of the catalogue, or the setting `machine` as YAML.
    pub machine: Option<&'a str>,
    /// Settings `path=value` over everything else.
    pub set: &'a [String],
}

/// A scenario, and how it came from arguments.
#[derive(Clone, Debug, Serialize)]
pub struct Imported {
    /// The scenario file.
    pub scenario: String,
    /// Settings that arguments say.
    pub understood: Vec<Understood>,
    /// Arguments that do not change the scenario.
    pub ignored: Vec<Ignored>,
    /// Settings that no argument says, by the defaults of the target.
    pub assumed: Vec<Assumed>,
}

/// A setting that an argument says.
#[derive(Clone, Debug, Serialize)]
pub struct Understood {
    /// Name of the argument.
    pub argument: String,
    /// Place of its value: `file:line:column`.
    pub place: String,
    /// Path of the setting.
    pub setting: String,
    /// Its value.
    pub value: Json,
}

/// An argument that does not change the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Ignored {
    /// Name of the argument.
    pub argument: String,
    /// Its place: `file:line:column`.
    pub place: String,
    /// The reason.
    pub reason: String,
}

/// A setting or a fact that nothing in the text says.
#[derive(Clone, Debug, Serialize)]
pub struct Assumed {
    /// Path of the setting, or the fact. In the scenario it may have a default of its own.
    pub setting: String,
    /// Its value. `None`: the language's default.
    pub value: Option<Json>,
    /// Arguments that would say it, or the reason.
    pub because: String,
}

/// Reads the arguments of a target as a scenario.
///
/// # Errors
/// Every argument that is unknown, repeated, contradictory or beyond what scenarios can say, with
/// its place and a remedy; and everything that is wrong with the scenario that they make.
pub fn import(target: Target, given: Given<'_>, options: &Options<'_>) -> Result<Imported, Failure> {
    let mut sources = Sources::default();
    let (name, script, source) = match script(given, &mut sources) {
        Ok(found) => found,
        Err(problem) => return Err(Failure::new(sources, vec![problem])),
    };
    let mut reading = Reading::new(target, source, options.set);
    let branch = script.branch;
    let says_setting = |name: &str| target.table().names.get(name) == Some(&Meaning::Settings);
    let training = match command::training(script, source, says_setting) {
        Ok(training) => training,
        Err(problem) => return Err(Failure::new(sources, vec![problem])),
    };
    reading.arguments(&training.arguments);
    let launched = command::launched(&training.launcher);
    reading.copies(launched);
    let machine = machine(options, launched, source, &mut sources);
    match machine {
        Ok(machine) => reading.settings.extend(machine.map(|said| (MACHINE.to_owned(), said))),
        Err(problems) => reading.problems.extend(problems),
    }
    reading.set(&mut sources);
    if let Some(place) = branch {
        let place = sources.locate(place.mark(source));
        let because = format!("{place}: conditions are not evaluated, every branch is read in order");
        reading
            .assumed
            .insert(0, Assumed { setting: "branches of the script".to_owned(), value: None, because });
    }
    let Reading { mut problems, settings, ignored, assumed, .. } = reading;
    if !problems.is_empty() {
        // No scenario comes of it; what is wrong with what was understood is told all the same.
        let nodes = settings.iter().map(|(path, said)| (path.as_str(), of_json(&said.value, said.mark)));
        check_settings(nodes, &mut problems);
        return Err(Failure::new(sources, problems));
    }
    let name = format!("Imported from {name}");
    let experiment = experiment(&settings, &name, source, sources)?;
    let sources = experiment.sources();
    let understood = understood(&settings, sources);
    let ignored: Vec<Ignored> = ignored
        .into_iter()
        .map(|(argument, mark, reason)| Ignored { argument, place: sources.locate(mark), reason })
        .collect();
    let mut scenario = format!("# Arguments of {}.\n", target.name);
    scenario += &comments(&ignored, &assumed);
    let _ = writeln!(scenario, "name: {}", yaml::scalar(&name));
    scenario += &written(&settings, sources);
    Ok(Imported { scenario, understood, ignored, assumed })
}

const MACHINE: &str = "machine";

/// The commands of what is given, with its name and source.
fn script(given: Given<'_>, sources: &mut Sources) -> Result<(String, Script, SourceId), Problem> {
    match given {
        Given::Text { name, text } => {
            let source = sources.add(name, text);
            if text.len() > TEXT_MAX {
                let message = format!("`{}` is longer than {} KiB", shorten(name), TEXT_MAX / 1024);
                return Err(Problem::new(source.start(), message).help("a launch script has a few KiB"));
            }
            Ok((name.to_owned(), shell::read(text, source)?, source))
        }
        Given::Words(words) => {
            let name = "the command line";
            // A line a word: the line of a problem is the position of the argument.
            let lines: Vec<String> = words.iter().map(|word| word.replace('\n', " ")).collect();
            let source = sources.add(name, lines.join("\n"));
            let line = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
            let words = lines.iter().enumerate().map(|(at, word)| Word::alone(word, line(at))).collect();
            Ok((name.to_owned(), Script { commands: vec![words], ..Script::default() }, source))
        }
    }
}

/// The setting `machine`: as it is given, with as many nodes as the launcher starts.
fn machine(
    options: &Options<'_>,
    (processes, nodes): (Option<u64>, Option<u64>),
    source: SourceId,
    sources: &mut Sources,
) -> Result<Option<Said>, Vec<Problem>> {
    let Some(written) = options.machine else {
        let is_set = options.set.iter().any(|change| change.starts_with(MACHINE));
        let help = "add `--machine dgx-a100-80g`, or the setting as YAML: \
                    `--machine '{ cluster: { node: dgx-a100-80g, count: 4 } }'`";
        let missing = || Problem::new(source.start(), "the arguments do not say on which machine").help(help);
        return if is_set { Ok(None) } else { Err(vec![missing()]) };
    };
    let mut problems = Vec::new();
    let option = sources.add("--machine", written);
    let Some(node) = yaml::parse(sources, option, &mut problems) else { return Err(problems) };
    let mark = option.start();
    let Some(name) = node.as_text() else {
        let value = serde_yaml::from_str(written).unwrap_or_default();
        return Ok(Some(Said { value, mark, by: Some("--machine".to_owned()) }));
    };
    let known = crate::catalogue::devices().nodes.get(name);
    let per_node = known.map(catalogue::Node::gpus);
    let gpus = processes.unwrap_or_else(|| per_node.unwrap_or(1)).saturating_mul(nodes.unwrap_or(1));
    let count = gpus.div_ceil(per_node.unwrap_or(gpus).max(1));
    let value = if count > 1 {
        serde_json::json!({ "cluster": { "node": name, "count": count } })
    } else {
        serde_json::json!({ "node": name })
    };
    Ok(Some(Said { value, mark, by: Some("--machine".to_owned()) }))
}

/// The experiment of settings, checked.
pub(super) fn experiment(
    settings: &Settings,
    name: &str,
    source: SourceId,
    sources: Sources,
) -> Result<Experiment, Failure> {
    let mut tree = node(settings, source.start());
    if let Value::Map(map) = &mut tree.value {
        let mark = source.start();
        let node = Node::new(mark, Value::Text(name.to_owned()));
        map.insert("name".to_owned(), crate::text::node::Entry { key: mark, node });
    }
    assembled(tree, sources)
}

/// Arguments on their way to settings.
pub(super) struct Reading<'a> {
    target: Target,
    table: &'a Table,
    source: SourceId,
    set: &'a [String],
    /// Settings that arguments need not say.
    pub(super) elsewhere: BTreeSet<String>,
    /// Rules without arguments that need some.
    missing: Vec<&'a Rule>,
    pub(super) problems: Vec<Problem>,
    pub(super) settings: Settings,
    ignored: Vec<(String, Mark, String)>,
    assumed: Vec<Assumed>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(target: Target, source: SourceId, set: &'a [String]) -> Self {
        let paths = set.iter().filter_map(|change| change.split('=').next());
        Self {
            target,
            table: target.table(),
            source,
            set,
            elsewhere: paths.map(str::to_owned).collect(),
            missing: Vec::new(),
            problems: Vec::new(),
            settings: Settings::default(),
            ignored: Vec::new(),
            assumed: Vec::new(),
        }
    }

    /// Reads all arguments, rule by rule.
    pub(super) fn arguments(&mut self, arguments: &[Argument]) {
        let mut given: BTreeMap<&str, &Argument> = BTreeMap::new();
        for argument in arguments {
            let name = argument.name.as_str();
            if let Some(first) = given.insert(name, argument) {
                let message = format!("`{}` is given twice", shorten(name));
                let problem = Problem::new(argument.mark, message).label("again here");
                self.problems.push(problem.note(first.mark, "first here").help("keep one of them"));
                continue;
            }
            match self.table.names.get(name) {
                Some(Meaning::Settings) => self.check_values(argument),
                Some(Meaning::Ignored(reason)) => {
                    self.ignored.push((name.to_owned(), argument.mark, reason.clone()));
                }
                other => self.problems.push(self.refusal(argument, other)),
            }
        }
        let table = self.table;
        for rule in &table.rules {
            self.rule(rule, &given);
        }
        self.report_missing();
    }

    /// Reports values that the text does not have.
    fn check_values(&mut self, argument: &Argument) {
        for unknown in argument.values.iter().filter_map(|word| word.unknown()) {
            let message =
                format!("`{}` has no value in this text, and `{}` needs one", unknown.written, argument.name);
            let help = format!("assign it above, or write the value behind `{}`", argument.name);
            let problem = Problem::new(unknown.mark(self.source), message).help(help);
            self.problems.push(problem.note(argument.mark, "the argument"));
        }
    }

    /// Reports an argument that means nothing to a scenario.
    fn refusal(&self, argument: &Argument, meaning: Option<&Meaning>) -> Problem {
        let (name, target) = (shorten(&argument.name), self.target.name);
        let (message, help) = match meaning {
            Some(Meaning::OtherRelease(remedy)) => {
                (format!("`{name}` is an argument of another release of {target}"), remedy.clone())
            }
            Some(Meaning::Unsupported(remedy)) => {
                (format!("`{name}` changes the step in a way that scenarios cannot say"), remedy.clone())
            }
            _ => {
                let known = self.table.names.keys().map(String::as_str);
                let help = match nearest::closest(&argument.name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("remove it if it is none of {target}'s, such as an argument of a fork"),
                };
                (format!("{target} has no argument `{name}`"), help)
            }
        };
        Problem::new(argument.mark, message).help(help)
    }

    /// Reads the arguments of a rule together.
    fn rule(&mut self, rule: &'a Rule, all: &BTreeMap<&str, &Argument>) {
        let there = rule.names.iter().filter_map(|name| all.get(name.as_str()));
        let mut arguments: Vec<&Argument> = there.copied().collect();
        arguments.sort_by_key(|argument| argument.mark);
        let words: Vec<Vec<String>> =
            arguments.iter().map(|argument| argument.values.iter().map(Word::text).collect()).collect();
        let given: Vec<(&str, Vec<&str>)> = arguments
            .iter()
            .zip(&words)
            .map(|(argument, words)| (argument.name.as_str(), words.iter().map(String::as_str).collect()))
            .collect();
        let settings = &self.settings;
        let lookup = |path: &str| said(settings, path);
        match rule.read(&given, &lookup, self.target.conversions) {
            Some(found) => found.into_iter().for_each(|setting| self.take(setting, rule, &arguments)),
            None if arguments.is_empty() => self.missing(rule),
            None if arguments.iter().any(|it| it.values.iter().any(|word| word.unknown().is_some())) => {}
            None => self.problems.push(contradiction(rule, &arguments)),
        }
    }

    /// Lays settings `path=value` over those that arguments say.
    fn set(&mut self, sources: &mut Sources) {
        for change in self.set {
            let Some((path, mark)) = setting(change, sources, &mut self.problems) else { continue };
            let written = change.split_once('=').map_or("", |(_, value)| value);
            let value = serde_yaml::from_str(written).unwrap_or_default();
            self.settings.retain(|known, _| !is_below(&path, known));
            let holds = |known: &str, said: &Said| said.value.is_object() && is_below(known, &path);
            let map = self.settings.iter_mut().find(|(known, said)| holds(known, said));
            if let Some((known, said)) = map {
                let keys = path[known.len() + 1..].split('.');
                keys.fold(&mut said.value, |place, key| &mut as_map(place)[key]).clone_from(&value);
            } else {
                self.settings.insert(path, Said { value, mark, by: Some("--set".to_owned()) });
            }
        }
    }

    /// Derives copies of the model from the processes that a launcher starts.
    fn copies(&mut self, (processes, nodes): (Option<u64>, Option<u64>)) {
        let Some(processes) = processes else { return };
        let ranks = |path: &str| said(&self.settings, path).and_then(|it| it.as_u64()).unwrap_or(1).max(1);
        let parts = ["parallelism.tensor", "parallelism.pipeline", "parallelism.context"].map(ranks);
        let each = parts.into_iter().fold(1, u64::saturating_mul);
        let all = processes.saturating_mul(nodes.unwrap_or(1));
        if all.is_multiple_of(each) {
            let (value, by) = (Json::from(all / each), Some("the launcher's processes".to_owned()));
            let said = Said { value, mark: self.source.start(), by };
            self.settings.insert("parallelism.data".to_owned(), said);
        }
    }

    fn take(&mut self, setting: Setting, rule: &Rule, arguments: &[&Argument]) {
        let Setting { path, value, argument } = setting;
        let by = argument.and_then(|at| arguments.get(at)).copied();
        let value_mark = |by: &Argument| by.values.first().map(|word| word.mark(self.source));
        let mark = by.map_or_else(|| self.source.start(), |by| value_mark(by).unwrap_or(by.mark));
        if by.is_none() {
            let names = rule.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let because = format!("no {names}");
            self.assumed.push(Assumed { setting: path.clone(), value: Some(value.clone()), because });
        }
        self.settings.insert(path, Said { value, mark, by: by.map(|by| by.name.clone()) });
    }

    /// Notes arguments that must be there, unless their setting is said elsewhere.
    fn missing(&mut self, rule: &'a Rule) {
        if !rule.paths().any(|path| self.elsewhere.contains(path)) {
            self.missing.push(rule);
        }
    }

    fn report_missing(&mut self) {
        let rows = self.missing.iter().filter_map(|rule| rule.rows.first());
        let shown: Vec<String> = rows.map(Row::shown).collect();
        let paths: Vec<&str> = self.missing.iter().filter_map(|rule| rule.paths().next()).collect();
        if let Some(first) = paths.first() {
            let message = format!("no argument says {}", nearest::list(paths.iter().copied()));
            let help = format!("add `{}`, or write `--set {first}=VALUE`", shown.join(" "));
            self.problems.push(Problem::new(self.source.start(), message).help(help));
        }
    }
}

/// The place as a map, empty if it was none.
fn as_map(place: &mut Json) -> &mut Json {
    if !place.is_object() {
        *place = Json::Object(serde_json::Map::new());
    }
    place
}

/// Arguments of which no row has this combination.
fn contradiction(rule: &Rule, arguments: &[&Argument]) -> Problem {
    let names: Vec<String> = arguments
        .iter()
        .map(|argument| {
            let values = argument.values.iter().map(|word| format!(" {}", word.text()));
            shorten(&(argument.name.clone() + &values.collect::<String>())).clone()
        })
        .collect();
    let rows: Vec<String> =
        rule.rows.iter().filter(|row| !row.arguments.is_empty()).map(Row::shown).collect();
    let message = match &names[..] {
        [only] => format!("`{only}` is not understood"),
        several => format!("{} do not go together", nearest::list(several.iter().map(String::as_str))),
    };
    let (first, rest) = arguments.split_first().expect("a rule without arguments has nothing to contradict");
    let problem = Problem::new(first.mark, message);
    let problem = rest.iter().fold(problem, |problem, argument| problem.note(argument.mark, ""));
    problem.help(format!("write {}", rows.join("\nor ")))
}

fn understood(settings: &Settings, sources: &Sources) -> Vec<Understood> {
    let of = |(path, said): (&String, &Said)| {
        let (argument, place) = (said.by.clone()?, sources.locate(said.mark));
        Some(Understood { argument, place, setting: path.clone(), value: said.value.clone() })
    };
    settings.iter().filter_map(of).collect()
}
