//! What can be wrong with the description of a machine.

use crate::catalogue::UnknownEntry;

use super::wiring::PARTS_MAX;

/// A fault of the description of a machine, in a sentence that ends with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct MachineError {
    text: String,
    /// Where the description is wrong.
    pub place: Place,
}

/// A place in the description of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All of it.
    Machine,
    /// A name of a part or of an entry of the catalogue, wherever it stands.
    Name(String),
    /// A setting, such as `count` or `degrade.0`.
    Setting(String),
}

impl MachineError {
    /// A fault of what has a name.
    pub(super) fn of(name: &str, text: impl Into<String>) -> Self {
        Self { text: text.into(), place: Place::Name(name.to_owned()) }
    }

    /// A fault of a setting.
    pub(super) fn of_setting(setting: impl Into<String>, text: impl Into<String>) -> Self {
        Self { text: text.into(), place: Place::Setting(setting.into()) }
    }

    /// No GPU in a node, or among parts.
    pub(super) fn no_gpus(machine: &str) -> Self {
        Self { text: format!("{machine} has no GPU: give it at least one"), place: Place::Machine }
    }

    /// Too many parts in one node, or spelled out.
    pub(super) fn too_many_parts(parts: u64) -> Self {
        let text = format!(
            "{parts} parts or links are more than the {PARTS_MAX} a node may have: use a cluster of several nodes"
        );
        Self { text, place: Place::Machine }
    }

    /// A number that no hardware has.
    pub(super) fn bad_constant(of: &str, name: &str, value: f64, expected: &str) -> Self {
        Self::of(of.trim_matches('`'), format!("`{name}` of {of} is {value}: {expected}"))
    }
}

impl From<UnknownEntry> for MachineError {
    fn from(entry: UnknownEntry) -> Self {
        Self::of(&entry.name, entry.to_string())
    }
}

impl From<UnknownPart> for MachineError {
    fn from(part: UnknownPart) -> Self {
        Self::of(&part.name, part.to_string())
    }
}

/// A name that no part has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the machine has no part `{name}`: {remedy}")]
pub struct UnknownPart {
    /// As written.
    pub name: String,
    /// The nearest name, or what there is.
    pub remedy: String,
}

/// Two parts that no path joins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no path leads from `{from}` to `{to}`: link them, or what they hang on")]
pub struct NoRoute {
    /// Where it should begin.
    pub from: String,
    /// Where it should end.
    pub to: String,
}
