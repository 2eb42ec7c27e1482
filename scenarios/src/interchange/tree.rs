//! Settings as trees: from paths to nodes with positions, and from values to paths that differ.

use indexmap::IndexMap;
use serde_json::{Map as JsonMap, Value as Json};

use super::rules::{Table, same};
use crate::experiment::{Resolved, is_below};
use crate::text::node::{Entry, Map, Node, Value};
use crate::text::source::Mark;

/// A setting of an import, where it comes from, and the argument that says it. `None`: nobody does,
/// it is a default of the target.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) value: Json,
    pub(super) mark: Mark,
    pub(super) by: Option<String>,
}

/// Settings by path, in the order of the table.
pub(super) type Settings = IndexMap<String, Said>;

/// The value at a path: what is said of it or above it, or a map where something below is.
pub(super) fn said(settings: &Settings, path: &str) -> Option<Json> {
    let above = || {
        let above = path.rmatch_indices('.').map(|(end, _)| (&path[..end], &path[end + 1..]));
        above.into_iter().find_map(|(above, below)| at(&settings.get(above)?.value, below))
    };
    let map = || settings.keys().any(|known| is_below(path, known)).then(|| Json::Object(JsonMap::new()));
    settings.get(path).map(|said| said.value.clone()).or_else(above).or_else(map)
}

/// The tree of a file with these settings.
pub(super) fn node(settings: &Settings, root: Mark) -> Node {
    let mut tree = Node::new(root, Value::Map(Map::new()));
    for (path, said) in settings {
        let keys: Vec<&str> = path.split('.').collect();
        insert(&mut tree, &keys, of_json(&said.value, said.mark));
    }
    tree
}

fn insert(tree: &mut Node, keys: &[&str], leaf: Node) {
    let [first, rest @ ..] = keys else {
        let keeps = tree.as_map().is_some_and(|map| !map.is_empty());
        if !(keeps && leaf.as_map().is_some()) {
            *tree = leaf;
        }
        return;
    };
    if tree.as_map().is_none() {
        tree.value = Value::Map(Map::new());
    }
    let mark = leaf.mark;
    if let Some(map) = tree.as_map_mut() {
        let empty = || Entry { key: mark, node: Node::new(mark, Value::Map(Map::new())) };
        insert(&mut map.entry((*first).to_owned()).or_insert_with(empty).node, rest, leaf);
    }
}

pub(super) fn of_json(value: &Json, mark: Mark) -> Node {
    let value = match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Value::Integer(integer.into()),
            (_, Some(integer)) => Value::Integer(integer.into()),
            _ => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(|item| of_json(item, mark)).collect()),
        Json::Object(map) => {
            let entry = |(key, value): (&String, &Json)| {
                (key.clone(), Entry { key: mark, node: of_json(value, mark) })
            };
            Value::Map(map.iter().map(entry).collect())
        }
    };
    Node::new(mark, value)
}

/// The settings of a resolved scenario, with what absent ones mean.
pub(super) fn resolved(resolved: &Resolved, table: &Table) -> Json {
    let mut settings = reports::json::value(&resolved.scenario).unwrap_or_default();
    for (path, value) in &table.absent {
        let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
        if let Some(map) = settings.pointer_mut(&pointer(above)).and_then(Json::as_object_mut) {
            map.entry(key).or_insert_with(|| value.clone());
        }
    }
    settings
}

/// The value at a path of a tree.
pub(super) fn at(settings: &Json, path: &str) -> Option<Json> {
    settings.pointer(&pointer(path)).cloned()
}

fn pointer(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("/{}", path.replace('.', "/")) }
}

/// The paths at which two trees differ, as near to the root as one of them has nothing.
pub(super) fn differences(a: &Json, b: &Json, leave_out: &dyn Fn(&str) -> bool) -> Vec<String> {
    fn compare(a: &Json, b: &Json, path: &str, leave_out: &dyn Fn(&str) -> bool, found: &mut Vec<String>) {
        if leave_out(path) {
            return;
        }
        let (Json::Object(first), Json::Object(second)) = (a, b) else {
            if !same(a, b) {
                found.push(path.to_owned());
            }
            return;
        };
        let keys: Vec<&String> =
            first.keys().chain(second.keys().filter(|key| !first.contains_key(*key))).collect();
        for key in keys {
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let part = |map: &JsonMap<String, Json>| map.get(key).cloned().unwrap_or_default();
            compare(&part(first), &part(second), &below, leave_out, found);
        }
    }
    let mut found = Vec::new();
    compare(a, b, "", leave_out, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn trees_differ_where_they_do() {
        let a = json!({ "x": { "a": 1, "b": "1 GB", "c": {} }, "y": 2 });
        let b = json!({ "x": { "a": 2, "b": "1000 MB", "d": 3 }, "y": 3 });
        assert_eq!(differences(&a, &b, &|path| path == "y"), ["x.a", "x.c", "x.d"]);
    }
}
