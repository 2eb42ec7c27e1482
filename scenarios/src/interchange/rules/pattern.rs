//! Patterns of arguments and of settings in the rows of a table.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use super::values::{same_word, scalar};
use super::{Conversions, Lookup};

/// The word by which DeepSpeed leaves a value to its caller: no value that a hole could take.
pub(in crate::interchange) const AUTO: &str = "auto";

/// An argument and patterns of its values.
#[derive(Debug)]
pub(in crate::interchange) struct Argument {
    pub(in crate::interchange) name: String,
    pub(super) values: Vec<Pattern>,
}

/// A value of an argument.
#[derive(Debug)]
pub(super) enum Pattern {
    Word(String),
    Example(String),
    Hole { name: String, conversion: Option<String>, all: bool },
}

/// A value of a setting.
#[derive(Debug)]
pub(super) enum Expected {
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

impl Argument {
    /// Binds values to names. `None`: they are not those of the patterns.
    pub(super) fn bind<'s>(
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
                _ if now == [AUTO] => return None,
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

    /// As somebody would write it.
    pub(super) fn shown(&self) -> String {
        let is_key = is_key(&self.name);
        let mut shown = self.name.clone();
        for (at, value) in self.values.iter().enumerate() {
            shown.push(match at {
                0 if is_key => '=',
                _ if is_key => ',',
                _ => ' ',
            });
            let _ = match value {
                Pattern::Word(word) | Pattern::Example(word) => write!(shown, "{word}"),
                Pattern::Hole { all: false, .. } => write!(shown, "VALUE"),
                Pattern::Hole { all: true, .. } => write!(shown, "VALUES"),
            };
        }
        shown
    }
}

/// Arguments of a key: `--name value`, or of documents `section.key=value`.
pub(super) fn arguments(text: &str) -> Result<Vec<Argument>, String> {
    let mut arguments: Vec<Argument> = Vec::new();
    for word in text.split_whitespace() {
        let key = word.split_once('=').filter(|(name, _)| is_key(name));
        match (key, arguments.last_mut()) {
            (Some((name, value)), _) => {
                let values = Some(value).filter(|value| !value.is_empty()).map(Pattern::parse);
                arguments.push(Argument { name: name.to_owned(), values: values.into_iter().collect() });
            }
            (None, Some(last)) if !is_name(word) => last.values.push(Pattern::parse(word)),
            (None, None) if !is_name(word) => return Err(format!("`{word}` belongs to no argument")),
            _ => arguments.push(Argument { name: word.to_owned(), values: Vec::new() }),
        }
    }
    Ok(arguments)
}

/// True for the path of a key in a document.
fn is_key(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
}

/// True for the name of an argument, rather than a value.
pub(in crate::interchange) fn is_name(word: &str) -> bool {
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
    pub(super) fn is_condition(&self) -> bool {
        matches!(self, Self::Condition(_) | Self::ConditionAbsent)
    }

    pub(super) fn parse(value: Json) -> Self {
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
