//! YAML text to a [`Node`] tree, and scalars back to text: the only module that calls `serde_yaml`.
//!
//! `serde_yaml` tells positions only through errors. The loader therefore refuses every scalar on purpose and reads
//! the position from the refusal, so that one pass over the text gives the whole tree with its positions. Everything
//! is bounded: bytes, depth, values (aliases count as often as they are used), so that no text costs much.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::node::{Entry, Map, Node, Value, shorten};
use super::problem::Problem;
use super::source::{Mark, SourceId, Sources};
use super::syntax;

/// The longest file, in bytes; some two hundred times a long scenario.
pub(crate) const MAX_BYTES: usize = 512 * 1024;
/// The deepest nesting of maps and lists.
const MAX_DEPTH: usize = 64;
/// The most values of one file, after aliases are expanded.
const MAX_VALUES: usize = 100_000;

/// The message by which a scalar is refused.
const HERE: &str = "here";

/// The tree of a source; `None` if it is not YAML at all or costs too much. What is wrong goes to `problems`.
pub(crate) fn parse(sources: &Sources, source: SourceId, problems: &mut Vec<Problem>) -> Option<Node> {
    let text = &sources.get(source).text;
    if let Some(refusal) = beginnings(text).find_map(|beginning| refuse(beginning, source)) {
        problems.push(refusal);
        return None;
    }
    let mut loader = Loader::new(source, problems);
    let mut documents = serde_yaml::Deserializer::from_str(text);
    // Only the beginning of a second document is looked at: after an error the iterator would repeat it for ever.
    let mut next = || documents.next().map(|document| loader.document(document)).transpose();
    let (root, second) = match next().and_then(|root| Ok((root, next()?))) {
        Ok(read) => read,
        Err(error) => {
            let problem = loader.explain(&error, text);
            problems.push(problem);
            return None;
        }
    };
    if let Some(second) = second {
        let message = "a file holds one experiment, but a second YAML document begins here";
        let help = "remove the `---` above it, or put it into a file of its own";
        problems.push(Problem::new(second.beginning(), message).help(help));
    }
    Some(root.unwrap_or_else(|| Node::new(source.start(), Value::Null)))
}

/// Longer and longer beginnings of a long text, each twice as long as the one before.
///
/// The parser reads a whole text before the loader sees its first value, and its time grows with the square of the
/// nesting. What is too deep shows in a beginning not much longer than where it gets too deep.
fn beginnings(text: &str) -> impl Iterator<Item = &str> {
    const SHORTEST: usize = 4 * 1024;
    let lengths = std::iter::successors(Some(SHORTEST), |length| Some(length * 2));
    let whole_characters =
        |length: usize| (0..=length).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    lengths.take_while(|&length| length < text.len()).map(move |length| &text[..whole_characters(length)])
}

/// Why the loader would refuse any text with this `beginning`.
fn refuse(beginning: &str, source: SourceId) -> Option<Problem> {
    let mut ignored = Vec::new();
    let mut loader = Loader::new(source, &mut ignored);
    let document = serde_yaml::Deserializer::from_str(beginning).next()?;
    let error = loader.document(document).err()?;
    loader.refusal.is_some().then(|| loader.explain(&error, beginning))
}

/// `text` as a YAML scalar on one line, with quotes where it needs them.
pub(crate) fn scalar(text: &str) -> String {
    match serde_yaml::to_string(text) {
        Ok(yaml) if !yaml.trim_end().contains('\n') => yaml.trim_end().to_owned(),
        // Folded and literal forms take several lines; JSON strings are YAML and take one.
        _ => serde_json::to_string(text).unwrap_or_default(),
    }
}

struct Loader<'a> {
    source: SourceId,
    values: usize,
    /// Why the loader itself stopped: message and help.
    refusal: Option<(String, String)>,
    /// What is wrong without keeping the rest from being read.
    problems: &'a mut Vec<Problem>,
}

impl<'p> Loader<'p> {
    fn new(source: SourceId, problems: &'p mut Vec<Problem>) -> Self {
        Self { source, values: 0, refusal: None, problems }
    }

