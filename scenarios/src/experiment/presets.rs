//! Presets of techniques: settings of real systems, laid below what a scenario says.

use hw_models::catalogue::nearest;
use indexmap::IndexMap;

use super::layers::Layers;
use super::merge;
use crate::catalogue;
use crate::schema::shape::Shape;
use crate::text::node::{Node, Value, shorten};
use crate::text::problem::Problem;
use crate::text::source::{Mark, Sources};
use crate::text::yaml;

/// The setting that names them.
pub(super) const PRESETS: [&str; 2] = ["techniques", "presets"];
const ABOUT: [&str; 2] = ["techniques", "techniques.presets"];

/// Settings of presets that an experiment names, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Presets(IndexMap<String, Node>);

impl Presets {
    /// Reads the presets that any layer names; what is no preset is reported where it is used.
    pub(super) fn read(layers: &Layers, sources: &mut Sources) -> Self {
        let mut presets = Self::default();
        for layer in layers.saying(&ABOUT) {
            for (name, _) in named(&layer) {
                let Some(preset) = catalogue::technique_presets().get(name) else { continue };
                if !presets.0.contains_key(name) {
                    let source = sources.add(format!("preset {name}"), &*preset.settings);
                    let settings = yaml::parse(sources, source, &mut Vec::new());
                    presets.0.extend(settings.map(|settings| (name.to_owned(), settings)));
                }
            }
        }
        presets
    }

    /// Settings with those of the presets that they name. Unknown names, and presets that say
    /// different things, go to `problems`.
    pub(super) fn below(&self, tree: Node, problems: &mut Vec<Problem>) -> Node {
        let (path, mut laid) = (PRESETS[0], None::<Node>);
        for (name, mark) in named(&tree) {
            let Some(settings) = self.0.get(name) else {
                problems.push(unknown(name, mark));
                continue;
            };
            let settings = Node::nest(&[path], settings.clone());
            let Some(laid) = &mut laid else {
                laid = Some(settings);
                continue;
            };
            if let Some(differs) = contradiction(laid, &settings) {
                let message = format!("`{name}` says something else of `{differs}` than a preset before it");
                problems.push(Problem::new(mark, message).help("remove one of the two"));
            }
            merge::merge(laid, settings, Some(Shape::scenario()));
        }
        let Some(mut laid) = laid else { return tree };
        merge::merge(&mut laid, tree, Some(Shape::scenario()));
        laid
    }
}

/// Names of presets in a layer of settings, and where they stand.
fn named(layer: &Node) -> impl Iterator<Item = (&str, Mark)> {
    let list = layer.at(&PRESETS).map(|node| &node.value);
    let names = if let Some(Value::List(names)) = list { &names[..] } else { &[] };
    names.iter().filter_map(|name| Some((name.as_text()?, name.mark)))
}

fn unknown(name: &str, mark: Mark) -> Problem {
    let known = catalogue::technique_presets().keys().map(String::as_str);
    let help = nearest::closest(name, known).map_or_else(
        || "`foretrain list presets` has the names".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Problem::new(mark, format!("there is no preset `{}`", shorten(name))).help(help)
}

/// The first setting of which two trees say different things.
fn contradiction(a: &Node, b: &Node) -> Option<String> {
    let (Value::Map(first), Value::Map(second)) = (&a.value, &b.value) else {
        return (a.value.plain() != b.value.plain()).then(String::new);
    };
    let differs = |(key, entry): (&String, &_)| {
        let below = contradiction(&first.get(key)?.node, entry)?;
        Some(if below.is_empty() { key.clone() } else { format!("{key}.{below}") })
    };
    second.iter().find_map(|(key, entry)| differs((key, &entry.node)))
}
