//! Plans as the arguments of training frameworks, and back.
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
mod export;
mod file;
mod import;
mod megatron;
mod rules;
mod shell;
mod tree;

use rules::{Conversions, Table};

pub use export::{Exported, Line, export};
pub use import::{Assumed, Given, Ignored, Imported, Options, Understood, import};
pub use shell::quoted;

/// A training framework.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    name: &'static str,
    table: fn() -> &'static Table,
    conversions: Conversions,
}

impl Target {
    /// Megatron-LM, by the arguments of its training programs.
    pub const MEGATRON: Self = megatron::MEGATRON;

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    fn table(self) -> &'static Table {
        (self.table)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Shape;

    #[test]
    fn tables_name_settings_and_conversions_that_there_are() {
        let table = Target::MEGATRON.table();
        let is_setting = |path: &str| Shape::scenario().at(&path.split('.').collect::<Vec<_>>()).is_some();
        let of_rules = table.rules.iter().flat_map(rules::Rule::paths);
        let paths = of_rules.chain(table.beside.iter().chain(&table.spelled).map(String::as_str));
        for path in paths.chain(table.absent.keys().map(String::as_str)) {
            assert!(is_setting(path), "{path}");
        }
        for rule in &table.rules {
            for name in rule.conversions() {
                assert!((Target::MEGATRON.conversions)(name).is_some(), "{name}");
            }
        }
    }
}
