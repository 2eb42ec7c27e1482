//! The integer settings of the JSON Schema, and how each is set.

use serde_json::{Map, Value, json};

/// An integer setting.
pub(super) struct Setting {
    /// The path that is set: down to the setting, or to the list that it is in.
    path: Vec<String>,
    /// The value that is set there, with [`PLACE`] where the number goes.
    value: Value,
    /// Its least and greatest value, where they are said.
    pub(super) ends: [Option<u64>; 2],
}

/// Stands for the number.
const PLACE: &str = "<number>";

/// Parts of the top level that are settings.
const SETTINGS: [&str; 10] = [
    "machine",
    "storage",
    "model",
    "features",
    "training",
    "parallelism",
    "memory",
    "software",
    "techniques",
    "run",
];

/// All of them.
pub(super) fn integers() -> Vec<Setting> {
    let schema: Value = serde_json::from_str(&scenarios::json_schema()).expect("the schema is JSON");
    let mut walk = Walk { schema: &schema, found: Vec::new() };
    for top in SETTINGS {
        walk.node(&schema["properties"][top], &mut vec![Step::Key(top.to_owned())], &mut Vec::new());
    }
    walk.found
}

impl Setting {
    /// As on the command line. A layer of a list needs others around it, a link parts that are there, nodes
    /// a name, a loop something to repeat.
    pub(super) fn change(&self, base: &str, number: u64) -> String {
        let mut value = self.value.clone();
        replace(&mut value, number);
        match (self.path.last().map(String::as_str), value.as_array_mut()) {
            (Some("list"), Some(layers)) => {
                if let Some(layer) = layers.pop() {
                    *layers = around(base, layer);
                }
            }
            (Some("links"), Some(links)) => {
                let lanes = links[0]["lanes"].clone();
                let link = |gpu: &str| json!({ "between": [gpu, "cpu"], "class": "pcie4", "lanes": lanes });
                *links = vec![link("g0"), link("g1")];
            }
            (Some("more"), Some(nodes)) => {
                let whole = json!({ "node": "dgx-a100-80g", "count": 1 });
                complete(&mut nodes[0], &whole);
                if let Some(gpu) = nodes[0].get_mut("gpu") {
                    complete(gpu, &json!({ "like": "a100-sxm4-80gb" }));
                }
                if let Some(drive) = nodes[0].pointer_mut("/set/ssd/model") {
                    complete(drive, &json!({ "like": "samsung-pm9a3-u2-3840gb" }));
                }
            }
            (Some("iteration"), Some(statements)) => {
                if let Some(repeated) = statements[0].get_mut("loop") {
                    repeated["name"] = json!("again");
                    repeated["body"] = json!([{ "python": "1 us" }]);
                }
                statements.push(json!({ "feed": { "batch": true } }));
                statements.push(json!({ "run": ["forward", "nvme", "backward", "update"] }));
            }
            _ => {}
        }
        format!("{}={value}", self.path.join("."))
    }
}

/// A list of layers that gives one what it takes and ends with a loss.
fn around(base: &str, mut layer: Value) -> Vec<Value> {
    let kind = layer.as_object().and_then(|map| map.keys().next().cloned()).unwrap_or_default();
    let others = match kind.as_str() {
        "conv1d" | "conv2d" => json!({ "channels": 8, "kernel": 3 }),
        "depthwise_conv1d" | "depthwise_conv2d" => json!({ "kernel": 3 }),
        "max_pool" | "average_pool" => json!({ "kernel": 2 }),
        "patch_embedding" => json!({ "patch": 4, "width": 64 }),
        "embedding" => embedding()["embedding"].clone(),
        "attention" => json!({ "heads": 4 }),
        "experts" => json!({ "count": 4, "width": 64 }),
        "repeat" => json!({ "layers": ["relu"] }),
        _ => json!({}),
    };
    complete(&mut layer[&kind], &others);
    let tokens = ["tokens", "translation"].contains(&base);
    let first = (tokens && kind != "embedding").then(embedding);
    let pooled = (!tokens && kind != "patch_embedding").then(|| json!("global_average_pool"));
    let end = [json!({ "linear": { "outputs": 1000 } }), json!("cross_entropy")];
    first.into_iter().chain([layer]).chain(pooled).chain(end).collect()
}

/// Adds entries that a map lacks.
fn complete(map: &mut Value, others: &Value) {
    for (key, other) in others.as_object().into_iter().flatten() {
        if map[key].is_null() {
            map[key] = other.clone();
        }
    }
}

fn embedding() -> Value {
    json!({ "embedding": { "vocabulary": 1000, "width": 64 } })
}

/// One step down.
#[derive(Clone)]
enum Step {
    Key(String),
    /// Into a list.
    Item,
    /// Keys beside the one that follows which must be there, with samples.
    Beside(Map<String, Value>),
}

