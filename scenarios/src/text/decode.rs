//! From a [`Node`] tree to typed values with serde, reporting every fault instead of the first.
//!
//! serde stops at the first fault. [`decode`] notes it, puts an example from the schema in the place of the offending
//! value (or removes an unknown key), and tries again until the tree is whole.

use std::borrow::Cow;
use std::fmt;

use hw_models::catalogue::nearest;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::node::{Entry, Node, Value, shorten};
use super::problem::Problem;
use super::source::Mark;
use crate::schema::shape::Shape;

/// A path through a tree: keys and list indices.
pub(crate) type Path = Vec<String>;

/// A typed value, and the paths whose values were faulty and are mere examples in it.
pub(crate) struct Decoded<T> {
    pub(crate) value: T,
    pub(crate) examples: Vec<Path>,
}

/// Types `node`, which `shape` describes and which users know as `name`, adding its faults to `problems`.
///
/// Without a new problem the value is what was written; with some it is good for looking for further ones, except at
/// the paths that became examples. `None` when the tree is past repair.
pub(crate) fn decode<T: DeserializeOwned>(
    node: &Node,
    shape: Shape<'_>,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<Decoded<T>> {
    const MOST_FAULTS: usize = 100;
    // Most trees are whole and need no copy.
    let mut tree = Cow::Borrowed(node);
    let mut examples = Vec::new();
    for _ in 0..MOST_FAULTS {
        let fault = match T::deserialize(Reader(&tree)) {
            Ok(value) => return Some(Decoded { value, examples }),
            Err(fault) => fault,
        };
        let mut problem = fault.problem(&tree, shape, name);
        let listed = problem.help.as_deref().filter(|help| help.starts_with("the keys here are"));
        if listed.is_some_and(|keys| problems.iter().any(|before| before.help.as_deref() == Some(keys))) {
            problem = problem.help("its keys are listed above");
        }
        problems.push(problem);
        examples.push(fault.repair(tree.to_mut(), shape)?);
    }
    None
}

/// The first thing that keeps a tree from being typed, and where.
#[derive(Debug, thiserror::Error)]
#[error("{kind:?}")]
pub(crate) struct Fault {
    kind: Kind,
    /// Keys from the fault upwards; reversed once complete.
    path: Path,
    mark: Option<Mark>,
}

#[derive(Debug)]
enum Kind {
    /// The value at the path is wrong; the message continues "`path` ...".
    Value {
        message: String,
        help: Option<String>,
    },
    /// Something else where a map is expected; the message continues as that of a value.
    NotAMap {
        message: String,
    },
    UnknownKey {
        key: String,
        known: &'static [&'static str],
    },
    UnknownChoice {
        choice: String,
        known: &'static [&'static str],
    },
    Missing {
        key: &'static str,
    },
    /// A bare word for a choice that has options.
    BareChoice {
        choice: String,
    },
}

impl Fault {
    fn of(kind: Kind) -> Self {
        Self { kind, path: Vec::new(), mark: None }
    }

    fn at(mut self, mark: Mark) -> Self {
        self.mark.get_or_insert(mark);
        self
    }

    fn under(mut self, key: &str) -> Self {
        self.path.push(key.to_owned());
        self
    }

    fn path(&self) -> Path {
        self.path.iter().rev().cloned().collect()
    }

    fn problem(&self, tree: &Node, shape: Shape<'_>, name: &str) -> Problem {
        let path = self.path();
        let mark = self.mark.unwrap_or_else(|| tree.nearest_mark(&path));
        let subject = display(name, &path);
        match &self.kind {
            Kind::Value { message, help } => {
                let problem = Problem::new(mark, format!("{subject} {message}"));
                match (help, shape.at(&path), path.last()) {
                    (Some(help), ..) => problem.help(help),
                    (None, Some(field), Some(key)) if is_index(key) => {
                        problem.help(format!("write for example `{}`", field.example()))
                    }
                    (None, Some(field), Some(key)) => {
                        problem.help(format!("write for example `{key}: {}`", field.example()))
                    }
                    _ => problem,
                }
            }
            Kind::NotAMap { message } => {
                let value = tree.at(&path).map_or(&Value::Null, |node| &node.value);
                Problem::new(mark, format!("{subject} {message}")).help(as_map_help(
                    value,
                    shape.at(&path),
                    path.last(),
                ))
            }
            Kind::UnknownKey { key, known } => {
                Problem::new(mark, format!("unknown key `{}` in {subject}", shorten(key)))
                    .help(nearest::remedy(key, known, "key"))
            }
            Kind::UnknownChoice { choice, known } => {
                Problem::new(mark, format!("{subject} cannot be `{}`", shorten(choice)))
                    .help(nearest::remedy(choice, known, "choice"))
            }
            Kind::Missing { key } => {
                let problem = Problem::new(mark, format!("{subject} lacks `{key}`"));
                match shape.at(&path).and_then(|shape| shape.field(key)) {
                    Some(field) => {
                        problem.help(format!("add `{key}: {}`: {}", field.example(), field.title()))
                    }
                    None => problem,
                }
            }
            Kind::BareChoice { choice } => {
                let problem = Problem::new(mark, format!("{subject} needs options for `{choice}`"));
                match shape.at(&path).and_then(|shape| shape.field(choice)) {
                    Some(field) => problem.help(format!("write `{{ {choice}: {} }}`", field.example())),
                    None => problem,
                }
            }
        }
    }

