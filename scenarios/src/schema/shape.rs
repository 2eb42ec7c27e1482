//! The schema as something to ask: which keys a place has, whether it is a choice, what would be valid there.
//!
//! All answers come from the JSON Schema of [`Scenario`](super::Scenario), so that types, editor support, paths,
//! merging and error messages cannot disagree.

use std::sync::LazyLock;

use serde_json::Value as Json;

use crate::text::node::{Entry, Map, Node, Value};
use crate::text::source::Mark;

/// A place in the schema.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    root: &'a Json,
    here: &'a Json,
}

static SCENARIO: LazyLock<Json> = LazyLock::new(super::document::of::<super::Scenario>);

impl Shape<'static> {
    /// The settings of a scenario: `model`, `training`, and so on.
    pub(crate) fn scenario() -> Self {
        Self { root: &SCENARIO, here: &SCENARIO }
    }
}

impl<'a> Shape<'a> {
    /// A place in another schema than that of the settings.
    pub(crate) fn of(root: &'a Json) -> Self {
        Self { root, here: root }
    }

    /// The place at `path` (keys, tags and list indices).
    pub(crate) fn at<S: AsRef<str>>(self, path: &[S]) -> Option<Self> {
        path.iter().try_fold(self, |shape, key| shape.field(key.as_ref()))
    }

    /// The place under a key or a tag, or of any item of a list.
    pub(crate) fn field(self, key: &str) -> Option<Self> {
        self.alternatives().find_map(|here| {
            let field = match here.get("properties") {
                Some(properties) => properties.get(key),
                None => here.get("items").filter(|_| key.bytes().all(|byte| byte.is_ascii_digit())),
            };
            Some(Self { here: field?, ..self })
        })
    }

    /// The keys of a map, or the tags and bare words of a choice.
    pub(crate) fn names(self) -> Vec<&'a str> {
        let mut names = Vec::new();
        for here in self.alternatives() {
            let words = here.get("enum").and_then(Json::as_array).into_iter().flatten();
            names.extend(words.chain(here.get("const")).filter_map(Json::as_str));
            names.extend(
                here.get("properties")
                    .and_then(Json::as_object)
                    .into_iter()
                    .flat_map(|map| map.keys().map(String::as_str)),
            );
        }
        names
    }

    /// Whether the place holds one tag out of several, so that another tag replaces the whole value.
    pub(crate) fn is_choice(self) -> bool {
        self.resolved().get("oneOf").is_some()
    }

    /// Whether a map at this place may lack `key`.
    pub(crate) fn is_optional(self, key: &str) -> bool {
        let required =
            self.alternatives().filter_map(|here| here.get("required").and_then(Json::as_array)).flatten();
        required.into_iter().all(|name| name.as_str() != Some(key))
    }

    /// The first sentence of the documentation, for use inside a sentence.
    pub(crate) fn title(self) -> String {
        let text = [self.here, self.resolved()]
            .iter()
            .find_map(|here| here.get("description")?.as_str())
            .unwrap_or("");
        let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
        let sentence = sentence.split("\n\n").next().unwrap_or("").replace('\n', " ");
        uncapitalised(sentence.trim_end_matches('.'))
    }

    /// A valid value as it would be written.
    pub(crate) fn example(self) -> String {
        self.sample(Mark::nowhere()).map_or_else(|| "...".to_owned(), |node| written(&node.value))
    }

    /// A valid value, said to stand at `mark`.
    pub(crate) fn sample(self, mark: Mark) -> Option<Node> {
        let here = self.resolved();
        let word = |json: &Json| plain_value(json, mark).map(|value| Node::new(mark, value));
        if let Some(example) = here.get("examples").and_then(|examples| examples.get(0)) {
            return word(example);
        }
        if let Some(only) = here.get("const").or_else(|| here.get("enum").and_then(|all| all.get(0))) {
            return word(only);
        }
        if let Some(first) = self.alternatives().next().filter(|&first| !std::ptr::eq(first, here)) {
            return Self { here: first, ..self }.sample(mark);
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

    fn resolved(self) -> &'a Json {
        let mut here = self.here;
        // A description beside a reference makes schemars wrap the reference in `allOf`.
        while let Some(inner) = here.get("allOf").and_then(|all| all.get(0)).or_else(|| self.referred(here)) {
            here = inner;
        }
        here
    }

    fn referred(self, here: &Json) -> Option<&'a Json> {
        self.root.pointer(here.get("$ref")?.as_str()?.strip_prefix('#')?)
    }

    /// The forms a value may take here; one for most places.
    fn alternatives(self) -> impl Iterator<Item = &'a Json> {
        let here = self.resolved();
        let forms = here.get("oneOf").or_else(|| here.get("anyOf")).and_then(Json::as_array);
        let single = if forms.is_none() { Some(here) } else { None };
        forms.into_iter().flatten().map(move |form| Self { here: form, ..self }.resolved()).chain(single)
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
