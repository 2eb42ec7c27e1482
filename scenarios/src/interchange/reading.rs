//! Arguments on their way to settings, rule by rule.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::catalogue::nearest;
use serde_json::{Value as Json, json};

use super::Target;
use super::command::{Given as Argument, Launched};
use super::import::Assumed;
use super::machine::MACHINE;
use super::rules::{AUTO, Meaning, Meant, Row, Rule, Setting, Table, scalar};
use super::shell::Word;
use super::tree::{Said, Settings, said};
use crate::experiment::{is_below, leads_to, setting};
use crate::text::node::shorten;
use crate::text::problem::Problem;
use crate::text::source::{Mark, SourceId, Sources};

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
    /// Facts that conditions and conversions look up behind an `@`.
    facts: BTreeMap<String, Json>,
    pub(super) problems: Vec<Problem>,
    pub(super) settings: Settings,
    pub(super) ignored: Vec<(String, Mark, String)>,
    pub(super) assumed: Vec<Assumed>,
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
            facts: BTreeMap::new(),
            problems: Vec::new(),
            settings: Settings::default(),
            ignored: Vec::new(),
            assumed: Vec::new(),
        }
    }

    /// Lays down a fact, as far as it is known.
    pub(super) fn fact(&mut self, name: &str, value: Option<Json>) {
        self.facts.extend(value.map(|value| (name.to_owned(), value)));
    }

    /// Takes the model of an option, over that of arguments.
    pub(super) fn model(&mut self, model: Result<Option<(String, Said)>, Vec<Problem>>) {
        match model {
            Ok(Some((path, said))) => {
                self.settings.insert(path, said);
                self.elsewhere.insert(MODEL.to_owned());
            }
            Ok(None) => {}
            Err(problems) => {
                self.elsewhere.insert(MODEL.to_owned());
                self.problems.extend(problems);
            }
        }
    }

    /// Reads all arguments, rule by rule.
    pub(super) fn arguments(&mut self, arguments: &[Argument]) {
        let mut given: BTreeMap<&str, &Argument> = BTreeMap::new();
        for argument in arguments {
            if let Some(first) = given.insert(&argument.name, argument) {
                let message = format!("`{}` is given twice", shorten(&argument.written));
                let problem = Problem::new(argument.mark, message).label("again here");
                self.problems.push(problem.note(first.mark, "first here").help("keep one of them"));
                continue;
            }
            match self.table.meaning(&argument.name) {
                Some(Meaning::Settings | Meaning::Unsupported(_)) if self.is_default(argument) => {
                    self.facts.insert(argument.name.clone(), argument.value());
                    self.ignore(argument, "as it is by default");
                }
                Some(Meaning::Settings) => {
                    self.check_values(argument);
                    self.facts.insert(argument.name.clone(), argument.value());
                }
                Some(Meaning::Ignored(reason)) => self.ignore(argument, reason),
                Some(Meaning::Unsupported(_)) if argument.is_off() => {
                    self.ignore(argument, "switched off, as it is by default");
                }
                other => self.problems.push(self.refusal(argument, other)),
            }
        }
        given.retain(|_, argument| !self.is_default(argument));
        let table = self.table;
        for rule in &table.rules {
            self.rule(rule, &given);
        }
        self.report_missing();
    }

    fn is_default(&self, argument: &Argument) -> bool {
        let words: Vec<String> = argument.values.iter().map(Word::text).collect();
        self.table.is_default(&argument.name, &words)
    }

    fn ignore(&mut self, argument: &Argument, reason: &str) {
        self.ignored.push((argument.written.clone(), argument.mark, reason.to_owned()));
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
        let (name, target, noun) = (shorten(&argument.written), self.target.name, self.target.form.noun());
        let a_noun = self.target.form.a_noun();
        let (message, help) = match meaning {
            Some(Meaning::OtherRelease(remedy)) => {
                (format!("`{name}` is {a_noun} of another release of {target}"), remedy.clone())
            }
            Some(Meaning::Unsupported(remedy)) => {
                (format!("`{name}` changes the step in a way that scenarios cannot say"), remedy.clone())
            }
            _ => {
                let help = match nearest::closest(&argument.name, self.table.names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("remove it if it is none of {target}'s, such as {a_noun} of a fork"),
                };
                (format!("{target} has no {noun} `{name}`"), help)
            }
        };
        Problem::new(argument.mark, message).help(help)
    }

    /// Reads the arguments of a rule together. Those that are `auto` are left out, unless a row has
    /// the word.
    fn rule(&mut self, rule: &'a Rule, all: &BTreeMap<&str, &Argument>) {
        let there = rule.names.iter().filter_map(|name| all.get(name.as_str()));
        let mut arguments: Vec<&Argument> = there.copied().collect();
        arguments.sort_by_key(|argument| argument.mark);
        if self.elsewhere.contains(MODEL) && is_of_model(rule) {
            arguments.iter().for_each(|argument| self.ignore(argument, "an option says the model"));
            return;
        }
        let (automatic, said): (Vec<&Argument>, Vec<&Argument>) =
            arguments.iter().partition(|argument| self.leaves_open(argument));
        if let Some(meant) = self.meant(rule, &arguments) {
            return self.take_all(meant, rule, &arguments, &[]);
        }
        match Some(&automatic).filter(|it| !it.is_empty()).and_then(|_| self.meant(rule, &said)) {
            Some(meant) => self.take_all(meant, rule, &said, &automatic),
            None if said.is_empty() => self.missing(rule),
            None if said.iter().any(|it| it.values.iter().any(|word| word.unknown().is_some())) => {}
            None => self.problems.extend(contradiction(rule, &said)),
        }
    }

    fn leaves_open(&self, argument: &Argument) -> bool {
        self.target.form.has_auto() && argument.is_auto()
    }

    fn meant(&self, rule: &'a Rule, arguments: &[&Argument]) -> Option<Meant<'a>> {
        let words: Vec<Vec<String>> =
            arguments.iter().map(|argument| argument.values.iter().map(Word::text).collect()).collect();
        let given: Vec<(&str, Vec<&str>)> = arguments
            .iter()
            .zip(&words)
            .map(|(argument, words)| (argument.name.as_str(), words.iter().map(String::as_str).collect()))
            .collect();
        let lookup = |path: &str| match path.strip_prefix('@') {
            Some(fact) => self.facts.get(fact).cloned(),
            None => said(&self.settings, path),
        };
        rule.read(&given, &lookup, self.target.conversions)
    }

    fn take_all(&mut self, meant: Meant<'_>, rule: &Rule, arguments: &[&Argument], automatic: &[&Argument]) {
        let mut because = None;
        if !automatic.is_empty() {
            let names = automatic.iter().map(|argument| format!("`{}`", argument.written));
            let verb = if automatic.len() == 1 { "is" } else { "are" };
            let names = names.collect::<Vec<_>>().join(", ");
            because = Some(format!("{names} {verb} `auto`"));
        }
        let (assumed, mut left) = (self.assumed.len(), Vec::new());
        let note = meant.note.map(|(_, note)| note.to_owned());
        for setting in meant.settings {
            self.take(setting, rule, arguments, because.as_ref().or(note.as_ref()));
        }
        for argument in automatic.iter().filter(|_| self.assumed.len() == assumed) {
            let setting = rule.path_of(&argument.name).unwrap_or(&argument.written).to_owned();
            let because = format!("`{}` is `auto`: left to other settings", argument.written);
            left.push(Assumed { setting, value: None, because });
        }
        self.assumed.append(&mut left);
        let (about, note) = meant.note.unwrap_or_default();
        let is_set = self.elsewhere.iter().any(|set| leads_to(about, set) || leads_to(set, about));
        if !note.is_empty() && !is_set && self.assumed.len() == assumed {
            let (setting, because) = (about.to_owned(), note.to_owned());
            self.assumed.push(Assumed { setting, value: None, because });
        }
    }

    fn take(&mut self, setting: Setting, rule: &Rule, arguments: &[&Argument], because: Option<&String>) {
        let Setting { path, value, argument } = setting;
        let by = argument.and_then(|at| arguments.get(at)).copied();
        let value_mark = |by: &Argument| by.values.first().map(|word| word.mark(by.mark.source));
        let mark = by.map_or_else(|| self.source.start(), |by| value_mark(by).unwrap_or(by.mark));
        let because = match by {
            None => Some(because.map_or_else(|| self.absent(rule), String::clone)),
            Some(by) if self.leaves_open(by) => Some(format!("`{}` is `auto`", by.written)),
            Some(_) => None,
        };
        self.assumed.extend(because.map(|because| Assumed {
            setting: path.clone(),
            value: Some(value.clone()),
            because,
        }));
        self.settings.insert(path, Said { value, mark, by: by.map(|by| by.written.clone()) });
    }

    /// The reason for a default.
    fn absent(&self, rule: &Rule) -> String {
        let is_absent = |name: &&String| {
            !self.facts.contains_key(*name) && self.table.releases.newest_has(name, self.table)
        };
        let names: Vec<String> = rule.names.iter().filter(is_absent).map(|it| format!("`{it}`")).collect();
        match &names[..] {
            [] => format!("as {} does", self.target.name),
            names => format!("no {}", names.join(", ")),
        }
    }

    /// Lays settings `path=value` over those that arguments say.
    pub(super) fn set(&mut self, sources: &mut Sources) {
        for change in self.set {
            let Some((path, value)) = setting(change, sources, &mut self.problems) else { continue };
            let mark = value.mark;
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
    pub(super) fn copies(&mut self, launched: Launched) {
        let Some(processes) = launched.per_node else { return };
        let each = self.ranks_of_copy();
        let all = processes.saturating_mul(launched.nodes.unwrap_or(1));
        if all.is_multiple_of(each) {
            let (value, by) = (Json::from(all / each), Some("the launcher's processes".to_owned()));
            let said = Said { value, mark: self.source.start(), by };
            self.settings.insert("parallelism.data".to_owned(), said);
        }
    }

    /// Ranks of all copies of the model. `None`: nothing says how many copies there are.
    pub(super) fn ranks(&self) -> Option<u64> {
        Some(self.degree("parallelism.data")?.saturating_mul(self.ranks_of_copy()))
    }

    fn ranks_of_copy(&self) -> u64 {
        let parts = ["parallelism.tensor", "parallelism.pipeline", "parallelism.context"];
        parts.iter().map(|path| self.degree(path).unwrap_or(1).max(1)).fold(1, u64::saturating_mul)
    }

    /// A degree of parallelism, by an option or by arguments.
    fn degree(&self, path: &str) -> Option<u64> {
        let set = self.set.iter().rev().filter_map(|change| change.split_once('='));
        let set = set.filter(|(set, _)| *set == path).find_map(|(_, value)| value.trim().parse().ok());
        set.or_else(|| said(&self.settings, path)?.as_u64())
    }

    /// Notes that the machine is one node for want of a number.
    pub(super) fn one_node(&mut self, machine: Option<&Said>) {
        let Some(machine) = machine.filter(|said| said.value.get("node").is_some()) else { return };
        let because = "nothing says how many copies of the model there are: as many as one node holds";
        let value = Some(json!(machine.value));
        self.assumed.push(Assumed { setting: MACHINE.to_owned(), value, because: because.to_owned() });
    }

    /// Reports settings that documents of the target never say, and options have not.
    pub(super) fn needed(&mut self) {
        for (path, option) in &self.table.needed {
            let is_set = self.elsewhere.iter().any(|set| leads_to(path, set) || leads_to(set, path));
            if !is_set && said(&self.settings, path).is_none() {
                let message = format!("documents of {} do not say `{path}`", self.target.name);
                self.problems
                    .push(Problem::new(self.source.start(), message).help(format!("add `{option}`")));
            }
        }
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
            let noun = self.target.form.noun();
            let message = format!("no {noun} says {}", nearest::list(paths.iter().copied()));
            let shown = shown.join(" ");
            let help = match shown.trim() {
                "" => format!("write `--set {first}=VALUE`"),
                shown => format!("add `{shown}`, or write `--set {first}=VALUE`"),
            };
            self.problems.push(Problem::new(self.source.start(), message).help(help));
        }
    }
}

/// Settings of an option over those of arguments.
const MODEL: &str = "model";

/// True for a rule whose arguments say nothing but the model.
fn is_of_model(rule: &Rule) -> bool {
    let mut paths = rule.paths().peekable();
    !rule.names.is_empty() && paths.peek().is_some() && paths.all(|path| is_below(MODEL, path))
}

impl Argument {
    /// Its words as a value of a scenario.
    fn value(&self) -> Json {
        let mut values = self.values.iter().map(|word| scalar(&word.text()));
        match (values.next(), values.next()) {
            (Some(only), None) => only,
            _ => self.values.iter().map(|word| scalar(&word.text())).collect(),
        }
    }

    fn is_auto(&self) -> bool {
        matches!(&self.values[..], [only] if only.text() == AUTO)
    }

    /// True for values that switch a part of a target off.
    fn is_off(&self) -> bool {
        let off = |word: &Word| ["false", "none", ""].contains(&word.text().as_str());
        matches!(&self.values[..], [only] if off(only) || self.is_auto())
    }
}

/// The place as a map, empty if it was none.
fn as_map(place: &mut Json) -> &mut Json {
    if !place.is_object() {
        *place = Json::Object(serde_json::Map::new());
    }
    place
}

/// Arguments of which no row has this combination. `None`: there are none.
fn contradiction(rule: &Rule, arguments: &[&Argument]) -> Option<Problem> {
    let names: Vec<String> = arguments
        .iter()
        .map(|argument| {
            let values = argument.values.iter().map(|word| format!(" {}", word.text()));
            shorten(&(argument.written.clone() + &values.collect::<String>())).clone()
        })
        .collect();
    let message = match &names[..] {
        [only] => format!("`{only}` is not understood"),
        several => format!("{} do not go together", nearest::list(several.iter().map(String::as_str))),
    };
    let (first, rest) = arguments.split_first()?;
    let problem = Problem::new(first.mark, message);
    let problem = rest.iter().fold(problem, |problem, argument| problem.note(argument.mark, ""));
    let mut ways = rule.shown();
    if is_of_model(rule) && arguments.len() == rule.names.len() {
        ways.push("another model by `--model NAME`".to_owned());
    }
    Some(problem.help(format!("write {}", ways.join("\nor "))))
}
