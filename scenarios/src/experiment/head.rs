//! Name, description and variants of an experiment.

use hw_models::catalogue::nearest;
use indexmap::IndexMap;

use super::BASE;
use crate::schema::shape::Shape;
use crate::text::node::{Layer, Map, Node, Value, shorten};
use crate::text::problem::Problem;
use crate::text::source::Mark;

const MAX_NAME: usize = 100;
const MAX_VARIANTS: usize = 64;

/// The name; a scenario whose settings begin at `start` must have one.
pub(super) fn name(head: &Map, start: Mark, problems: &mut Vec<Problem>) -> String {
    let help = "write `name:` and a few words; the results are stored under it";
    let problem = match head.get("name") {
        None => Problem::new(start, "the experiment has no name"),
        Some(entry) => match entry.node.value.plain().trim() {
            name if matches!(entry.node.value, Value::Map(_) | Value::List(_) | Value::Null)
                || name.is_empty() =>
            {
                Problem::new(
                    entry.node.mark,
                    format!("`name` must be a text, not {}", entry.node.value.describe()),
                )
            }
            name if name.chars().count() > MAX_NAME || name.chars().any(char::is_control) => Problem::new(
                entry.node.mark,
                format!("`name` must be one line of at most {MAX_NAME} characters"),
            ),
            name => return name.to_owned(),
        },
    };
    problems.push(problem.help(help));
    String::new()
}

/// The description, if there is one.
pub(super) fn description(head: &Map, problems: &mut Vec<Problem>) -> Option<String> {
    let node = &head.get("description")?.node;
    if node.as_text().is_none() {
        let message = format!("`description` must be a text, not {}", node.value.describe());
        problems.push(Problem::new(node.mark, message).help("put it in quotes"));
    }
    node.as_text().map(|text| text.trim().to_owned())
}

/// The variants and their patches; one empty patch where the file has none. `start` is where settings begin.
pub(super) fn variants(head: &Map, start: Mark, problems: &mut Vec<Problem>) -> IndexMap<String, Node> {
    let nothing = || Node::new(start, Value::Map(Map::new()));
    let map = match head.get("variants").map(|entry| &entry.node) {
        None => return IndexMap::from([(BASE.to_owned(), nothing())]),
        Some(node) => match &node.value {
            Value::Map(map) if !map.is_empty() => map,
            other => {
                let found = if node.as_map().is_some() { "empty".to_owned() } else { other.describe() };
                let message = format!("`variants` must be a map from names to settings, not {found}");
                let help = "write `variants: { base: {}, other: { parallelism: { schedule: gpipe } } }`";
                problems.push(Problem::new(node.mark, message).help(help));
                return IndexMap::from([(BASE.to_owned(), nothing())]);
            }
        },
    };
    if map.len() > MAX_VARIANTS {
        let message = format!("the experiment has {} variants, more than {MAX_VARIANTS}", map.len());
        let mark = head["variants"].key;
        problems.push(Problem::new(mark, message).help("sweep the setting that they differ in"));
    }
    let patch = |(name, entry): (&String, &crate::text::node::Entry)| {
        check_name(name, entry.key, problems);
        let patch = match &entry.node.value {
            Value::Null => nothing(),
            Value::Map(_) => with_known_keys(&entry.node, name, problems),
            other => {
                let message = format!(
                    "variant `{}` must be a map of settings, not {}",
                    shorten(name),
                    other.describe()
                );
                problems.push(
                    Problem::new(entry.node.mark, message).help("write `{}` for the experiment as it is"),
                );
                nothing()
            }
        };
        (name.clone(), patch.on(Layer::Variant))
    };
    map.iter().take(MAX_VARIANTS).map(patch).collect()
}

fn check_name(name: &str, mark: Mark, problems: &mut Vec<Problem>) {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | ' ');
    if name.trim().is_empty() || name.chars().count() > MAX_NAME || !name.chars().all(fits) {
        let message = format!("`{}` cannot name a variant", shorten(name));
        let help = format!("use letters, digits and `-`, at most {MAX_NAME} of them");
        problems.push(Problem::new(mark, message).help(help));
    }
}

/// The patch without top-level keys that are no settings; each is a problem.
fn with_known_keys(patch: &Node, name: &str, problems: &mut Vec<Problem>) -> Node {
    let known = Shape::scenario().names();
    let mut patch = patch.clone();
    if let Some(map) = patch.as_map_mut() {
        map.retain(|key, entry| {
            let keep = known.contains(&key.as_str());
            if !keep {
                let message = format!("unknown key `{}` in the variant `{}`", shorten(key), shorten(name));
                problems.push(Problem::new(entry.key, message).help(nearest::remedy(key, &known, "setting")));
            }
            keep
        });
    }
    patch
}
