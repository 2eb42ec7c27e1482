//! Tables of correspondences between arguments and settings, read in both directions.
//!
//! A rule is a list of rows, of which one holds. A row says which arguments mean which settings:
//!
//! ```yaml
//! - "--num-layers {n}": { model.transformer.layers: "{n}" }
//! - "--sequence-parallel": { parallelism.sequence_parallel: true }
//!   "": { parallelism.sequence_parallel: "~false" }
//! ```
//!
//! An export takes the first row whose settings are those of the plan, an import the row whose
//! arguments are those that are given, neither more nor fewer. Arguments that contradict each other
//! are arguments of a rule for which no row has this combination.
//!
//! | in a key | meaning |
//! |---|---|
//! | `{n}`, `{n:conversion}` | one value, bound to a name, or converted by a function of the target |
//! | `{n...}`, `{n:conversion...}` | all values of the argument |
//! | `{_=0.01}` | any value; an export writes this one |
//! | `< ` at the beginning | only an import reads the row |
//! | ` + ` | an export writes what follows, an import does without |
//!
//! | in a value | meaning |
//! |---|---|
//! | `{n}` | the value bound to the name |
//! | `~x` | `x`, which the scenario language has by itself: an import writes nothing |
//! | `?x`, `?-` | a condition: the setting is `x`, or absent |
//! | `-`, `{}` | an absent setting, an empty map |
//! | `=path` | equal to another setting |
//! | `!conversion` | a value that an import computes from other settings |
//! | `*` | anything |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::schema::same_meaning;

/// Settings by path; `None`: absent.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<Json>;

/// A function pair between the value of a setting and the words of an argument. `None`: there is no
/// counterpart.
#[derive(Clone, Copy)]
pub(super) struct Conversion {
    pub(super) words: fn(&Json, Lookup<'_>) -> Option<Vec<String>>,
    pub(super) value: fn(&[&str], Lookup<'_>) -> Option<Json>,
}

/// The rules of a target, and all names of its arguments.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Document")]
pub(super) struct Table {
    pub(super) rules: Vec<Rule>,
    /// Settings that describe where and how a plan is simulated; a target has no word for them.
    pub(super) beside: Vec<String>,
    /// Settings whose meaning other settings of a resolved scenario spell out.
    pub(super) spelled: Vec<String>,
    /// Values that absent settings mean.
    pub(super) absent: BTreeMap<String, Json>,
    /// Arguments by name.
    pub(super) names: BTreeMap<String, Meaning>,
}

/// Effect of an argument on a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// Settings, by a rule.
    Settings,
    /// None, for this reason.
    Ignored(String),
    /// The step changes in a way that scenarios cannot say; with a remedy.
    Unsupported(String),
    /// Another release has it; with a remedy.
    OtherRelease(String),
}

/// A table as it is written; names are without dashes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    rules: Vec<Rule>,
    beside: Vec<String>,
    spelled: Vec<String>,
    absent: BTreeMap<String, Json>,
    ignored: IndexMap<String, Vec<String>>,
    unsupported: IndexMap<String, String>,
    renamed: IndexMap<String, String>,
}

impl TryFrom<Document> for Table {
    type Error = String;

    fn try_from(document: Document) -> Result<Self, String> {
        let Document { rules, beside, spelled, absent, ignored, unsupported, renamed } = document;
        let of_rules = rules.iter().flat_map(|rule| &rule.names);
        let of_rules = of_rules.map(|name| (name.clone(), Meaning::Settings));
        let ignored = ignored.into_iter().flat_map(|(reason, names)| {
            names.into_iter().map(move |name| (name, Meaning::Ignored(reason.clone())))
        });
        let unsupported = unsupported.into_iter().map(|(name, remedy)| (name, Meaning::Unsupported(remedy)));
        let renamed = renamed.into_iter().map(|(name, remedy)| (name, Meaning::OtherRelease(remedy)));
        let dashed = ignored.chain(unsupported).chain(renamed);
        let dashed = dashed.map(|(name, meaning)| (format!("--{name}"), meaning));
        let mut names = BTreeMap::new();
        for (name, meaning) in of_rules.chain(dashed) {
            if names.insert(name.clone(), meaning).is_some() {
                return Err(format!("`{name}` is there twice"));
            }
        }
        Ok(Self { rules, beside, spelled, absent, names })
    }
}

