//! Plans as the arguments or documents of training frameworks, and back.
//!
//! ```text
//! scenario --export--> arguments, each with the setting that it says
//!    ^                     |
//!    +-------import--------+   both read one table of the target, in two directions
//! ```
//!
//! A target is a table of correspondences and a few conversions. An export proves itself: the
//! arguments are imported, and a setting that does not come back is one that the target cannot say,
//! which is refused by name.

mod command;
mod container;
mod conversions;
mod deepspeed;
mod document;
mod export;
mod file;
mod import;
mod layout;
mod machine;
mod megatron;
mod megatron_bridge;
mod reading;
mod releases;
mod rules;
mod shell;
mod torchtitan;
mod tree;
mod written;

use rules::{Conversions, Table};
use serde::{Serialize, Serializer};

pub use export::{Exported, Line, export};
pub use import::{Assumed, Given, Ignored, Imported, Options, Understood, import};
pub use shell::quoted;

/// A training framework.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    name: &'static str,
    form: Form,
    table: fn() -> &'static Table,
    conversions: Conversions,
}

impl Target {
    /// Megatron-LM, by the arguments of its training programs.
    pub const MEGATRON: Self = megatron::MEGATRON;
    /// DeepSpeed, by its JSON configuration.
    pub const DEEPSPEED: Self = deepspeed::DEEPSPEED;
    /// Torchtitan, by the TOML file of a job.
    pub const TORCHTITAN: Self = torchtitan::TORCHTITAN;
    /// Megatron-Bridge, by the YAML of its `ConfigContainer` or overrides of one; NeMo 2 by paths.
    pub const MEGATRON_BRIDGE: Self = megatron_bridge::MEGATRON_BRIDGE;

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    fn table(self) -> &'static Table {
        (self.table)()
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// Form in which a framework is told a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Arguments of a command.
    Arguments,
    /// JSON with comments.
    Json,
    /// TOML.
    Toml,
    /// YAML of a Python object.
    Yaml,
}

impl Form {
    fn noun(self) -> &'static str {
        if self == Self::Arguments { "argument" } else { "key" }
    }

    fn a_noun(self) -> &'static str {
        if self == Self::Arguments { "an argument" } else { "a key" }
    }

    fn title(self) -> &'static str {
        if self == Self::Arguments { "Argument" } else { "Key" }
    }

    /// True if the value `auto` leaves a key to the caller, as Hugging Face's Trainer reads JSON.
    fn has_auto(self) -> bool {
        self == Self::Json
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Shape;

    #[test]
    fn tables_name_settings_and_conversions_that_there_are() {
        for target in [Target::MEGATRON, Target::DEEPSPEED, Target::TORCHTITAN, Target::MEGATRON_BRIDGE] {
            let table = target.table();
            let is_setting =
                |path: &str| Shape::scenario().at(&path.split('.').collect::<Vec<_>>()).is_some();
            let of_rules = table.rules.iter().flat_map(rules::Rule::paths);
            let paths = of_rules.chain(table.beside.iter().chain(&table.spelled).map(String::as_str));
            let paths = paths.chain(table.needed.keys().map(String::as_str));
            for path in paths.chain(table.absent.keys().map(String::as_str)) {
                assert!(is_setting(path), "{path}");
            }
            for rule in &table.rules {
                for name in rule.conversions() {
                    assert!((target.conversions)(name).is_some(), "{name}");
                }
            }
            for key in table.texts.iter().chain(&table.lists).chain(table.defaults.keys()) {
                assert!(table.meaning(key).is_some(), "{key}");
            }
        }
    }
}