    fn document<'de, D: Deserializer<'de>>(&mut self, document: D) -> Result<Node, D::Error> {
        let start = self.source.start();
        let mut grown = None;
        let outcome = Grow { loader: self, depth: 0, mark: start, grown: &mut grown }.deserialize(document);
        self.harvest(outcome, grown)
    }

    /// A container, or a scalar whose refusal says where it stands.
    fn harvest<E: Error>(&self, outcome: Result<(), E>, grown: Option<Node>) -> Result<Node, E> {
        match (outcome, grown) {
            (Ok(()), Some(node)) => Ok(node),
            (Err(refusal), Some(mut scalar)) => {
                scalar.mark = self.position(&refusal.to_string());
                Ok(scalar)
            }
            (Err(error), None) => Err(error),
            (Ok(()), None) => Err(E::custom("a value of no kind that scenarios use")),
        }
    }

    /// The position at the end of an error's text; it has none when it is the very first character.
    fn position(&self, error: &str) -> Mark {
        let (line, column) = syntax::position(error).unwrap_or((1, 1));
        self.source.at(line, column)
    }

    fn mark(&self, error: &serde_yaml::Error) -> Mark {
        let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
        self.source.at(u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }

    fn explain(&mut self, error: &serde_yaml::Error, text: &str) -> Problem {
        let mark = self.mark(error);
        match self.refusal.take() {
            Some((message, help)) => Problem::new(mark, message).help(help),
            None => syntax::explain(&error.to_string(), text, mark),
        }
    }

    /// Accounts for one more value at `depth`.
    fn admit<E: Error>(&mut self, depth: usize) -> Result<(), E> {
        self.values += 1;
        let refusal = if depth > MAX_DEPTH {
            (
                format!("maps and lists are nested deeper than {MAX_DEPTH} levels"),
                "a scenario needs fewer than ten",
            )
        } else if self.values > MAX_VALUES {
            (
                format!("the file holds more than {MAX_VALUES} values once its aliases are expanded"),
                "give long axes as `{ from, to, steps }`, and write lists of lists without aliases",
            )
        } else {
            return Ok(());
        };
        self.refusal = Some((refusal.0, refusal.1.to_owned()));
        Err(E::custom("refused"))
    }

    fn insert(&mut self, map: &mut Map, name: String, key: Mark, node: Node) {
        if name == "<<" {
            self.problems.push(
                Problem::new(key, "merge keys (`<<`) are not part of the scenario language")
                    .help("share settings through `extends:` or write them above the variants"),
            );
        } else if let Some(first) = map.get(&name) {
            let message = format!("the key `{}` is given twice", shorten(&name));
            self.problems.push(
                Problem::new(key, message)
                    .label("again here")
                    .note(first.key, "first here")
                    .help("keep one of them, or rename the other"),
            );
        } else {
            map.insert(name, Entry { key, node });
        }
    }
}

/// Grows one node; `mark` is what a container is known by, its key.
struct Grow<'a, 'p> {
    loader: &'a mut Loader<'p>,
    depth: usize,
    mark: Mark,
    grown: &'a mut Option<Node>,
}

impl Grow<'_, '_> {
    fn scalar<E: Error>(self, value: Value) -> Result<(), E> {
        self.loader.admit(self.depth)?;
        *self.grown = Some(Node::new(self.mark, value));
        Err(E::custom(HERE))
    }
}

impl<'de> DeserializeSeed<'de> for Grow<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Grow<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map, a list, a text or a number")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.scalar(Value::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(Value::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(Value::Integer(value.into()))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<(), E> {
        self.scalar(Value::Integer(value))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<(), E> {
        self.scalar(i128::try_from(value).map_or(Value::Text(value.to_string()), Value::Integer))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(Value::Float(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.scalar(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        self.loader.admit(self.depth)?;
        let mut items = Vec::new();
        loop {
            let mut grown = None;
            let item =
                Grow { loader: self.loader, depth: self.depth + 1, mark: self.mark, grown: &mut grown };
            match access.next_element_seed(item) {
                Ok(None) => break,
                Ok(Some(())) => items.push(self.loader.harvest(Ok(()), grown)?),
                Err(error) => items.push(self.loader.harvest(Err(error), grown)?),
            }
        }
        *self.grown = Some(Node::new(self.mark, Value::List(items)));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        self.loader.admit(self.depth)?;
        let mut map = Map::new();
        loop {
            let mut name = None;
            let key = match access.next_key_seed(Key { loader: self.loader, name: &mut name }) {
                Ok(None) => break,
                Ok(Some(())) => return Err(A::Error::custom("a key that is no text")),
                Err(error) if name.is_none() => return Err(error),
                Err(refusal) => self.loader.position(&refusal.to_string()),
            };
            let mut grown = None;
            let value = Grow { loader: self.loader, depth: self.depth + 1, mark: key, grown: &mut grown };
            let outcome = access.next_value_seed(value);
            let node = self.loader.harvest(outcome, grown)?;
            self.loader.insert(&mut map, name.unwrap_or_default(), key, node);
        }
        *self.grown = Some(Node::new(self.mark, Value::Map(map)));
        Ok(())
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.loader.refusal = Some((
            "tags (`!name`) are not part of the scenario language".to_owned(),
            "write a choice as `{ name: { ... } }`".to_owned(),
        ));
        Err(A::Error::custom("refused"))
    }
}

/// Reads a key as the text that was written, whatever it looks like (`1f1b`, `10`, `on`).
struct Key<'a, 'p> {
    loader: &'a mut Loader<'p>,
    name: &'a mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.loader.refusal = Some((
            "a key must be a text, not a list or a map".to_owned(),
            "put a joined sweep axis in quotes: `\"[path.one, path.two]\": [[1, 2], [3, 4]]`".to_owned(),
        ));
        let refusal = deserializer.deserialize_str(KeyText(self.name));
        if self.name.is_some() {
            self.loader.refusal = None;
        }
        refusal
    }
}