    /// Replaces what is wrong by an example; returns its path, or `None` if the schema has no example for it.
    fn repair(&self, tree: &mut Node, shape: Shape<'_>) -> Option<Path> {
        let mut path = self.path();
        match &self.kind {
            Kind::UnknownKey { key, .. } => {
                tree.at_mut(&path)?.as_map_mut()?.shift_remove(key);
                path.push(key.clone());
            }
            Kind::Missing { key } => {
                let example = shape.at(&path)?.field(key)?.sample(tree.nearest_mark(&path))?;
                let entry = Entry { key: example.mark, node: example };
                tree.at_mut(&path)?.as_map_mut()?.insert((*key).to_owned(), entry);
                path.push((*key).to_owned());
            }
            Kind::Value { .. }
            | Kind::NotAMap { .. }
            | Kind::UnknownChoice { .. }
            | Kind::BareChoice { .. } => {
                let place = tree.at_mut(&path)?;
                *place = shape.at(&path)?.sample(place.mark)?;
            }
        }
        Some(path)
    }
}

/// "`model.profiled_pipeline.stages`", with `name` before the keys and list indices in brackets.
fn display(name: &str, path: &[String]) -> String {
    let mut text = name.to_owned();
    for key in path {
        if is_index(key) {
            text += &format!("[{key}]");
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text += key;
        }
    }
    if text.is_empty() { "the scenario".to_owned() } else { format!("`{}`", shorten(&text)) }
}

fn is_index(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_digit())
}

impl Error for Fault {
    /// `message` continues "`path` ..."; what follows a line break is help.
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = message.to_string();
        let (message, help) = match text.split_once('\n') {
            Some((message, help)) => (message.to_owned(), Some(help.to_owned())),
            None => (text, None),
        };
        Self::of(Kind::Value { message, help })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(value) => format!("`{value}`"),
            Unexpected::Unsigned(value) => format!("the number `{value}`"),
            Unexpected::Signed(value) => format!("the number `{value}`"),
            Unexpected::Float(value) => format!("the number `{value}`"),
            Unexpected::Str(text) => format!("the text `{}`", shorten(text)),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a map".to_owned(),
            other => other.to_string(),
        };
        Self::custom(format_args!("must be {}, not {found}", noun(expected)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::of(Kind::UnknownChoice { choice: variant.to_owned(), known: expected })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::of(Kind::UnknownKey { key: field.to_owned(), known: expected })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::of(Kind::Missing { key: field })
    }
}

/// What serde's derived visitors call "struct Name" is a map to the user.
fn noun(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    if text.starts_with("struct ") { "a map".to_owned() } else { text }
}

