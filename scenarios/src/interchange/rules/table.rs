//! The table of a target: its rules, and all names of its arguments.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;

use super::Rule;
use super::values::same_word;
use crate::interchange::releases::Releases;

/// The rules of a target, and all names of its arguments.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Document")]
pub(in crate::interchange) struct Table {
    pub(in crate::interchange) rules: Vec<Rule>,
    /// Settings that describe where and how a plan is simulated; a target has no word for them.
    pub(in crate::interchange) beside: Vec<String>,
    /// Settings whose meaning other settings of a resolved scenario spell out.
    pub(in crate::interchange) spelled: Vec<String>,
    /// Values that absent settings mean.
    pub(in crate::interchange) absent: BTreeMap<String, Json>,
    /// Settings that no file of the target says, and that an import needs; with an option that does.
    pub(in crate::interchange) needed: IndexMap<String, String>,
    /// Keys whose values are texts, whatever they look like.
    pub(in crate::interchange) texts: BTreeSet<String>,
    /// Keys whose values are lists.
    pub(in crate::interchange) lists: BTreeSet<String>,
    /// Values by which keys say nothing more than without them.
    pub(in crate::interchange) defaults: BTreeMap<String, String>,
    /// Names of releases, where they differ.
    pub(in crate::interchange) releases: Releases,
    /// Arguments by name; `section.*` stands for the other keys of a section.
    names: BTreeMap<String, Meaning>,
}

/// Effect of an argument on a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::interchange) enum Meaning {
    /// Settings, by a rule.
    Settings,
    /// None, for this reason.
    Ignored(String),
    /// The step changes in a way that scenarios cannot say; with a remedy.
    Unsupported(String),
    /// Another release has it; with a remedy.
    OtherRelease(String),
}

/// A table as it is written; names outside rules are without `prefix`.
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
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    needed: IndexMap<String, String>,
    #[serde(default)]
    texts: BTreeSet<String>,
    #[serde(default)]
    lists: BTreeSet<String>,
    #[serde(default)]
    defaults: BTreeMap<String, String>,
    #[serde(default)]
    releases: Releases,
}

impl Table {
    /// The effect of an argument. `None`: the target has no such argument.
    pub(in crate::interchange) fn meaning(&self, name: &str) -> Option<&Meaning> {
        let sections = name.rmatch_indices('.').map(|(at, _)| format!("{}.*", &name[..at]));
        self.names.get(name).or_else(|| sections.into_iter().find_map(|section| self.names.get(&section)))
    }

    /// True for a key with the value that it has by default; an empty list is an empty word.
    pub(in crate::interchange) fn is_default(&self, name: &str, values: &[String]) -> bool {
        let value = match values {
            [] => "",
            [only] => only,
            _ => return false,
        };
        self.defaults.get(name).is_some_and(|default| same_word(value, default))
    }

    /// Names of arguments that are known one by one.
    pub(in crate::interchange) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }
}

impl TryFrom<Document> for Table {
    type Error = String;

    fn try_from(document: Document) -> Result<Self, String> {
        let Document { rules, ignored, unsupported, renamed, prefix, .. } = document;
        let of_rules = rules.iter().flat_map(|rule| &rule.names);
        let of_rules = of_rules.map(|name| (name.clone(), Meaning::Settings));
        let ignored = ignored.into_iter().flat_map(|(reason, names)| {
            names.into_iter().map(move |name| (name, Meaning::Ignored(reason.clone())))
        });
        let unsupported = unsupported.into_iter().map(|(name, remedy)| (name, Meaning::Unsupported(remedy)));
        let renamed = renamed.into_iter().map(|(name, remedy)| (name, Meaning::OtherRelease(remedy)));
        let others = ignored.chain(unsupported).chain(renamed);
        let others = others.map(|(name, meaning)| (format!("{prefix}{name}"), meaning));
        let mut names = BTreeMap::new();
        for (name, meaning) in of_rules.chain(others) {
            if names.insert(name.clone(), meaning).is_some() {
                return Err(format!("`{name}` is there twice"));
            }
        }
        let Document { beside, spelled, absent, needed, texts, lists, defaults, releases, .. } = document;
        Ok(Self { rules, beside, spelled, absent, needed, texts, lists, defaults, releases, names })
    }
}