struct Walk<'s> {
    schema: &'s Value,
    found: Vec<Setting>,
}

impl Walk<'_> {
    /// Looks at what `node` describes at the end of `path`; `inside` are the definitions that it is in.
    fn node(&mut self, node: &Value, path: &mut Vec<Step>, inside: &mut Vec<String>) {
        if let Some(name) = name(node).filter(|name| !inside.contains(name)) {
            let definition = self.schema["definitions"][&name].clone();
            inside.push(name);
            self.node(&definition, path, inside);
            inside.pop();
        }
        for choices in ["allOf", "anyOf", "oneOf"] {
            for choice in node[choices].as_array().into_iter().flatten() {
                self.node(choice, path, inside);
            }
        }
        if is(node, "integer") {
            let ends = ["minimum", "maximum"].map(|end| node[end].as_u64());
            self.found.push(setting(path, ends));
        }
        for (key, property) in node["properties"].as_object().into_iter().flatten() {
            if key == "base" {
                // The model of a program: one of those beside it.
                continue;
            }
            path.push(Step::Beside(self.required(node, key)));
            path.push(Step::Key(key.clone()));
            self.node(property, path, inside);
            path.truncate(path.len() - 2);
        }
        if node["additionalProperties"].is_object() {
            for key in names_in(path) {
                path.push(Step::Key((*key).to_owned()));
                self.node(&node["additionalProperties"], path, inside);
                path.pop();
            }
        }
        if node["items"].is_object() {
            path.push(Step::Item);
            self.node(&node["items"], path, inside);
            path.pop();
        }
    }

    /// Samples of what must be there beside `key`.
    fn required(&self, node: &Value, key: &str) -> Map<String, Value> {
        let names = node["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let others = names.filter(|name| *name != key);
        others.map(|name| (name.to_owned(), self.sample(&node["properties"][name]))).collect()
    }

    /// Something that a node describes.
    fn sample(&self, node: &Value) -> Value {
        if let Some(example) =
            node["examples"].get(0).or_else(|| node.get("const")).or_else(|| node["enum"].get(0))
        {
            return example.clone();
        }
        if let Some(name) = name(node) {
            return self.sample(&self.schema["definitions"][&name]);
        }
        if let Some(choice) = ["allOf", "anyOf", "oneOf"].iter().find_map(|choices| node[*choices].get(0)) {
            return self.sample(choice);
        }
        if is(node, "integer") || is(node, "number") {
            json!(node["minimum"].as_u64().unwrap_or(0).max(2))
        } else if is(node, "array") {
            json!([])
        } else if is(node, "object") {
            Value::Object(self.required(node, ""))
        } else {
            json!("relu")
        }
    }
}

/// Names in a free map that mean something: parts of a node, a mode, or one of the user's own, as of an
/// array of drives.
fn names_in(path: &[Step]) -> &'static [&'static str] {
    match path.last() {
        Some(Step::Key(key)) if key == "set" => &["gpu", "nic", "ssd"],
        Some(Step::Key(key)) if key == "execution" => &["co-execution"],
        _ => &["nvme"],
    }
}

/// The name of the definition that a node refers to.
fn name(node: &Value) -> Option<String> {
    Some(node["$ref"].as_str()?.rsplit('/').next()?.to_owned())
}

fn is(node: &Value, kind: &str) -> bool {
    match &node["type"] {
        Value::Array(kinds) => kinds.iter().any(|known| known == kind),
        known => known == kind,
    }
}

/// The setting at the end of `path`: what is in a list is set with the list.
fn setting(path: &[Step], ends: [Option<u64>; 2]) -> Setting {
    let list = path.iter().position(|step| matches!(step, Step::Item)).unwrap_or(path.len());
    let key = |step: &Step| match step {
        Step::Key(key) => Some(key.clone()),
        Step::Item | Step::Beside(_) => None,
    };
    let mut value = json!(PLACE);
    for (at, step) in path.iter().enumerate().skip(list).rev() {
        value = match (step, path[..at].last()) {
            (Step::Item, _) => json!([value]),
            (Step::Key(key), Some(Step::Beside(others))) => {
                let mut map = others.clone();
                map.insert(key.clone(), value);
                Value::Object(map)
            }
            (Step::Key(key), _) => json!({ key: value }),
            (Step::Beside(_), _) => value,
        };
    }
    Setting { path: path[..list].iter().filter_map(key).collect(), value, ends }
}

fn replace(value: &mut Value, number: u64) {
    match value {
        Value::String(text) if text == PLACE => *value = json!(number),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, number)),
        Value::Object(map) => map.values_mut().for_each(|value| replace(value, number)),
        _ => {}
    }
}