/// Rows, of which one holds.
#[derive(Debug, Deserialize)]
#[serde(try_from = "IndexMap<String, Json>")]
pub(super) struct Rule {
    pub(super) rows: Vec<Row>,
    /// Names of its arguments.
    pub(super) names: BTreeSet<String>,
    /// Advice where an export finds no row.
    pub(super) remedy: Option<String>,
}

/// Arguments that mean settings.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) arguments: Vec<Argument>,
    /// Arguments that only an export writes.
    with: Vec<Argument>,
    settings: Vec<(String, Expected)>,
    pub(super) reads_only: bool,
}

/// An argument and patterns of its values.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: String,
    values: Vec<Pattern>,
}

#[derive(Debug)]
enum Pattern {
    Word(String),
    Example(String),
    Hole { name: String, conversion: Option<String>, all: bool },
}

#[derive(Debug)]
enum Expected {
    Bound(String),
    Implied(Json),
    Condition(Json),
    ConditionAbsent,
    Absent,
    Map,
    EqualTo(String),
    Computed(String),
    Anything,
    Literal(Json),
}

/// An argument of an export with the settings that it says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) values: Vec<String>,
    pub(super) paths: Vec<String>,
}

/// A setting of an import. `argument`: index of the argument that says it, in the order of the row.
#[derive(Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) path: String,
    pub(super) value: Json,
    pub(super) argument: Option<usize>,
}

/// Conversions of a target by name.
pub(super) type Conversions = fn(&str) -> Option<Conversion>;

impl Rule {
    /// The arguments that say the settings of a plan. `None`: no row does.
    pub(super) fn write(&self, settings: Lookup<'_>, conversions: Conversions) -> Option<Vec<Written>> {
        self.rows.iter().filter(|row| !row.reads_only).find_map(|row| row.write(settings, conversions))
    }

    /// The setting that keeps the nearest row from saying a plan, where none does.
    pub(super) fn obstacle(&self, settings: Lookup<'_>) -> &str {
        let rows = self.rows.iter().filter(|row| !row.reads_only);
        let nearest = rows.min_by_key(|row| row.mismatches(settings).count());
        let mismatch = nearest.and_then(|row| row.mismatches(settings).next());
        mismatch.or_else(|| self.paths().find(|path| settings(path).is_some())).unwrap_or_default()
    }

    /// The settings that arguments mean: names, each with its values. `None`: no row has this
    /// combination.
    pub(super) fn read(
        &self,
        given: &[(&str, Vec<&str>)],
        settings: Lookup<'_>,
        conversions: Conversions,
    ) -> Option<Vec<Setting>> {
        self.rows.iter().find_map(|row| row.read(given, settings, conversions))
    }

    /// Names of the conversions that it needs.
    #[cfg(test)]
    pub(super) fn conversions(&self) -> impl Iterator<Item = &str> {
        let patterns = self.rows.iter().flat_map(|row| &row.arguments).flat_map(|argument| &argument.values);
        let of_arguments = patterns.filter_map(|pattern| match pattern {
            Pattern::Hole { conversion, .. } => conversion.as_deref(),
            Pattern::Word(_) | Pattern::Example(_) => None,
        });
        let settings = self.rows.iter().flat_map(|row| &row.settings);
        of_arguments.chain(settings.filter_map(|(_, expected)| match expected {
            Expected::Computed(name) => Some(name.as_str()),
            _ => None,
        }))
    }

    /// Paths of the settings that it writes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let written = |(path, expected): &'_ (String, Expected)| {
            !matches!(expected, Expected::Condition(_) | Expected::ConditionAbsent) && !path.is_empty()
        };
        let settings = self.rows.iter().flat_map(|row| &row.settings);
        settings.filter(move |setting| written(setting)).map(|(path, _)| path.as_str())
    }
}

