//! Markdown page of all keys, made of the JSON Schema.
//!
//! Each top-level key has a section. A type has one subsection, where it is first reached, titled by the path of keys
//! that leads there; other places link to it. Quantities, which only differ in their units, share a table at the end.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use super::document;

const INTRODUCTION: &str = "\
# Reference of all keys

<!-- Generated. Renew it: RENEW=1 cargo test --release -p scenarios --test integration schema -->

This page lists every key that a scenario file can have. `foretrain schema --format markdown` prints it; \
`foretrain schema` prints the same as a JSON Schema, with which editors complete keys and mark mistakes. \
`foretrain show FILE --explain parallelism.schedule` explains one setting of a file.

Values link to what they can be. A *map* has the keys of its own table. Where a key has no default, the word `none` \
removes a value that a file inherits.
";

/// Forms of citations, which the schema repeats.
const PUBLISHED: &str = "
Forms are those of [`expect`](#expect). Each needs `source`, too: where the figure was published.
";

/// Title of the table of quantities.
const QUANTITIES: &str = "Quantities";
/// Definition of the settings of a variant: the keys of the file itself.
const SETTINGS: &str = "Settings";
/// Words of a choice that are named where it is linked to.
const WORDS_MAX: usize = 6;

/// Markdown page of every key of a scenario file, with tables of values and links between types.
pub fn reference() -> String {
    let document = document::with_references();
    let mut page = Page { definitions: objects(&document, "definitions"), titles: BTreeMap::new() };
    let keys = objects(&document, "properties");
    let mut text = INTRODUCTION.to_owned();
    let sections: Vec<(&str, Vec<&str>)> =
        keys.iter().map(|(key, schema)| (key.as_str(), page.place(key, schema))).collect();
    for (key, types) in sections {
        text += &format!("\n## `{key}`\n\n{}\n", page.described(&keys[key]));
        text += &if key == "published" { PUBLISHED.to_owned() } else { page.body(&keys[key]) };
        for name in types {
            let schema = &page.definitions[name];
            if page.titles[name] != key {
                text += &format!("\n### `{}`\n", page.titles[name]);
                text += &paragraph(schema);
            }
            text += &page.body(schema);
        }
    }
    text + &page.quantities()
}

/// Definitions of a schema, and where on the page each is.
struct Page<'a> {
    definitions: &'a Map<String, Json>,
    /// Paths of keys that lead to definitions.
    titles: BTreeMap<&'a str, String>,
}

impl<'a> Page<'a> {
    /// Titles all definitions that are reached from `schema` and have no title yet; their names, those near `path` first.
    fn place(&mut self, path: &str, schema: &'a Json) -> Vec<&'a str> {
        let definitions = self.definitions;
        let (mut found, mut fresh) = (Vec::new(), Vec::new());
        self.targets(path, schema, &mut found);
        for (name, path) in found {
            if self.titles.contains_key(name) {
                continue;
            }
            // Of two types of one key the second is told apart by its name.
            let taken = self.titles.values().any(|title| *title == path);
            let title = if taken { format!("{path} ({})", spaced(name)) } else { path.clone() };
            self.titles.insert(name, title);
            fresh.push((name, path));
        }
        let below = |(name, path): (&'a str, String)| {
            let mut placed = vec![name];
            placed.extend(self.place(&path, &definitions[name]));
            placed
        };
        fresh.into_iter().flat_map(below).collect()
    }

    /// Definitions that a schema refers to itself, with the path of each.
    fn targets(&self, path: &str, schema: &'a Json, found: &mut Vec<(&'a str, String)>) {
        if let Some(name) = target(schema) {
            match &self.definitions[name] {
                simple if is_simple(simple) => self.targets(path, simple, found),
                _ if name == SETTINGS => {}
                _ => found.push((name, path.to_owned())),
            }
            return;
        }
        for form in forms(schema) {
            self.targets(path, form, found);
        }
        for (key, part) in objects(schema, "properties") {
            self.targets(&format!("{path}.{key}"), part, found);
        }
        for nested in ["items", "additionalProperties"] {
            if let Some(part) = schema.get(nested) {
                self.targets(path, part, found);
            }
        }
    }

