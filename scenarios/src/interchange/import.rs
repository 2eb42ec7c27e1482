//! From arguments or a document to a scenario.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hw_models::catalogue::nearest;
use serde::Serialize;
use serde_json::Value as Json;

use super::command::{self, Given as Argument, Launched};
use super::file::{comments, written};
use super::machine::{self, MACHINE, machine};
use super::reading::Reading;
use super::rules::Meaning;
use super::shell::{self, Script, Word};
use super::tree::{Said, Settings, node, of_json};
use super::{Form, Target, container, document};
use crate::catalogue::presets;
use crate::experiment::{Experiment, assembled, check_settings};
use crate::text::node::{Node, Value, shorten};
use crate::text::problem::{Failure, Problem};
use crate::text::source::{Mark, SourceId, Sources};
use crate::text::yaml;

/// Longest text (bytes).
const TEXT_MAX: usize = 512 * 1024;

/// Arguments as they are given.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// A launch script, a file of arguments, or a document.
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
    /// A published transformer, or the setting `model` as YAML; over the one that arguments name.
    pub model: Option<&'a str>,
    /// Settings `path=value` over everything else.
    pub set: &'a [String],
    /// Overrides `key=value` of the keys of a document, as on a command line of the target.
    pub overrides: &'a [String],
}

