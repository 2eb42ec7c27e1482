//! The JSON Schema that editors read: the settings, and around them what a file says about an experiment.

use reports::json::omit_absent;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value as Json, json};

use crate::expectation::Statement;
use crate::experiment::search::{MAX_PLANS, Settings as Search};
use crate::experiment::sweep::{MAX_LISTED, MAX_POINTS, Spacing};
use crate::run::{MAX_RUNS, MAX_STAGES};

/// Levels of what is within itself that are told; layers are hardly nested deeper.
const LEVELS_MAX: usize = 3;

/// Keys of a file that are about the experiment, not about one run.
pub(crate) const EXPERIMENT_KEYS: [&str; 10] = [
    "name",
    "description",
    "extends",
    "variants",
    "sweep",
    "search",
    "cases",
    "where",
    "expect",
    "published",
];

/// The JSON Schema (draft 7) of a scenario file, for editors.
///
/// A file may leave out what the file it extends, or each of its variants, gives. So no setting is required here;
/// `foretrain check` tells what is missing.
pub fn json_schema() -> String {
    serde_json::to_string_pretty(&with_references()).expect("JSON values can be printed") + "\n"
}

/// The schema of a file with everything it refers to in place.
pub(super) fn file() -> Json {
    let document = with_references();
    in_place(&document, &document, &mut Vec::new())
}

/// The schema of one type with everything it refers to in place.
pub(crate) fn of<T: JsonSchema>() -> Json {
    let schema = generated::<T>();
    in_place(&schema, &schema, &mut Vec::new())
}

/// The schema of a file with references to types, which stand beside it.
pub(super) fn with_references() -> Json {
    let (mut settings, mut definitions) = parts::<super::Scenario>();
    definitions.values_mut().for_each(allow_omissions);
    let settings_keys = settings["properties"].take();
    let (statement, forms) = parts::<Statement>();
    let expect = statements(&statement, &forms, false);
    let published = statements(&statement, &forms, true);
    let (mut axis, mut of_axis) = parts::<Spacing>();
    axis["description"] = json!("Equally spaced values.");
    definitions.extend(forms);
    definitions.append(&mut of_axis);
    let (mut search, mut of_search) = parts::<Search>();
    search["properties"]["over"] = json!({
        "description": "Axes as in `sweep`, or `auto` for the values that GPUs, heads, layers and samples imply; \
            `parallelism: auto` and a list of `techniques` stand for several.",
        "type": "object",
    });
    for (key, ends) in [("largest", "largest"), ("fewest", "smallest")] {
        search["properties"][key] = json!({
            "description": format!(
                "Looks for the {ends} value of a setting with which a plan fits within the limits: \
                 its name, or an axis as in `sweep` with values from the smallest on."
            ),
            "type": ["string", "object"],
        });
    }
    search["description"] = json!(format!(
        "A space of plans, at most {MAX_PLANS}, of which the best is looked for and proven; instead of `sweep`."
    ));
    definitions.append(&mut of_search);
    definitions.insert("Search".to_owned(), search);
    definitions.insert("Spacing".to_owned(), axis);
    definitions.insert(
        "Settings".to_owned(),
        json!({
            "description": "Settings that replace or complete those above.",
            "type": "object",
            "properties": settings_keys,
            "additionalProperties": false,
        }),
    );
    let mut properties = experiment_properties(&expect, &published);
    properties.extend(settings_keys.as_object().cloned().unwrap_or_default());
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "foretrain scenario",
        "description": "One experiment: settings, variants to compare, axes to sweep, what must hold and what others published.",
        "type": "object",
        "properties": properties,
        "required": ["name"],
        "additionalProperties": false,
        "definitions": definitions,
    })
}

/// The schema of one type, with its definitions beside it. Absent options are left out, so `null` is nowhere valid.
fn generated<T: JsonSchema>() -> Json {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().to_value();
    forbid_null(&mut schema);
    omit_absent(&mut schema);
    join_lines(&mut schema);
    schema
}