    /// Tables of a type: its keys, or the values that it can be.
    fn body(&self, schema: &Json) -> String {
        if target(schema).is_some() {
            return String::new();
        }
        if !objects(schema, "properties").is_empty() {
            return self.keys(schema);
        }
        if let Some(items) = schema.get("items").filter(|items| !forms(items).is_empty()) {
            let tables = forms(items).into_iter().map(|form| paragraph(form) + &self.keys(form));
            return tables.collect();
        }
        let choices = forms(schema);
        if choices.iter().any(|choice| choice.get("description").is_some()) {
            return table(["value", "meaning"], choices.into_iter().flat_map(|choice| self.choice(choice)));
        }
        format!("\nValue: {}.{}\n", self.value(schema), for_example(schema))
    }

    fn keys(&self, schema: &Json) -> String {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        let rows = objects(schema, "properties").iter().map(|(key, part)| {
            let needed = if required.contains(&key.as_str()) { " Needed." } else { "" };
            let default = match part.get("default") {
                Some(Json::Object(_)) | None => String::new(),
                Some(Json::String(word)) => format!(" Default: `{word}`."),
                Some(value) => format!(" Default: `{value}`."),
            };
            [format!("`{key}`"), self.value(part), format!("{}{needed}{default}", self.described(part))]
        });
        table(["key", "value", "meaning"], rows)
    }

    /// Rows of one form of a choice: a word, a word with options, or something else.
    fn choice(&self, choice: &Json) -> Vec<[String; 2]> {
        let options = objects(choice, "properties").iter();
        let values: Vec<String> =
            options.map(|(word, part)| format!("`{word}:` {}", self.value(part))).collect();
        let values = if values.is_empty() { vec![self.value(choice)] } else { values };
        values.into_iter().map(|value| [value, self.described(choice)]).collect()
    }

    /// Description of a key, and that of its type where this has no place of its own.
    fn described(&self, schema: &Json) -> String {
        let own = description(schema);
        let bare = forms(schema).into_iter().find(|form| !is_none(form)).unwrap_or(schema);
        let Some(name) = target(bare) else { return own };
        let definition = &self.definitions[name];
        if own.is_empty() || (is_simple(definition) && unit(definition).is_none()) {
            return format!("{own} {}{}", description(definition), for_example(definition)).trim().to_owned();
        }
        own
    }

    /// Values of a key, in words with links.
    fn value(&self, schema: &Json) -> String {
        if let Some(name) = target(schema) {
            return self.link(name);
        }
        let choices: Vec<&Json> = forms(schema).into_iter().filter(|form| !is_none(form)).collect();
        if !choices.is_empty() {
            return choices.iter().map(|form| self.value(form)).collect::<Vec<_>>().join(" or ");
        }
        if let Some(words) = schema.get("enum").and_then(Json::as_array) {
            return words.iter().map(code).collect::<Vec<_>>().join(", ");
        }
        if let Some(word) = schema.get("const") {
            return code(word);
        }
        if let Some(word) = pattern(schema).filter(|text| text.chars().all(char::is_alphanumeric)) {
            return format!("`{word}`");
        }
        let of = |key: &str| schema.get(key).filter(|part| part.is_object()).map(|part| self.value(part));
        match schema.get("type").and_then(Json::as_str) {
            Some("array") => of("items").map_or_else(
                || "list".to_owned(),
                |items| format!("list of {}", items.replacen("whole number", "whole numbers", 1)),
            ),
            Some("object") => of("additionalProperties")
                .map_or_else(|| "map".to_owned(), |values| format!("map of names to {values}")),
            Some("integer") => whole(schema),
            Some(kind) => plain(kind).unwrap_or(kind).to_owned(),
            None => schema.get("type").and_then(Json::as_array).map_or_else(
                || "any".to_owned(),
                |kinds| {
                    kinds.iter().filter_map(|kind| plain(kind.as_str()?)).collect::<Vec<_>>().join(" or ")
                },
            ),
        }
    }

    fn link(&self, name: &str) -> String {
        let schema = &self.definitions[name];
        if name == SETTINGS {
            return "map of settings, the keys of this page from [`machine`](#machine) on".to_owned();
        }
        if unit(schema).is_some() {
            return format!("[{}](#{})", spaced(name), anchor(QUANTITIES));
        }
        if is_simple(schema) {
            return self.value(schema);
        }
        let words: Vec<String> = forms(schema)
            .into_iter()
            .flat_map(|form| match form.get("const") {
                Some(word) => vec![code(word)],
                None => objects(form, "properties").keys().map(|key| format!("`{key}`")).collect(),
            })
            .collect();
        let text = match words.len() {
            0 => "map".to_owned(),
            count if count > WORDS_MAX => format!("{}, ...", words[..WORDS_MAX].join(", ")),
            _ => words.join(", "),
        };
        format!("[{text}](#{})", anchor(&self.titles[name]))
    }