impl Row {
    fn write(&self, settings: Lookup<'_>, conversions: Conversions) -> Option<Vec<Written>> {
        if self.mismatches(settings).next().is_some() {
            return None;
        }
        let bound = |name: &str| {
            let mut settings = self.settings.iter();
            settings.find_map(|(path, expected)| match expected {
                Expected::Bound(bound) if bound == name => Some(path),
                _ => None,
            })
        };
        let said = |wanted: fn(&Expected) -> bool| -> Vec<String> {
            let said = self.settings.iter().filter(|(_, expected)| wanted(expected));
            said.map(|(path, _)| path.clone()).collect()
        };
        let write = |argument: &Argument| {
            let (mut values, mut paths) = (Vec::new(), Vec::new());
            for pattern in &argument.values {
                match pattern {
                    Pattern::Word(word) | Pattern::Example(word) => values.push(word.clone()),
                    Pattern::Hole { name, conversion, .. } => {
                        let path = bound(name)?;
                        let value = settings(path)?;
                        paths.push(path.clone());
                        values.extend(match conversion {
                            Some(conversion) => (conversions(conversion)?.words)(&value, settings)?,
                            None => vec![plain(&value)?],
                        });
                    }
                }
            }
            if paths.is_empty() {
                paths = said(|it| matches!(it, Expected::Implied(_) | Expected::Literal(_) | Expected::Map));
            }
            if paths.is_empty() {
                paths = said(|it| matches!(it, Expected::Bound(_)));
            }
            Some(Written { name: argument.name.clone(), values, paths })
        };
        let mut written: Vec<Written> =
            self.arguments.iter().chain(&self.with).map(write).collect::<Option<_>>()?;
        // They only make the target do what is simulated.
        written[self.arguments.len()..].iter_mut().for_each(|written| written.paths.truncate(1));
        Some(written)
    }

    /// Paths of the settings that are not those of the row.
    fn mismatches(&self, settings: Lookup<'_>) -> impl Iterator<Item = &str> {
        let differs = move |(path, expected): &&(String, Expected)| {
            let value = settings(path);
            !match expected {
                Expected::Bound(_) | Expected::Map => value.is_some(),
                Expected::Implied(wanted) | Expected::Condition(wanted) => {
                    value.is_none_or(|value| same(&value, wanted))
                }
                Expected::Literal(wanted) => value.is_some_and(|value| same(&value, wanted)),
                Expected::ConditionAbsent | Expected::Absent => value.is_none(),
                Expected::EqualTo(other) => value.is_none() || value == settings(other),
                Expected::Computed(_) | Expected::Anything => true,
            }
        };
        self.settings.iter().filter(differs).map(|(path, _)| path.as_str())
    }

    fn read(
        &self,
        given: &[(&str, Vec<&str>)],
        settings: Lookup<'_>,
        conversions: Conversions,
    ) -> Option<Vec<Setting>> {
        let position = |name: &str| given.iter().position(|(given, _)| *given == name);
        let holds = |(path, expected): &(String, Expected)| match expected {
            Expected::Condition(wanted) => settings(path).is_none_or(|value| same(&value, wanted)),
            Expected::ConditionAbsent => settings(path).is_none(),
            _ => true,
        };
        if self.arguments.len() != given.len() || !self.settings.iter().all(holds) {
            return None;
        }
        let mut bound = BTreeMap::new();
        for argument in &self.arguments {
            let at = position(&argument.name)?;
            argument.bind(&given[at].1, settings, conversions, &mut |name, value| {
                bound.insert(name, (value, at));
            })?;
        }
        let first = self.arguments.first().and_then(|argument| position(&argument.name));
        let say = |(path, expected): &(String, Expected)| {
            let (value, argument) = match expected {
                Expected::Bound(name) => {
                    let (value, at) = bound.get(name.as_str())?;
                    (value.clone(), Some(*at))
                }
                Expected::Literal(value) => (value.clone(), first),
                Expected::Map => (Json::Object(Map::new()), first),
                Expected::Computed(name) => ((conversions(name)?.value)(&[], settings)?, None),
                _ => return None,
            };
            Some(Setting { path: path.clone(), value, argument })
        };
        Some(self.settings.iter().filter_map(say).collect())
    }
}

impl Row {
    /// Its arguments as somebody would write them.
    pub(super) fn shown(&self) -> String {
        self.arguments.iter().map(Argument::shown).collect::<Vec<_>>().join(" ")
    }
}

