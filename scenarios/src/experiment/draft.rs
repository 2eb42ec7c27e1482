//! A file taken apart: what it says about the experiment, and the settings of its runs.

use hw_models::catalogue::nearest;

use crate::schema::document::EXPERIMENT_KEYS;
use crate::schema::shape::Shape;
use crate::text::node::{Map, Node, Value, shorten};
use crate::text::problem::Problem;
use crate::text::source::Mark;

use super::merge::{merge, merge_entries};

/// The two halves of a file.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// `name`, `variants`, `sweep` and so on.
    pub(super) head: Map,
    /// `model`, `training` and so on: a map.
    pub(super) settings: Node,
}

impl Draft {
    /// Takes a whole file apart; unknown keys are problems and left out.
    pub(super) fn of(root: Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let mark = root.mark;
        let problem = match root.value {
            Value::Map(map) => return Some(Self::split(map, mark, problems)),
            Value::Null => Problem::new(mark, "the file is empty"),
            other => Problem::new(mark, format!("a scenario is a map, not {}", other.describe())),
        };
        problems
            .push(problem.help("begin with `name: ...` and `model: ...`; `foretrain new` writes an example"));
        None
    }

    fn split(map: Map, mark: Mark, problems: &mut Vec<Problem>) -> Self {
        let settings_keys = Shape::scenario().names();
        let (mut head, mut settings) = (Map::new(), Map::new());
        for (key, entry) in map {
            if EXPERIMENT_KEYS.contains(&key.as_str()) {
                head.insert(key, entry);
            } else if settings_keys.contains(&key.as_str()) {
                settings.insert(key, entry);
            } else {
                let known: Vec<&str> = EXPERIMENT_KEYS.iter().chain(&settings_keys).copied().collect();
                problems.push(
                    Problem::new(entry.key, format!("this version has no key `{}`", shorten(&key)))
                        .help(nearest::remedy(&key, &known, "key")),
                );
            }
        }
        Self { head, settings: Node::new(mark, Value::Map(settings)) }
    }

    /// True if it says nothing that a scenario says.
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty() && matches!(&self.settings.value, Value::Map(map) if map.is_empty())
    }

    /// What it extends, and where it says so.
    pub(super) fn extends(&self, problems: &mut Vec<Problem>) -> Option<(String, Mark)> {
        let entry = self.head.get("extends")?;
        match entry.node.as_text().filter(|path| !path.trim().is_empty()) {
            Some(path) => Some((path.to_owned(), entry.node.mark)),
            None => {
                let message = format!("`extends` must be one path, not {}", entry.node.value.describe());
                problems.push(Problem::new(entry.node.mark, message).help("write a file or `library:NAME`"));
                None
            }
        }
    }

    /// This experiment, changed by what `child` says.
    pub(super) fn extended_by(mut self, child: Self) -> Self {
        merge(&mut self.settings, child.settings, Some(Shape::scenario()));
        for (key, entry) in child.head {
            match self.head.get_mut(&key) {
                Some(inherited) if matches!(key.as_str(), "variants" | "sweep") => {
                    merge_entries(inherited, entry, key == "variant");
                }
                _ => {
                    self.head.insert(key, entry);
                }
            }
        }
        self
    }
}