    fn quantities(&self) -> String {
        let units = self.definitions.iter().filter_map(|(name, schema)| {
            Some([spaced(name), format!("`{}`", unit(schema)?.replace(", ", "`, `")), examples(schema)])
        });
        format!(
            "\n## {QUANTITIES}\n\nA quantity is a number and a unit, with at most one space between them; case matters. \
             Counts and ratios have no unit.\n{}",
            table(["quantity", "units", "example"], units)
        )
    }
}

/// Entries of an object of a schema; none where it has no such object.
fn objects<'a>(schema: &'a Json, key: &str) -> &'a Map<String, Json> {
    static NONE: LazyLock<Map<String, Json>> = LazyLock::new(Map::new);
    schema.get(key).and_then(Json::as_object).unwrap_or(&NONE)
}

/// Forms of a choice.
fn forms(schema: &Json) -> Vec<&Json> {
    ["oneOf", "anyOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten().collect()
}

/// Name of the definition that a schema is, apart from its own description.
fn target(schema: &Json) -> Option<&str> {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?;
    reference.as_str()?.rsplit('/').next()
}

/// True if a type needs no table: it is a quantity, or plain values in words.
fn is_simple(schema: &Json) -> bool {
    let told = |form: &&Json| form.get("description").is_some();
    objects(schema, "properties").is_empty() && !forms(schema).iter().any(told)
}

/// Plain word for a type of JSON.
fn plain(kind: &str) -> Option<&'static str> {
    match kind {
        "number" => Some("number"),
        "boolean" => Some("`true`, `false`"),
        "string" => Some("text"),
        "object" => Some("map"),
        _ => None,
    }
}

/// Units of a quantity.
fn unit(schema: &Json) -> Option<&str> {
    let (_, units) = schema.get("description")?.as_str()?.split_once("; units: ")?;
    Some(units.trim_end_matches('.'))
}

/// Pattern of a text, without its anchors.
fn pattern(schema: &Json) -> Option<&str> {
    schema.get("pattern")?.as_str()?.strip_prefix('^')?.strip_suffix('$')
}

fn is_none(form: &Json) -> bool {
    pattern(form) == Some("none")
}

fn description(schema: &Json) -> String {
    schema.get("description").and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn paragraph(schema: &Json) -> String {
    let text = description(schema);
    if text.is_empty() { text } else { format!("\n{text}\n") }
}

fn for_example(schema: &Json) -> String {
    let examples = examples(schema);
    if examples.is_empty() { examples } else { format!(" For example {examples}.") }
}

fn examples(schema: &Json) -> String {
    let all = schema.get("examples").and_then(Json::as_array).into_iter().flatten();
    all.map(code).collect::<Vec<_>>().join(", ")
}

/// Limits of a whole number.
fn whole(schema: &Json) -> String {
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => format!("whole number, {least} to {most}"),
        (Some(least), None) => format!("whole number from {least} on"),
        _ => "whole number".to_owned(),
    }
}

/// A value as a file says it.
fn code(value: &Json) -> String {
    format!("`{}`", flow(value))
}

fn flow(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Json::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{key}: {}", flow(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// Words of a type's name.
fn spaced(name: &str) -> String {
    let apart = |letter: char| {
        if letter.is_uppercase() { format!(" {}", letter.to_lowercase()) } else { letter.to_string() }
    };
    name.chars().map(apart).collect::<String>().trim_start().to_owned()
}

/// Fragment that browsers go to for a heading, as mdBook and GitHub name it.
fn anchor(title: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || "_- ".contains(*letter);
    title.to_lowercase().chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn table<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rows = rows.map(|cells| line(&cells.map(|cell| cell.replace('|', "\\|").replace("\n\n", " "))));
    let head = line(&heads.map(str::to_owned));
    format!("\n{head}{}{}", line(&heads.map(|_| "---".to_owned())), rows.collect::<String>())
}
