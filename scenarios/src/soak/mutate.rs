//! Library scenarios changed by the schema: settings written, replaced and removed, by values that are valid, nearly so, or at their
//! bounds. Changed bytes hardly ever give a file that is read to the end; these do.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::draw::Draw;
use crate::schema::shape::Shape;
use crate::{catalogue, library};

/// A library scenario after some changes.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Its name.
    pub from: String,
    /// The changes, in words.
    pub how: String,
    /// Its text.
    pub text: String,
}

/// Levels of drawn values: layers are within layers.
const DEPTH_MAX: usize = 4;

/// Every scenario of the library as a tree, with one variant and one value of each axis still to be chosen. Searches, whose
/// spaces are judged by running every plan of small ones, are left out.
static LIBRARY: LazyLock<Vec<(&str, Map<String, Value>)>> = LazyLock::new(|| {
    let parsed = |name| Some((name, serde_yaml::from_str(library::get(name)?).ok()?));
    let trees = library::names().filter_map(parsed);
    trees.filter(|(_, tree): &(_, Map<String, Value>)| !tree.contains_key("search")).collect()
});

/// Case `number` of changed scenarios under `seed`.
pub fn changed(seed: u64, number: u64) -> Changed {
    let draw = &mut Draw::of(seed, number);
    let (from, tree) = &LIBRARY[draw.index(LIBRARY.len())];
    let mut tree = tree.clone();
    narrow(draw, &mut tree);
    let mut how = Vec::new();
    let mut root = Value::Object(tree);
    for _ in 0..draw.between(1, 3) {
        how.extend(change(draw, &mut root));
    }
    let text = serde_yaml::to_string(&root).expect("JSON values can be printed as YAML");
    Changed { from: (*from).to_owned(), how: how.join(", "), text }
}

/// Leaves one variant and one value of each axis, and none of the statements about others.
fn narrow(draw: &mut Draw, tree: &mut Map<String, Value>) {
    for about_others in ["expect", "published", "description", "where"] {
        tree.remove(about_others);
    }
    if let Some(Value::Object(variants)) = tree.get_mut("variants") {
        let kept = draw.index(variants.len());
        let mut position = 0..;
        variants.retain(|_, _| position.next() == Some(kept));
    }
    if let Some(Value::Object(axes)) = tree.get_mut("sweep") {
        for values in axes.values_mut().filter_map(Value::as_array_mut) {
            let kept = values.swap_remove(draw.index(values.len()));
            *values = vec![kept];
        }
    }
}

/// Writes or removes one setting somewhere; in words.
fn change(draw: &mut Draw, root: &mut Value) -> Option<String> {
    let schema = Shape::file().json();
    let mut places = Vec::new();
    maps(root, schema, &mut Vec::new(), &mut places);
    let (path, properties) = places.swap_remove(draw.index(places.len()));
    let pointer = path.iter().fold(String::new(), |pointer, key| pointer + "/" + &escaped(key));
    let map = root.pointer_mut(&pointer)?.as_object_mut()?;
    let place = |key: &str| path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".");
    if !map.is_empty() && draw.chance(20) {
        let key = map.keys().nth(draw.index(map.len()))?.clone();
        map.remove(&key);
        return Some(format!("{} removed", place(&key)));
    }
    let known: Vec<&String> = properties.keys().filter(|key| !LEFT_ALONE.contains(&key.as_str())).collect();
    let key = *known.get(draw.index(known.len().max(1)))?;
    let value = value(draw, key, &properties[key], 0);
    let how = format!("{}: {value}", place(key));
    map.insert(key.clone(), value);
    Some(how)
}

/// Keys of a file that change nothing about a run, or everything.
const LEFT_ALONE: [&str; 8] =
    ["name", "description", "extends", "expect", "published", "where", "sweep", "variants"];

/// Every map of a file whose keys the schema knows: its path, and the schema of its keys.
fn maps<'s>(
    value: &Value,
    schema: &'s Value,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, &'s Map<String, Value>)>,
) {
    let Some(map) = value.as_object() else { return };
    for form in forms(schema) {
        let properties = form.get("properties").and_then(Value::as_object);
        if let Some(properties) = properties.filter(|_| !is_choice(schema)) {
            found.push((path.clone(), properties));
        }
        for (key, value) in map {
            let below = properties.and_then(|properties| properties.get(key));
            if let Some(below) = below.or(form.get("additionalProperties").filter(|below| below.is_object()))
            {
                path.push(key.clone());
                maps(value, below, path, found);
                path.pop();
            }
        }
    }
}

/// A key within a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn is_choice(schema: &Value) -> bool {
    schema.get("oneOf").is_some()
}