struct KeyText<'a>(&'a mut Option<String>);

impl<'de> Visitor<'de> for KeyText<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        *self.0 = Some(text.to_owned());
        Err(E::custom(HERE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Node {
        let mut sources = Sources::default();
        let source = sources.add("test.yaml", text);
        parse(&sources, source, &mut Vec::new()).expect("valid YAML")
    }

    #[test]
    fn every_scalar_and_key_knows_its_place() {
        let root = tree("name: x\nmodel:\n  times: [8, two, { a: 'b' }]\n  empty: {}\n");
        let at = |path: &[&str]| root.at(path).expect("present").mark.to_string();
        assert_eq!(at(&["name"]), "1:7");
        assert_eq!(at(&["model", "times"]), "3:3");
        assert_eq!(at(&["model", "times", "1"]), "3:14");
        assert_eq!(at(&["model", "times", "2", "a"]), "3:24");
        assert_eq!(at(&["model", "empty"]), "4:3");
        assert_eq!(root.as_map().expect("a map")["model"].key.to_string(), "2:1");
    }

    #[test]
    fn keys_are_texts_and_values_are_typed() {
        let root = tree("on: 1f1b\n10: 1e3\nbig: 99999999999999999999\nabsurd: 1e400\n");
        assert_eq!(root.child("on").map(|node| &node.value), Some(&Value::Text("1f1b".to_owned())));
        assert_eq!(root.child("10").map(|node| &node.value), Some(&Value::Float(1000.0)));
        assert_eq!(
            root.child("big").map(|node| &node.value),
            Some(&Value::Integer(99_999_999_999_999_999_999))
        );
        assert_eq!(root.child("absurd").map(|node| &node.value), Some(&Value::Text("1e400".to_owned())));
    }

    #[test]
    fn scalars_survive_printing() {
        for text in ["plain", "18.5 ms", "a: b", "[x]", "yes\nno", "", "8", "# no comment", "null"] {
            assert_eq!(
                tree(&format!("key: {}\n", scalar(text))).child("key").and_then(Node::as_text),
                Some(text)
            );
        }
    }
}
