//! The schema as something to ask: which keys a place has, whether it is a choice, what would be valid there.
//!
//! All answers come from the JSON Schema of [`Scenario`](super::Scenario), so that types, editor support, paths,
//! merging and error messages cannot disagree.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::document;
use crate::text::node::{Entry, Map, Node, Value};
use crate::text::source::Mark;

/// A place in the schema: a setting, a choice, or an item of a list.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a>(&'a Json);

static SCENARIO: LazyLock<Json> = LazyLock::new(document::of::<super::Scenario>);
static FILE: LazyLock<Json> = LazyLock::new(document::file);

impl Shape<'static> {
    /// A whole file: the settings, and beside them `variants`, `sweep`, `expect` and so on.
    pub fn file() -> Self {
        Self(&FILE)
    }

    /// The settings of a scenario: `model`, `training`, and so on.
    pub(crate) fn scenario() -> Self {
        Self(&SCENARIO)
    }
}

impl<'a> Shape<'a> {
    /// A place in another schema, which must not refer to anything.
    pub(crate) fn of(schema: &'a Json) -> Self {
        Self(schema)
    }

    /// The schema of the place.
    pub(crate) fn json(self) -> &'a Json {
        self.0
    }

    /// The place at `path` (keys, tags and list indices).
    pub fn at<S: AsRef<str>>(self, path: &[S]) -> Option<Self> {
        path.iter().try_fold(self, |shape, key| shape.field(key.as_ref()))
    }

    /// The place under a key or a tag, under any name of a map of named things, or of any item of a list.
    pub(crate) fn field(self, key: &str) -> Option<Self> {
        self.forms().find_map(|Self(form)| {
            let field = match (form.get("properties"), form.get("additionalProperties")) {
                (Some(properties), _) => properties.get(key),
                (None, Some(named)) => Some(named).filter(|named| named.is_object()),
                _ => form.get("items").filter(|_| key.bytes().all(|byte| byte.is_ascii_digit())),
            };
            field.map(Self)
        })
    }

    /// The key that a bare text stands for where a map could be: `node: dgx-a100-80g` is `node: { name: dgx-a100-80g }`.
    pub(crate) fn short_for(self) -> Option<&'a str> {
        let is_text = |Self(form): Self| form.get("type").and_then(Json::as_str) == Some("string");
        if !self.forms().any(is_text) {
            return None;
        }
        self.forms().find_map(|Self(form)| form.get("required")?.get(0)?.as_str())
    }

    /// The keys of a map, or the tags and bare words of a choice.
    pub fn names(self) -> Vec<&'a str> {
        self.described().into_iter().map(|(name, _)| name).collect()
    }

    /// The same with the documentation of each: a choice is documented by its form, a setting by itself.
    pub fn described(self) -> Vec<(&'a str, String)> {
        let mut described = Vec::new();
        for form in self.forms() {
            let words = form.0.get("enum").and_then(Json::as_array).into_iter().flatten();
            let words = words.chain(form.0.get("const")).filter_map(Json::as_str);
            described.extend(words.map(|word| (word, form.documentation())));
            for (key, field) in form.0.get("properties").and_then(Json::as_object).into_iter().flatten() {
                let told = if self.is_choice() { form } else { Self(field) };
                described.push((key.as_str(), told.documentation()));
            }
        }
        described
    }

    /// Whether the place holds one tag out of several, so that another tag replaces the whole value.
    pub fn is_choice(self) -> bool {
        self.0.get("oneOf").is_some()
    }

    /// Whether a map at this place may lack `key`.
    pub(crate) fn is_optional(self, key: &str) -> bool {
        let required = self.forms().filter_map(|Self(form)| form.get("required")?.as_array()).flatten();
        required.into_iter().all(|name| name.as_str() != Some(key))
    }

    /// What it means, on one line; empty where the schema does not say.
    pub fn documentation(self) -> String {
        self.description().replace('\n', " ")
    }

    /// The first sentence of the documentation, for use inside a sentence.
    pub(crate) fn title(self) -> String {
        let text = self.description();
        let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
        let sentence = sentence.split("\n\n").next().unwrap_or("");
        uncapitalised(sentence.trim_end_matches('.'))
    }

    /// A valid value as it would be written.
    pub(crate) fn example(self) -> String {
        self.sample(Mark::nowhere()).map_or_else(|| "...".to_owned(), |node| written(&node.value))
    }

    /// A valid value, said to stand at `mark`.
    pub(crate) fn sample(self, mark: Mark) -> Option<Node> {
        let Self(here) = self;
        let word = |json: &Json| plain_value(json, mark).map(|value| Node::new(mark, value));
        if let Some(example) = here.get("examples").and_then(|examples| examples.get(0)) {
            return word(example);
        }
        if let Some(only) = here.get("const").or_else(|| here.get("enum").and_then(|all| all.get(0))) {
            return word(only);
        }
        if let Some(first) = self.forms().next().filter(|first| !std::ptr::eq(first.0, here)) {
            return first.sample(mark);
        }
        match here.get("type").and_then(Json::as_str)? {
            "object" => {
                let required = here.get("required").and_then(Json::as_array).into_iter().flatten();
                let mut map = Map::new();
                for key in required.filter_map(Json::as_str) {
                    map.insert(key.to_owned(), Entry { key: mark, node: self.field(key)?.sample(mark)? });
                }
                Some(Node::new(mark, Value::Map(map)))
            }
            "array" => Some(Node::new(mark, Value::List(Vec::new()))),
            "string" => Some(Node::new(mark, Value::Text("text".to_owned()))),
            "boolean" => Some(Node::new(mark, Value::Bool(true))),
            _ => None,
        }
    }

    fn description(self) -> &'a str {
        self.0.get("description").and_then(Json::as_str).unwrap_or_default()
    }

    /// The forms that a value may take here; itself for most places. Forms within forms are one
    /// list.
    fn forms(self) -> Box<dyn Iterator<Item = Self> + 'a> {
        match self.0.get("oneOf").or_else(|| self.0.get("anyOf")).and_then(Json::as_array) {
            Some(forms) => Box::new(forms.iter().flat_map(|form| Self(form).forms())),
            None => Box::new(std::iter::once(self)),
        }
    }
}

/// A value of the schema.
fn plain_value(json: &Json, mark: Mark) -> Option<Value> {
    match json {
        Json::String(text) => Some(Value::Text(text.clone())),
        Json::Number(number) => number.as_i64().map(|number| Value::Integer(number.into())),
        Json::Array(items) => {
            let item = |json| plain_value(json, mark).map(|value| Node::new(mark, value));
            items.iter().map(item).collect::<Option<_>>().map(Value::List)
        }
        Json::Object(map) => {
            let entry = |(key, json): (&String, &Json)| {
                let node = Node::new(mark, plain_value(json, mark)?);
                Some((key.clone(), Entry { key: mark, node }))
            };
            map.iter().map(entry).collect::<Option<_>>().map(Value::Map)
        }
        _ => None,
    }
}

/// A sample in flow style.
fn written(value: &Value) -> String {
    match value {
        Value::Map(map) if map.is_empty() => "{}".to_owned(),
        Value::Map(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, entry)| format!("{key}: {}", written(&entry.node.value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.plain(),
    }
}

/// "Number of stages" as "number of stages", but "BPipe" as it is.
fn uncapitalised(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => first.to_lowercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}