/// The forms that a value may take; alternatives within alternatives are one list.
fn forms(schema: &Value) -> Vec<&Value> {
    match schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array) {
        Some(alternatives) => alternatives.iter().flat_map(forms).collect(),
        None => vec![schema],
    }
}

/// A value for `key` that the schema allows, or nearly.
fn value(draw: &mut Draw, key: &str, schema: &Value, depth: usize) -> Value {
    if draw.chance(3) {
        return draw.one(&[json!(-1), json!("none"), json!({}), json!([]), json!(true), json!(1.5)]);
    }
    let forms = forms(schema);
    let form = draw.one(&forms);
    if let Some(only) = form.get("const") {
        return only.clone();
    }
    if let Some(words) = form.get("enum").and_then(Value::as_array) {
        return draw.one(words);
    }
    let kinds = form.get("type");
    let kind = match kinds.and_then(Value::as_array) {
        Some(kinds) => kinds[draw.index(kinds.len())].as_str(),
        None => kinds.and_then(Value::as_str),
    };
    match kind {
        Some("integer") => integer(draw, form),
        Some("number") => json!(draw.one(&[0.0, 0.5, 1.0, 1.33, 2.0, 1e6])),
        Some("boolean") => json!(draw.chance(50)),
        Some("string") => text(draw, key, form),
        Some("array") => {
            let item = form.get("items").unwrap_or(&Value::Null);
            let count = if depth < DEPTH_MAX { draw.between(0, 3) } else { 0 };
            (0..count).map(|_| value(draw, key, item, depth + 1)).collect()
        }
        Some("object") => object(draw, form, depth),
        _ => Value::Null,
    }
}

/// A whole number: a small one, or at a bound, or past it.
fn integer(draw: &mut Draw, form: &Value) -> Value {
    let bound = |key: &str| form.get(key).and_then(Value::as_u64);
    let (least, most) = (bound("minimum").unwrap_or(0), bound("maximum").unwrap_or(u32::MAX.into()));
    let number = match draw.between(0, 9) {
        0 => least,
        1 => most,
        2 => most.saturating_add(1),
        3 => least.wrapping_sub(1),
        _ => least.saturating_add(draw.one(&[0, 1, 1, 2, 3, 4, 7, 8, 16])),
    };
    json!(number)
}

/// A quantity in one of its units, a name of the catalogue, or an example.
fn text(draw: &mut Draw, key: &str, form: &Value) -> Value {
    let pattern = form.get("pattern").and_then(Value::as_str).unwrap_or_default();
    if pattern == "^none$" {
        return json!("none");
    }
    if pattern == "^[0-9]+p$" {
        return json!(format!("{}p", draw.between(0, 3)));
    }
    if let Some(units) = pattern.rsplit_once(" ?(").and_then(|(_, units)| units.split_once(')')) {
        let units: Vec<&str> = units.0.split('|').collect();
        let number =
            draw.one(&["0", "1", "1.5", "7", "16", "64", "500", "4096", "1000000", "18446744073709551615"]);
        return json!(format!("{number} {}", draw.one(&units)));
    }
    let names: Vec<&str> = match key {
        "preset" if draw.chance(70) => catalogue::presets().keys().map(String::as_str).collect(),
        "preset" => catalogue::layered_presets().keys().map(String::as_str).collect(),
        "node" | "name" => catalogue::devices().nodes.keys().map(String::as_str).collect(),
        "gpu" => catalogue::devices().gpus.keys().map(String::as_str).collect(),
        "path" => catalogue::storage_paths().keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    if names.is_empty() {
        let example = form.get("examples").and_then(|examples| examples.get(0));
        return example.cloned().unwrap_or_else(|| json!("text"));
    }
    json!(draw.one(&names))
}

/// A map with what it must have, and some of what it may have; or with names of parts.
fn object(draw: &mut Draw, form: &Value, depth: usize) -> Value {
    const PARTS: [&str; 5] = ["gpu", "ssd", "memory", "nvme", "nic"];
    let required = form.get("required").and_then(Value::as_array);
    let is_required =
        |key: &String| required.is_some_and(|keys| keys.iter().any(|name| name.as_str() == Some(key)));
    let mut map = Map::new();
    if let Some(properties) = form.get("properties").and_then(Value::as_object) {
        for (key, schema) in properties {
            if is_required(key) || (depth < DEPTH_MAX && draw.chance(25)) {
                map.insert(key.clone(), value(draw, key, schema, depth + 1));
            }
        }
    } else if let Some(named) = form.get("additionalProperties").filter(|named| named.is_object()) {
        let name = draw.one(&PARTS);
        map.insert(name.to_owned(), value(draw, name, named, depth + 1));
    }
    Value::Object(map)
}
