//! The tree a scenario is before it is typed: every value knows where it was written.

pub(crate) use hw_models::settings::written::shorten;
use indexmap::IndexMap;

use super::source::Mark;

/// A value and its origin.
///
/// The mark of a scalar is its first character; that of a map or a list is the key it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    pub(crate) layer: Layer,
    pub(crate) value: Value,
}

/// The step of the merge that a value came from; later layers win over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    File,
    Variant,
    Sweep,
    Set,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Map),
}

/// A map in the order in which it was written.
pub(crate) type Map = IndexMap<String, Entry>;

/// A value of a map, with the position of its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Mark,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn new(mark: Mark, value: Value) -> Self {
        Self { mark, layer: Layer::File, value }
    }

    pub(crate) fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    pub(crate) fn as_map_mut(&mut self) -> Option<&mut Map> {
        match &mut self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Where the reader's eye finds it: a map that has no key of its own begins at its first key.
    pub(crate) fn beginning(&self) -> Mark {
        match &self.value {
            Value::Map(map) => map.values().next().map_or(self.mark, |entry| entry.key),
            _ => self.mark,
        }
    }

    /// The word of an entry that stands for "leave this out".
    pub(crate) fn is_none_word(&self) -> bool {
        self.as_text() == Some("none")
    }

    /// True if `holds` holds for the node or one below it.
    pub(crate) fn any(&self, holds: &impl Fn(&Node) -> bool) -> bool {
        holds(self)
            || match &self.value {
                Value::Map(map) => map.values().any(|entry| entry.node.any(holds)),
                Value::List(items) => items.iter().any(|item| item.any(holds)),
                _ => false,
            }
    }

    /// The value of `key` in a map.
    pub(crate) fn child(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(map) => map.get(key).map(|entry| &entry.node),
            Value::List(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }

    fn child_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Map(map) => map.get_mut(key).map(|entry| &mut entry.node),
            Value::List(items) => items.get_mut(key.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// The node at `path` (keys and list indices), if the whole path exists.
    pub(crate) fn at<S: AsRef<str>>(&self, path: &[S]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.child(key.as_ref()))
    }

    pub(crate) fn at_mut<S: AsRef<str>>(&mut self, path: &[S]) -> Option<&mut Node> {
        path.iter().try_fold(self, |node, key| node.child_mut(key.as_ref()))
    }

    /// Position of the node at `path`, or of its nearest ancestor that was written.
    pub(crate) fn nearest_mark<S: AsRef<str>>(&self, path: &[S]) -> Mark {
        self.nearest(path).mark
    }

    pub(crate) fn nearest<S: AsRef<str>>(&self, path: &[S]) -> &Node {
        let mut node = self;
        for key in path {
            match node.child(key.as_ref()) {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    /// The maps around `leaf` that make it the value of `path`: `a.b` and `1` give `{ a: { b: 1 } }`.
    pub(crate) fn nest<S: AsRef<str>>(path: &[S], leaf: Node) -> Node {
        path.iter().rev().fold(leaf, |node, key| {
            let (mark, layer) = (node.mark, node.layer);
            let map = Map::from([(key.as_ref().to_owned(), Entry { key: mark, node })]);
            Node { mark, layer, value: Value::Map(map) }
        })
    }

    /// The same tree, said to come from `layer`.
    pub(crate) fn on(mut self, layer: Layer) -> Node {
        self.visit(&mut |node| node.layer = layer);
        self
    }

    /// Moves all marks.
    pub(crate) fn remark(&mut self, mark: &impl Fn(Mark) -> Mark) {
        self.visit(&mut |node| {
            node.mark = mark(node.mark);
            if let Value::Map(map) = &mut node.value {
                map.values_mut().for_each(|entry| entry.key = mark(entry.key));
            }
        });
    }

    fn visit(&mut self, act: &mut impl FnMut(&mut Node)) {
        act(self);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.visit(act)),
            Value::Map(map) => map.values_mut().for_each(|entry| entry.node.visit(act)),
            _ => {}
        }
    }
}

impl Value {
    /// The value as a reader would name it in "..., not X".
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Integer(value) => format!("the number `{value}`"),
            Value::Float(value) => format!("the number `{value}`"),
            Value::Text(text) => format!("the text `{}`", shorten(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// A scalar as it would be typed on the command line; structures as "a list" or "a map".
    pub(crate) fn plain(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(text) => text.clone(),
            Value::List(items) => {
                format!("[{}]", items.iter().map(|item| item.value.plain()).collect::<Vec<_>>().join(", "))
            }
            Value::Map(map) => {
                let entries = map.iter().map(|(key, entry)| format!("{key}: {}", entry.node.value.plain()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}