impl Argument {
    /// Binds values to names. `None`: they are not those of the patterns.
    fn bind<'s>(
        &'s self,
        given: &[&str],
        settings: Lookup<'_>,
        conversions: Conversions,
        bind: &mut dyn FnMut(&'s str, Json),
    ) -> Option<()> {
        let mut left = given;
        for pattern in &self.values {
            let taken = match pattern {
                Pattern::Hole { all: true, .. } => left.len(),
                _ => 1,
            };
            let (now, rest) = left.split_at_checked(taken)?;
            left = rest;
            match pattern {
                Pattern::Word(word) => (same_word(now[0], word)).then_some(())?,
                Pattern::Example(_) => {}
                Pattern::Hole { name, conversion, .. } => bind(
                    name,
                    match conversion {
                        Some(conversion) => (conversions(conversion)?.value)(now, settings)?,
                        None => scalar(now[0]),
                    },
                ),
            }
        }
        left.is_empty().then_some(())
    }

    fn shown(&self) -> String {
        let mut shown = self.name.clone();
        for value in &self.values {
            let _ = match value {
                Pattern::Word(word) | Pattern::Example(word) => write!(shown, " {word}"),
                Pattern::Hole { all: false, .. } => write!(shown, " VALUE"),
                Pattern::Hole { all: true, .. } => write!(shown, " VALUES"),
            };
        }
        shown
    }
}

/// True for values that mean the same: `1`, `1.0` and `100 %`; maps and lists part by part.
pub(super) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Object(first), Json::Object(second)) => {
            first.len() == second.len()
                && first.iter().all(|(key, a)| second.get(key).is_some_and(|b| same(a, b)))
        }
        (Json::Array(first), Json::Array(second)) => {
            first.len() == second.len() && first.iter().zip(second).all(|(a, b)| same(a, b))
        }
        _ => a == b || plain(a).zip(plain(b)).is_some_and(|(a, b)| same_meaning(&a, &b)),
    }
}

/// True for equal words and equal numbers (`0` and `0.0`).
fn same_word(a: &str, b: &str) -> bool {
    let equal = |a: f64, b: f64| a.total_cmp(&b).is_eq();
    a == b || a.parse().ok().zip(b.parse().ok()).is_some_and(|(a, b)| equal(a, b))
}

