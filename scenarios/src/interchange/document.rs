//! Keys of a document: JSON with comments as DeepSpeed reads it, or TOML as torchtitan does.

use std::collections::BTreeMap;

use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use toml_edit::{Document, Item, Key, TableLike};

use super::command::Given;
use super::rules::scalar;
use super::shell::Word;
use crate::text::node::shorten;
use crate::text::problem::Problem;
use crate::text::source::{Mark, SourceId};

/// Keys of JSON with their paths, a list as several values. Keys without a value are left out.
///
/// # Errors
/// Where the text is not JSON, and which keys it has twice.
pub(super) fn json(text: &str, source: SourceId) -> Result<Vec<Given>, Vec<Problem>> {
    Reader::new(text, source).keys(|reader| reader.json(text))
}

/// Keys of TOML with their paths, a list as several values.
///
/// # Errors
/// Where the text is not TOML, and lists of sections.
pub(super) fn toml(text: &str, source: SourceId) -> Result<Vec<Given>, Vec<Problem>> {
    Reader::new(text, source).keys(|reader| reader.toml(text))
}

struct Reader {
    places: Places,
    keys: Vec<Given>,
    problems: Vec<Problem>,
}

impl Reader {
    fn new(text: &str, source: SourceId) -> Self {
        Self { places: Places::new(text, source), keys: Vec::new(), problems: Vec::new() }
    }

    fn keys(mut self, read: impl FnOnce(&mut Self)) -> Result<Vec<Given>, Vec<Problem>> {
        read(&mut self);
        if self.problems.is_empty() { Ok(self.keys) } else { Err(self.problems) }
    }

    fn json(&mut self, text: &str) {
        let options = ParseOptions {
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_non_finite_numbers: false,
            ..ParseOptions::default()
        };
        match parse_to_ast(text, &CollectOptions::default(), &options).map(|parsed| parsed.value) {
            Ok(Some(ast::Value::Object(root))) => self.object("", &root),
            Ok(other) => {
                let at = other.map_or(0, |value| value.start());
                let problem = Problem::new(self.places.at(at), "the text is not a JSON object");
                self.problems
                    .push(problem.help("give a configuration: `{ \"train_batch_size\": 256, ... }`"));
            }
            Err(error) => {
                let problem =
                    Problem::new(self.places.at(error.range().start), uncapped(&error.kind().to_string()));
                self.problems
                    .push(problem.help("the file is JSON; it may have comments and trailing commas"));
            }
        }
    }

    fn object(&mut self, above: &str, object: &ast::Object<'_>) {
        let mut marks = BTreeMap::new();
        for property in &object.properties {
            let mark = self.places.at(property.name.range().start);
            let path = joined(above, property.name.as_str());
            if let Some(first) = marks.insert(property.name.as_str(), mark) {
                let message = format!("the key `{}` is there twice", shorten(&path));
                let problem = Problem::new(mark, message).note(first, "before").help("remove one");
                self.problems.push(problem);
                continue;
            }
            self.value(&path, mark, &property.value);
        }
    }

    fn value(&mut self, path: &str, mark: Mark, value: &ast::Value<'_>) {
        let words = |values: &[ast::Value<'_>]| -> Vec<Word> {
            values
                .iter()
                .map(|value| Word::placed(&json_word(value), self.places.at(value.start())))
                .collect()
        };
        let values = match value {
            ast::Value::Object(object) => return self.object(path, object),
            ast::Value::NullKeyword(_) => return,
            ast::Value::Array(list) => words(&list.elements),
            scalar => words(std::slice::from_ref(scalar)),
        };
        self.keys.push(Given { written: path.to_owned(), name: path.to_owned(), mark, values });
    }

    fn toml(&mut self, text: &str) {
        match Document::parse(text) {
            Ok(document) => self.table("", document.as_table(), self.places.at(0)),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                let message = error.message().lines().next().unwrap_or("this is not TOML").to_owned();
                let help = match message.contains("duplicate") {
                    true => "remove one of the two",
                    false => "the file is TOML, as torchtitan reads it up to 0.2; later releases have Python",
                };
                self.problems.push(Problem::new(self.places.at(at), message).help(help));
            }
        }
    }

    fn table(&mut self, above: &str, table: &dyn TableLike, mark: Mark) {
        for (name, item) in table.iter() {
            let place = |key: &Key| key.span().map(|span| self.places.at(span.start));
            let mark = table.key(name).and_then(place).unwrap_or(mark);
            self.item(&joined(above, name), item, mark);
        }
    }

    fn item(&mut self, path: &str, item: &Item, mark: Mark) {
        if let Some(table) = item.as_table_like() {
            return self.table(path, table, mark);
        }
        let word = |value: &toml_edit::Value| {
            let place = value.span().map_or(mark, |span| self.places.at(span.start));
            Word::placed(&toml_word(value), place)
        };
        let values = match item.as_value() {
            Some(toml_edit::Value::Array(list)) => list.iter().map(word).collect(),
            Some(value) => vec![word(value)],
            None => {
                let problem = Problem::new(mark, format!("`{path}` is a list of sections"));
                self.problems.push(problem.help(format!("write one section: `[{path}]`")));
                return;
            }
        };
        self.keys.push(Given { written: path.to_owned(), name: path.to_owned(), mark, values });
    }
}

/// A sentence as a part of another.
fn uncapped(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The path of a key of a section.
pub(super) fn joined(above: &str, key: &str) -> String {
    if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") }
}

fn json_word(value: &ast::Value<'_>) -> String {
    match value {
        ast::Value::StringLit(text) => text.value.to_string(),
        ast::Value::NumberLit(number) => whole(number.value),
        ast::Value::BooleanLit(value) => value.value.to_string(),
        ast::Value::NullKeyword(_) => "null".to_owned(),
        ast::Value::Object(_) => "{...}".to_owned(),
        ast::Value::Array(_) => "[...]".to_owned(),
    }
}

fn toml_word(value: &toml_edit::Value) -> String {
    match value {
        toml_edit::Value::String(text) => text.value().clone(),
        toml_edit::Value::Integer(number) => number.value().to_string(),
        toml_edit::Value::Float(number) => whole(&number.value().to_string()),
        toml_edit::Value::Boolean(value) => value.value().to_string(),
        toml_edit::Value::Datetime(time) => time.value().to_string(),
        toml_edit::Value::Array(_) => "[...]".to_owned(),
        toml_edit::Value::InlineTable(_) => "{...}".to_owned(),
    }
}

/// A number as it stands, or without a point or an exponent where it is whole: `5e8`.
fn whole(number: &str) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match scalar(number).as_f64() {
        Some(value) if value.fract() == 0.0 && value.abs() < EXACT => format!("{value:.0}"),
        _ => number.to_owned(),
    }
}

/// Positions by byte.
struct Places {
    source: SourceId,
    /// First bytes of lines.
    lines: Vec<usize>,
    text: String,
}

impl Places {
    fn new(text: &str, source: SourceId) -> Self {
        let next = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { source, lines: std::iter::once(0).chain(next).collect(), text: text.to_owned() }
    }

    fn at(&self, byte: usize) -> Mark {
        let line = self.lines.partition_point(|first| *first <= byte);
        let first = self.lines.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let column = self.text.get(first..byte).map_or(0, |before| before.chars().count());
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.source.at(number(line.max(1)), number(column + 1))
    }
}
