//! Whether a machine can be built, and where its description is wrong.

use hw_models::machine::{Machine, MachineError};
use workloads::diagnostic::split;

use super::Check;
use crate::constants::Constants;
use crate::plans;
use crate::schema;
use crate::text::node::{Node, Value};

impl Check<'_> {
    /// The machine, if nothing is wrong with it.
    pub(super) fn machine(&mut self, settings: &schema::Machine, constants: &Constants) -> Option<Machine> {
        let clear = self.slow_parts(settings);
        match plans::machine::build(settings, constants.devices()) {
            Ok(machine) => Some(machine).filter(|_| clear),
            Err(errors) => {
                let (path, _) = plans::machine::described(settings);
                for error in errors {
                    self.machine_error(path, &error);
                }
                None
            }
        }
    }

    /// Whether every line of `degrade` says what is slow and how slow.
    fn slow_parts(&mut self, settings: &schema::Machine) -> bool {
        let (path, lines) = plans::machine::described(settings);
        let mut clear = true;
        for (index, _) in lines.iter().enumerate().filter(|(_, line)| plans::machine::slowed(line).is_none())
        {
            let path = format!("{path}.degrade.{index}");
            let message = "a slow part has one name and one share that is left";
            let help = "write `{ link: FROM -> TO, rate: 50 % }`, `{ part: NAME, rate: 50 % }` or `{ part: NAME, clock: 80 % }`";
            self.report(&[(&path, String::new())], message, help);
            clear = false;
        }
        clear
    }

    /// Reports an error of the machine described at `path` at the text that it is about.
    fn machine_error(&mut self, path: &str, error: &MachineError) {
        let culprit = match error {
            MachineError::Unknown(entry) => Some(&entry.name),
            MachineError::UnknownPart(part) => Some(&part.name),
            MachineError::NoNics { node, .. }
            | MachineError::NoFabric { node, .. }
            | MachineError::NoModel { node, .. }
            | MachineError::NoSocketLink { node }
            | MachineError::NoSuchRoot { node, .. }
            | MachineError::BadPair { node, .. } => Some(node),
            MachineError::NvLinks { model, .. } => Some(model),
            MachineError::DuplicatePart { name } => Some(name),
            MachineError::DuplicateLink { a, .. } | MachineError::BadLink { a, .. } => Some(a),
            MachineError::UnknownLink { link, .. } => Some(link),
            MachineError::NoClock { part } => Some(part),
            MachineError::BadConstant { of, .. } => Some(of),
            MachineError::Set(_)
            | MachineError::NoNodes
            | MachineError::NoGpus { .. }
            | MachineError::TooManyGpus { .. }
            | MachineError::TooManyParts { .. } => None,
        };
        let machine = self.tree.child("machine");
        let found = culprit.zip(machine).and_then(|(text, machine)| find(machine, text.trim_matches('`')));
        let path = match error {
            MachineError::TooManyGpus { .. } => "machine.cluster.count".to_owned(),
            MachineError::Set(error) => match error.place() {
                (part, None) => format!("{path}.set.{part}"),
                (part, Some(setting)) => format!("{path}.set.{part}.{setting}"),
            },
            _ => found.map_or("machine".to_owned(), |path| format!("machine.{path}")),
        };
        let text = error.to_string();
        let (message, help) = split(&text);
        self.report(&[(&path, String::new())], message, help);
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