/// The schema of one type and, apart from it, what it refers to.
fn parts<T: JsonSchema>() -> (Json, Map<String, Json>) {
    let mut schema = generated::<T>();
    let definitions = match schema.get_mut("definitions").map(Json::take) {
        Some(Json::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    if let Some(map) = schema.as_object_mut() {
        map.remove("definitions");
        map.remove("$schema");
    }
    (schema, definitions)
}

/// `here` with what it refers to in `root` in place of the references. What a reference says about itself stands beside
/// an `allOf` around it and takes the place of what its target says. Of what is within itself (`open`), as layers are in
/// layers, only some levels are told.
fn in_place<'a>(here: &'a Json, root: &'a Json, open: &mut Vec<&'a str>) -> Json {
    let reference = here.get("$ref").and_then(Json::as_str);
    let levels = open.iter().filter(|&&outer| Some(outer) == reference).count();
    if levels == LEVELS_MAX {
        return json!({});
    }
    let referred = || root.pointer(reference?.strip_prefix('#')?);
    if let Some(target) = here.get("allOf").and_then(|all| all.get(0)).or_else(referred) {
        let outer = open.len();
        open.extend(reference);
        let mut target = in_place(target, root, open);
        open.truncate(outer);
        if let (Some(map), Some(own)) = (target.as_object_mut(), here.get("description")) {
            map.insert("description".to_owned(), own.clone());
        }
        return target;
    }
    match here {
        Json::Object(map) => {
            let parts = map.iter().filter(|(key, _)| *key != "definitions");
            parts.map(|(key, part)| (key.clone(), in_place(part, root, open))).collect()
        }
        Json::Array(items) => items.iter().map(|item| in_place(item, root, open)).collect(),
        scalar => scalar.clone(),
    }
}

fn experiment_properties(expect: &Json, published: &Json) -> Map<String, Json> {
    let properties = json!({
        "name": { "type": "string", "description": "Name of the experiment." },
        "description": { "type": "string", "description": "Subject of the experiment." },
        "extends": {
            "type": "string",
            "description": "A file, relative to this one, or `library:NAME`, whose experiment this one changes.",
        },
        "variants": {
            "description": "Variants to compare: names, and the settings each changes; `base: {}` changes none.",
            "type": "object",
            "additionalProperties": { "$ref": "#/definitions/Settings" },
        },
        "sweep": {
            "description": format!(
                "Axes: a path, or several in brackets that change together, and its values; axes multiply, to at most \
                 {MAX_POINTS} points. `foretrain run` takes at most {MAX_RUNS} runs, points times variants, of {MAX_STAGES} \
                 stages together."
            ),
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    { "type": "array", "minItems": 1, "maxItems": MAX_LISTED },
                    { "$ref": "#/definitions/Spacing" },
                ],
            },
        },
        "search": { "$ref": "#/definitions/Search" },
        "cases": {
            "description": "Swept settings that define the problem. The others are choices, and each case reports its best. \
                Default: models, sequences, batches of a step, machines, memory.",
            "type": "array",
            "items": { "type": "string", "examples": ["parallelism.data"] },
        },
        "where": {
            "description": "Comparisons that a point of the sweep must meet.",
            "type": "array",
            "items": { "type": "string", "examples": ["training.micro_batches >= 8"] },
        },
        "expect": {
            "description": "Promises of this file; a broken one makes the exit code 1.",
            "type": "array",
            "items": expect,
        },
        "published": {
            "description": "Figures of others, printed with ours, each with its source.",
            "type": "array",
            "items": published,
        },
    });
    properties.as_object().cloned().unwrap_or_default()
}

/// The forms of statements with the keys that all of them take: `at`, and for citations `source`.
fn statements(statement: &Json, forms: &Map<String, Json>, cited: bool) -> Json {
    let name = |form: &Json| {
        let path = form.pointer("/$ref").or_else(|| form.pointer("/allOf/0/$ref"))?.as_str()?;
        path.rsplit('/').next().map(str::to_owned)
    };
    let names = statement["anyOf"].as_array().into_iter().flatten().filter_map(name);
    let complete = |name: String| {
        let mut form = forms[&name].clone();
        form["properties"]["at"] = json!({
            "type": "object",
            "description": "Swept paths and the values they have where this is stated.",
        });
        if cited {
            form["properties"]["source"] =
                json!({ "type": "string", "description": "Where it was published." });
            form["required"]
                .as_array_mut()
                .expect("forms have a key they are known by")
                .push(json!("source"));
        }
        form
    };
    json!({ "anyOf": names.map(complete).collect::<Vec<_>>() })
}

/// An absent value is absent; schemars would also allow `null`.
fn forbid_null(schema: &mut Json) {
    let is_null = |form: &Json| form.get("type").and_then(Json::as_str) == Some("null");
    if let Some(forms) = schema.get_mut("anyOf").and_then(Json::as_array_mut) {
        forms.retain(|form| !is_null(form));
        if let [only] = &mut forms[..] {
            let only = only.take();
            let map = schema.as_object_mut().expect("it has a key");
            map.remove("anyOf");
            match only {
                // Draft 7 ignores what stands beside a reference, hence the wrapping.
                reference if reference.get("$ref").is_some() && !map.is_empty() => {
                    map.insert("allOf".to_owned(), json!([reference]));
                }
                Json::Object(only) => map.extend(only),
                _ => {}
            }
        }
    }
    if let Some(kinds) = schema.get_mut("type").and_then(Json::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [only] = &mut kinds[..] {
            schema["type"] = only.take();
        }
    }
    children(schema).for_each(forbid_null);
}

/// Joins the lines of each paragraph of the documentation, which wraps as code does.
fn join_lines(schema: &mut Json) {
    if let Some(Json::String(text)) = schema.get_mut("description") {
        let paragraphs: Vec<String> = text.split("\n\n").map(|lines| lines.replace('\n', " ")).collect();
        *text = paragraphs.join("\n\n");
    }
    children(schema).for_each(join_lines);
}

/// Lets a map of settings leave out every entry, and say `none` to remove an inherited one that has no default.
fn allow_omissions(definition: &mut Json) {
    let Some(map) = definition.as_object_mut() else { return };
    let required = map.remove("required").unwrap_or_default();
    for (name, entry) in map.get_mut("properties").and_then(Json::as_object_mut).into_iter().flatten() {
        let needed = required.as_array().is_some_and(|names| names.iter().any(|needed| needed == name));
        if let Some(fields) =
            entry.as_object_mut().filter(|fields| !needed && !fields.contains_key("default"))
        {
            let description = fields.remove("description");
            let value = std::mem::take(fields);
            fields.extend(description.map(|text| ("description".to_owned(), text)));
            fields.insert("anyOf".to_owned(), json!([value, { "type": "string", "pattern": "^none$" }]));
        }
    }
}

fn children(schema: &mut Json) -> Box<dyn Iterator<Item = &mut Json> + '_> {
    match schema {
        Json::Object(map) => Box::new(map.values_mut()),
        Json::Array(items) => Box::new(items.iter_mut()),
        _ => Box::new(std::iter::empty()),
    }
}