/// A scalar as a word.
pub(super) fn plain(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(value) => Some(value.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// A word as the scalar that it looks like.
pub(super) fn scalar(word: &str) -> Json {
    let integer = word.parse::<i64>().map(Json::from).ok();
    let float = || word.parse::<f64>().ok().filter(|number| number.is_finite()).map(Json::from);
    integer.or_else(float).unwrap_or_else(|| Json::from(word))
}

impl TryFrom<IndexMap<String, Json>> for Rule {
    type Error = String;

    fn try_from(mut written: IndexMap<String, Json>) -> Result<Self, String> {
        let remedy = written.shift_remove("remedy").and_then(|text| plain(&text));
        let rows = written.into_iter().map(|(key, settings)| Row::parse(&key, settings));
        let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        let arguments = rows.iter().flat_map(|row| &row.arguments);
        let names = arguments.map(|argument| argument.name.clone()).collect();
        Ok(Self { rows, names, remedy })
    }
}

impl Row {
    fn parse(key: &str, settings: Json) -> Result<Self, String> {
        let (reads_only, key) = key.strip_prefix("< ").map_or((false, key), |key| (true, key));
        let (key, with) = key.split_once(" + ").unwrap_or((key, ""));
        let Json::Object(settings) = settings else {
            return Err(format!("`{key}` means a map of settings"));
        };
        let settings = settings.into_iter().map(|(path, value)| (path, Expected::parse(value))).collect();
        Ok(Self { arguments: arguments(key)?, with: arguments(with)?, settings, reads_only })
    }
}

fn arguments(text: &str) -> Result<Vec<Argument>, String> {
    let mut arguments: Vec<Argument> = Vec::new();
    for word in text.split_whitespace() {
        match arguments.last_mut() {
            Some(last) if !is_name(word) => last.values.push(Pattern::parse(word)),
            None if !is_name(word) => return Err(format!("`{word}` belongs to no argument")),
            _ => arguments.push(Argument { name: word.to_owned(), values: Vec::new() }),
        }
    }
    Ok(arguments)
}

/// True for the name of an argument, rather than a value.
pub(super) fn is_name(word: &str) -> bool {
    word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

impl Pattern {
    fn parse(word: &str) -> Self {
        let Some(inner) = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            return Self::Word(word.to_owned());
        };
        if let Some(example) = inner.strip_prefix("_=") {
            return Self::Example(example.to_owned());
        }
        let (inner, all) = inner.strip_suffix("...").map_or((inner, false), |inner| (inner, true));
        let (name, conversion) = match inner.split_once(':') {
            Some((name, conversion)) => (name, Some(conversion.to_owned())),
            None => (inner, None),
        };
        Self::Hole { name: name.to_owned(), conversion, all }
    }
}

impl Expected {
    fn parse(value: Json) -> Self {
        let Json::String(text) = &value else {
            let is_map = value.as_object().is_some_and(Map::is_empty);
            return if is_map { Self::Map } else { Self::Literal(value) };
        };
        let typed = |text: &str| match text {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            text => scalar(text),
        };
        match (text.as_str(), text.chars().next()) {
            ("-", _) => Self::Absent,
            ("?-", _) => Self::ConditionAbsent,
            ("*", _) => Self::Anything,
            (text, Some('~')) => Self::Implied(typed(&text[1..])),
            (text, Some('?')) => Self::Condition(typed(&text[1..])),
            (text, Some('=')) => Self::EqualTo(text[1..].to_owned()),
            (text, Some('!')) => Self::Computed(text[1..].to_owned()),
            (text, Some('{')) => Self::Bound(text.trim_matches(['{', '}']).to_owned()),
            _ => Self::Literal(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(text: &str) -> Rule {
        serde_yaml::from_str(text).expect("a rule")
    }

    fn no_conversions(_: &str) -> Option<Conversion> {
        None
    }

    fn written(rule: &Rule, settings: &Json) -> Option<String> {
        let lookup = |path: &str| settings.get(path).cloned();
        let written = rule.write(&lookup, no_conversions)?;
        let words = written.into_iter().flat_map(|it| [vec![it.name], it.values].concat());
        Some(words.collect::<Vec<_>>().join(" "))
    }

    fn read(rule: &Rule, words: &str) -> Option<Json> {
        let arguments = arguments(words).expect("arguments");
        let values = |it: &Argument| it.shown().split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>();
        let owned: Vec<_> = arguments.iter().map(|it| (it.name.clone(), values(it))).collect();
        let given: Vec<(&str, Vec<&str>)> = owned
            .iter()
            .map(|(name, values)| (name.as_str(), values.iter().map(String::as_str).collect()))
            .collect();
        let settings = rule.read(&given, &|_| None, no_conversions)?;
        Some(Json::Object(settings.into_iter().map(|it| (it.path, it.value)).collect()))
    }

    #[test]
    fn a_rule_is_read_in_both_directions() {
        let both = rule("{ '--a {n} --b': { x: '{n}', y: true }, '--a {n}': { x: '{n}' }, '': { x: '~1' } }");
        for (words, settings) in
            [("--a 7 --b", json!({ "x": 7, "y": true })), ("--a 7", json!({ "x": 7, "y": false }))]
        {
            assert_eq!(written(&both, &settings).as_deref(), Some(words));
            let found = read(&both, words).expect("a row");
            assert_eq!(found["x"], settings["x"]);
        }
        assert_eq!(written(&both, &json!({ "x": 1 })).as_deref(), Some("--a 1"));
        assert_eq!(read(&both, ""), Some(json!({})));
    }

    #[test]
    fn arguments_without_a_row_contradict_each_other() {
        let precision = rule("{ '--fp16': { p: fp16 }, '--bf16': { p: bf16 } }");
        assert_eq!(read(&precision, "--fp16"), Some(json!({ "p": "fp16" })));
        assert_eq!(read(&precision, "--fp16 --bf16"), None);
        assert_eq!(read(&precision, ""), None);
        assert_eq!(written(&precision, &json!({ "p": "fp32" })), None);
    }

    #[test]
    fn rows_that_are_only_read_are_not_written() {
        let dropout = rule("{ '--d 0': { x: false }, '--d {_=0.1}': { x: true }, '< ': { x: true } }");
        assert_eq!(written(&dropout, &json!({ "x": true })).as_deref(), Some("--d 0.1"));
        assert_eq!(read(&dropout, "--d 0.0"), Some(json!({ "x": false })));
        assert_eq!(read(&dropout, "--d 0.2"), Some(json!({ "x": true })));
        assert_eq!(read(&dropout, ""), Some(json!({ "x": true })));
    }
}