/// A scenario, and how it came from arguments.
#[derive(Clone, Debug, Serialize)]
pub struct Imported {
    /// Release of the target whose names a document has, where releases differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
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

/// Reads the arguments of a target, or its document, as a scenario.
///
/// # Errors
/// Every argument that is unknown, repeated, contradictory or beyond what scenarios can say, with
/// its place and a remedy; and everything that is wrong with the scenario that they make.
pub fn import(target: Target, given: Given<'_>, options: &Options<'_>) -> Result<Imported, Failure> {
    let mut sources = Sources::default();
    let Text { name, source, mut arguments, launched, branch } =
        match text(target, given, options.overrides, &mut sources) {
            Ok(text) => text,
            Err(problems) => return Err(Failure::new(sources, problems)),
        };
    let mut reading = Reading::new(target, source, options.set);
    let releases = &target.table().releases;
    let release = releases.recognise(&mut arguments, target.table(), &mut reading.problems);
    reading.fact("release", release.map(Json::from));
    reading.fact("gpus", machine::gpus(options).map(Json::from));
    reading.model(model(options, &mut sources));
    reading.arguments(&arguments);
    reading.copies(launched);
    let ranks = match target.form {
        Form::Arguments => None,
        Form::Json | Form::Toml | Form::Yaml => reading.ranks(),
    };
    match machine(options, ranks, launched, source, &mut sources) {
        Ok(machine) => {
            if target.form != Form::Arguments && ranks.is_none() {
                reading.one_node(machine.as_ref());
            }
            reading.settings.extend(machine.map(|said| (MACHINE.to_owned(), said)));
        }
        Err(problems) => reading.problems.extend(problems),
    }
    reading.set(&mut sources);
    reading.needed();
    if target.form == Form::Yaml && matches!(given, Given::Words(_)) {
        let because = "overrides alone: keys beside them are as by default, not as a recipe has them";
        let (setting, value) = ("the recipe".to_owned(), None);
        reading.assumed.insert(0, Assumed { setting, value, because: because.to_owned() });
    }
    if let Some(place) = branch {
        let place = sources.locate(place);
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
    let of = release.map(|release| format!(", by their names of release {release}")).unwrap_or_default();
    let mut scenario = format!("# {}s of {}{of}.\n", target.form.title(), target.name);
    scenario += &comments(&ignored, &assumed);
    let _ = writeln!(scenario, "name: {}", yaml::scalar(&name));
    scenario += &written(&settings, sources);
    Ok(Imported { release: release.map(str::to_owned), scenario, understood, ignored, assumed })
}

/// Arguments of a text, and facts beside them.
struct Text {
    name: String,
    source: SourceId,
    arguments: Vec<Argument>,
    launched: Launched,
    /// The first condition or loop of a script.
    branch: Option<Mark>,
}

fn text(
    target: Target,
    given: Given<'_>,
    overrides: &[String],
    sources: &mut Sources,
) -> Result<Text, Vec<Problem>> {
    let document = |name: &str, source, arguments| {
        Ok(Text { name: name.to_owned(), source, arguments, launched: Launched::default(), branch: None })
    };
    let (name, source, script) = match given {
        Given::Text { name, text } => {
            let source = sources.add(name, text);
            if text.len() > TEXT_MAX {
                let message = format!("`{}` is longer than {} KiB", shorten(name), TEXT_MAX / 1024);
                let help = "a configuration has a few KiB";
                return Err(vec![Problem::new(source.start(), message).help(help)]);
            }
            match target.form {
                Form::Arguments => {}
                Form::Json => return document(name, source, document::json(text, source)?),
                Form::Toml => return document(name, source, document::toml(text, source)?),
                Form::Yaml => {
                    let keys = container::keys(sources, source)?;
                    let (beside, lines) = lines(overrides, sources);
                    return document(name, source, container::overridden(keys, &lines, beside)?);
                }
            }
            let script = shell::read(text, source).map_err(|problem| vec![problem])?;
            (name, source, script)
        }
        Given::Words(words) => {
            let (source, lines) = lines(words, sources);
            if target.form == Form::Yaml {
                let keys = container::overridden(Vec::new(), &lines, source)?;
                return document(COMMAND_LINE, source, keys);
            }
            let line = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
            let words = lines.iter().enumerate().map(|(at, word)| Word::alone(word, line(at))).collect();
            (COMMAND_LINE, source, Script { commands: vec![words], ..Script::default() })
        }
    };
    let branch = script.branch.map(|place| place.mark(source));
    let says_setting = |name: &str| target.table().meaning(name) == Some(&Meaning::Settings);
    let training = command::training(script, source, says_setting).map_err(|problem| vec![problem])?;
    let launched = command::launched(&training.launcher);
    Ok(Text { name: name.to_owned(), source, arguments: training.arguments, launched, branch })
}

/// Name of words that a shell has split.
const COMMAND_LINE: &str = "the command line";

/// Words as a source, a line a word: the line of a problem is the position of the argument.
fn lines(words: &[String], sources: &mut Sources) -> (SourceId, Vec<String>) {
    let lines: Vec<String> = words.iter().map(|word| word.replace('\n', " ")).collect();
    (sources.add(COMMAND_LINE, lines.join("\n")), lines)
}

const PRESET: &str = "model.transformer.preset";

/// The model of an option: a preset, or the setting `model`.
fn model(options: &Options<'_>, sources: &mut Sources) -> Result<Option<(String, Said)>, Vec<Problem>> {
    let Some(written) = options.model else { return Ok(None) };
    let mut problems = Vec::new();
    let option = sources.add("--model", written);
    let Some(node) = yaml::parse(sources, option, &mut problems) else { return Err(problems) };
    let said = |path: &str, value| {
        let said = Said { value, mark: option.start(), by: Some("--model".to_owned()) };
        Ok(Some((path.to_owned(), said)))
    };
    match node.as_text() {
        Some(name) if presets().contains_key(name) => said(PRESET, Json::from(name)),
        Some(name) => {
            let help = nearest::closest(name, presets().keys().map(String::as_str)).map_or_else(
                || "`foretrain list models` has the names; those with `hidden` are transformers".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            let message = format!("there is no transformer `{}`", shorten(name));
            Err(vec![Problem::new(option.start(), message).help(help)])
        }
        None => said("model", serde_yaml::from_str(written).unwrap_or_default()),
    }
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
    assembled(&BTreeMap::new(), tree, Vec::new(), sources)
}

fn understood(settings: &Settings, sources: &Sources) -> Vec<Understood> {
    let of = |(path, said): (&String, &Said)| {
        let (argument, place) = (said.by.clone()?, sources.locate(said.mark));
        Some(Understood { argument, place, setting: path.clone(), value: said.value.clone() })
    };
    settings.iter().filter_map(of).collect()
}
