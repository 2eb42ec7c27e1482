//! Tables of correspondences between arguments and settings, read in both directions.
//!
//! A rule is a list of rows, of which one holds. A row says which arguments mean which settings:
//!
//! ```yaml
//! - "--num-layers {n}": { model.transformer.layers: "{n}" }
//! - "zero_optimization.stage=1": { parallelism.sharding: optimizer }
//! - "--sequence-parallel": { parallelism.sequence_parallel: true }
//!   "": { parallelism.sequence_parallel: "~false" }
//! ```
//!
//! A list of settings stands for as many rows with the same arguments.
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
//! | `key=` | a key of a document; without a value: an empty list |
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
//!
//! A value that a conversion gives as null is not said. Conditions and conversions look up settings,
//! and behind an `@` facts of an import: `@release`, `@gpus`, and values of arguments. A row whose
//! conversions give nothing does not hold.
//! `note` is the reason for settings that an import assumes, or how they differ from the target.

mod pattern;
mod table;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use pattern::{Argument, Expected, Pattern, arguments};

pub(super) use pattern::{AUTO, is_name};
pub(super) use table::{Meaning, Table};
pub(super) use values::{plain, same, scalar};

/// Settings by path; `None`: absent.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<Json>;

/// A function pair between the value of a setting and the words of an argument. `None`: there is no
/// counterpart.
#[derive(Clone, Copy)]
pub(super) struct Conversion {
    pub(super) words: fn(&Json, Lookup<'_>) -> Option<Vec<String>>,
    pub(super) value: fn(&[&str], Lookup<'_>) -> Option<Json>,
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
    /// Reason for the settings, or how they differ from what the target does.
    note: Option<String>,
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

/// Settings that arguments mean.
#[derive(Debug)]
pub(super) struct Meant<'r> {
    pub(super) settings: Vec<Setting>,
    /// A note, and the setting that it is about.
    pub(super) note: Option<(&'r str, &'r str)>,
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
        let is_setting = |path: &&str| !path.starts_with('@');
        let mismatch = nearest.and_then(|row| row.mismatches(settings).find(is_setting));
        mismatch.or_else(|| self.paths().find(|path| settings(path).is_some())).unwrap_or_default()
    }

    /// The settings that arguments mean: names, each with its values. `None`: no row has this
    /// combination.
    pub(super) fn read(
        &self,
        given: &[(&str, Vec<&str>)],
        settings: Lookup<'_>,
        conversions: Conversions,
    ) -> Option<Meant<'_>> {
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

    /// Its rows as somebody would write them: those that an export has, or else all.
    pub(super) fn shown(&self) -> Vec<String> {
        let rows = || self.rows.iter().filter(|row| !row.arguments.is_empty());
        let written: Vec<String> = rows().filter(|row| !row.reads_only).map(Row::shown).collect();
        let mut shown = if written.is_empty() { rows().map(Row::shown).collect() } else { written };
        shown.dedup();
        shown
    }

    /// Path of the setting that an argument says by its value.
    pub(super) fn path_of(&self, name: &str) -> Option<&str> {
        self.rows.iter().find_map(|row| {
            let argument = row.arguments.iter().find(|argument| argument.name == name)?;
            let bound = |wanted: &str| {
                let is_bound =
                    |it: &&(String, Expected)| matches!(&it.1, Expected::Bound(by) if by == wanted);
                row.settings.iter().find(is_bound).map(|(path, _)| path.as_str())
            };
            argument.values.iter().find_map(|pattern| match pattern {
                Pattern::Hole { name, .. } => bound(name),
                Pattern::Word(_) | Pattern::Example(_) => None,
            })
        })
    }

    /// Paths of the settings that it writes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let written = |(path, expected): &'_ (String, Expected)| !expected.is_condition() && !path.is_empty();
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
    ) -> Option<Meant<'_>> {
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
        let computed = |(path, expected): &(String, Expected)| match expected {
            Expected::Computed(name) => {
                let value = (conversions(name)?.value)(&[], settings)?;
                Some((!value.is_null()).then(|| Setting { path: path.clone(), value, argument: None }))
            }
            _ => Some(None),
        };
        let computed: Vec<Option<Setting>> = self.settings.iter().map(computed).collect::<Option<_>>()?;
        let say = |(path, expected): &(String, Expected)| {
            let (value, argument) = match expected {
                Expected::Bound(name) => {
                    let (value, at) = bound.get(name.as_str())?;
                    (value.clone(), Some(*at))
                }
                Expected::Literal(value) => (value.clone(), first),
                Expected::Map => (Json::Object(Map::new()), first),
                _ => return None,
            };
            (!value.is_null()).then(|| Setting { path: path.clone(), value, argument })
        };
        let said =
            self.settings.iter().zip(computed).filter_map(|(it, computed)| computed.or_else(|| say(it)));
        let settings = said.collect();
        let is_said = |(_, expected): &&(String, Expected)| !expected.is_condition();
        let about = self.settings.iter().find(is_said).map_or("", |(path, _)| path);
        Some(Meant { settings, note: self.note.as_deref().map(|note| (about, note)) })
    }

    /// Its arguments as somebody would write them.
    pub(super) fn shown(&self) -> String {
        self.arguments.iter().map(Argument::shown).collect::<Vec<_>>().join(" ")
    }
}

impl TryFrom<IndexMap<String, Json>> for Rule {
    type Error = String;

    fn try_from(mut written: IndexMap<String, Json>) -> Result<Self, String> {
        let remedy = written.shift_remove("remedy").and_then(|text| plain(&text));
        let mut rows = Vec::new();
        for (key, settings) in written {
            let several = match settings {
                Json::Array(several) => several,
                one => vec![one],
            };
            for settings in several {
                rows.push(Row::parse(&key, settings)?);
            }
        }
        let arguments = rows.iter().flat_map(|row| &row.arguments);
        let names = arguments.map(|argument| argument.name.clone()).collect();
        Ok(Self { rows, names, remedy })
    }
}

impl Row {
    fn parse(key: &str, settings: Json) -> Result<Self, String> {
        let (reads_only, key) = key.strip_prefix("< ").map_or((false, key), |key| (true, key));
        let (key, with) = key.split_once(" + ").unwrap_or((key, ""));
        let Json::Object(mut settings) = settings else {
            return Err(format!("`{key}` means a map of settings"));
        };
        let note = settings.shift_remove("note").and_then(|note| plain(&note));
        let settings = settings.into_iter().map(|(path, value)| (path, Expected::parse(value))).collect();
        Ok(Self { arguments: arguments(key)?, with: arguments(with)?, settings, reads_only, note })
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
        let Meant { settings, .. } = rule.read(&given, &|_| None, no_conversions)?;
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
