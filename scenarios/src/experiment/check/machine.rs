//! Whether a machine can be built, and where its description is wrong.

use std::sync::Arc;

use hw_models::machine::{Machine, Place};
use workloads::diagnostic::split;

use super::Check;
use crate::constants::Constants;
use crate::schema;
use crate::text::node::{Node, Value};

impl Check<'_> {
    /// The machine, if nothing is wrong with it.
    pub(super) fn machine(
        &mut self,
        settings: &schema::Machine,
        constants: &Constants,
    ) -> Option<Arc<Machine>> {
        let built = constants.machine(settings);
        for error in built.as_ref().err().into_iter().flatten() {
            let found = |name| find(self.tree.child("machine")?, name);
            let path = match &error.place {
                Place::Machine => "machine".to_owned(),
                Place::Name(name) => {
                    found(name).map_or("machine".to_owned(), |path| format!("machine.{path}"))
                }
                Place::Setting(setting) => format!("{}.{setting}", settings.path()),
            };
            let text = error.to_string();
            let (message, help) = split(&text);
            self.report(&[(&path, String::new())], message, help);
        }
        built.ok()
    }
}

/// The path to the first text that is, or names, `wanted`.
fn find(node: &Node, wanted: &str) -> Option<String> {
    let below = |key: &str, child: &Node| match &child.value {
        Value::Text(text) if text.contains(wanted) => Some(key.to_owned()),
        _ => find(child, wanted).map(|path| format!("{key}.{path}")),
    };
    match &node.value {
        Value::Map(map) => map.iter().find_map(|(key, entry)| below(key, &entry.node)),
        Value::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| below(&index.to_string(), item))
        }
        _ => None,
    }
}