/// Reads one node.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a Node);

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let outcome = match &self.0.value {
            Value::Null => Err(Fault::custom("has no value")),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_u64(value),
                (_, Ok(value)) => visitor.visit_i64(value),
                _ => visitor.visit_i128(*value),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items { items, next: 0 }),
            Value::Map(map) => visitor.visit_map(Entries { entries: map.iter(), value: None }),
        };
        outcome.map_err(|fault| fault.at(self.0.mark))
    }

    /// serde would also fill a struct from a list, position by position; a scenario names its fields.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if matches!(self.0.value, Value::Map(_)) {
            return self.deserialize_any(visitor);
        }
        let message = match &self.0.value {
            Value::Null => "has no value".to_owned(),
            other => format!("must be a map, not {}", other.describe()),
        };
        Err(Fault::of(Kind::NotAMap { message }).at(self.0.mark))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        choices: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let outcome = match &self.0.value {
            Value::Text(word) => visitor.visit_enum(Choice { tag: word, content: None }),
            Value::Map(map) if map.len() == 1 => {
                let (tag, entry) = map.first().expect("one entry");
                let choice = Choice { tag, content: Some(&entry.node) };
                visitor.visit_enum(choice).map_err(|fault| fault.at(entry.key))
            }
            Value::Map(map) if map.len() > 1 => {
                let message =
                    format!("must be one choice, not {}", nearest::list(map.keys().map(String::as_str)));
                Err(Fault::of(Kind::Value {
                    message,
                    help: Some("keep one of them; compare the others as variants".to_owned()),
                }))
            }
            other => {
                let empty = matches!(other, Value::Map(_));
                let found = if empty { "an empty map".to_owned() } else { other.describe() };
                let message = format!("must be one choice, not {found}");
                let help = format!("the choices here are {}", nearest::list(choices.iter().copied()));
                Err(Fault::of(Kind::Value { message, help: Some(help) }))
            }
        };
        outcome.map_err(|fault| fault.at(self.0.mark))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

/// How the same would look as a map: names of keys, a word that one key takes, else an example.
fn as_map_help(value: &Value, shape: Option<Shape<'_>>, key: Option<&String>) -> String {
    let words = match value {
        Value::List(items) => items.iter().map(Node::as_text).collect::<Option<Vec<_>>>().unwrap_or_default(),
        Value::Text(word) => vec![word.as_str()],
        _ => Vec::new(),
    };
    let Some(shape) = shape else { return "write `{ key: value }`".to_owned() };
    let entry = |word: &&str| shape.field(word).map(|field| format!("{word}: {}", field.example()));
    if let Some(entries) = words.iter().map(entry).collect::<Option<Vec<_>>>().filter(|it| !it.is_empty()) {
        return format!("write `{{ {} }}`", entries.join(", "));
    }
    if let [word] = words[..] {
        let takes = |name: &&str| shape.field(name).is_some_and(|field| field.names().contains(&word));
        if let Some(name) = shape.names().into_iter().find(takes) {
            return format!("write `{{ {name}: {word} }}`");
        }
    }
    match (key, shape.example().as_str()) {
        (Some(key), example) if example != "{}" => format!("write for example `{key}: {example}`"),
        _ => "write `{ key: value }`, or `{}` to take all defaults".to_owned(),
    }
}

struct Items<'a> {
    items: &'a [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        let index = (self.next - 1).to_string();
        seed.deserialize(Reader(item)).map(Some).map_err(|fault| fault.at(item.mark).under(&index))
    }
}

struct Entries<'a> {
    entries: indexmap::map::Iter<'a, String, Entry>,
    value: Option<(&'a str, &'a Entry)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some((key, entry)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some((key, entry));
        let key: StrDeserializer<'_, Fault> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|fault| fault.at(entry.key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (key, entry) = self.value.take().expect("serde asks for a key before its value");
        seed.deserialize(Reader(&entry.node)).map_err(|fault| fault.at(entry.node.mark).under(key))
    }
}

/// A choice: a bare word, or a tag with its fields.
struct Choice<'a> {
    tag: &'a str,
    content: Option<&'a Node>,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let tag: StrDeserializer<'_, Fault> = self.tag.into_deserializer();
        Ok((seed.deserialize(tag)?, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.content {
            None => Ok(()),
            Some(node) if matches!(&node.value, Value::Map(map) if map.is_empty()) => Ok(()),
            Some(node) => {
                let help = format!("write the bare word `{}`", self.tag);
                Err(Fault::of(Kind::Value { message: "takes no options".to_owned(), help: Some(help) })
                    .at(node.mark)
                    .under(self.tag))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        self.options(|options| seed.deserialize(options))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.options(|options| options.deserialize_tuple(length, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.options(|options| options.deserialize_struct("", fields, visitor))
    }
}

impl<'a> Choice<'a> {
    fn options<T>(self, read: impl FnOnce(Reader<'a>) -> Result<T, Fault>) -> Result<T, Fault> {
        match self.content {
            Some(node) => read(Reader(node)).map_err(|fault| fault.at(node.mark).under(self.tag)),
            None => Err(Fault::of(Kind::BareChoice { choice: self.tag.to_owned() })),
        }
    }
}
