//! `where`: simple comparisons that a point of the sweep must meet.

use super::paths;
use super::sweep::Point;
use crate::schema::Figure;
use crate::text::node::{Node, Value, shorten};
use crate::text::problem::Problem;
use crate::text::source::Mark;

/// `PATH <= VALUE`, where the value may be a path too.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    left: String,
    comparison: Comparison,
    right: Operand,
}

#[derive(Clone, Debug)]
enum Operand {
    Path(String),
    Value(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Equal,
    NotEqual,
    AtLeast,
    Greater,
}

/// Longer signs first, so that `<=` is not read as `<`.
const SIGNS: [(&str, Comparison); 6] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// The conditions of `where:`, over `settings` as they are without variants.
pub(super) fn read(
    list: &Node,
    settings: &Node,
    swept: &[&str],
    problems: &mut Vec<Problem>,
) -> Vec<Condition> {
    let Value::List(items) = &list.value else {
        let message = format!("`where` must be a list, not {}", list.value.describe());
        problems
            .push(Problem::new(list.mark, message).help("write `where: [\"training.micro_batches >= 8\"]`"));
        return Vec::new();
    };
    let mut conditions = Vec::new();
    for item in items {
        let condition = item
            .as_text()
            .and_then(Condition::parse)
            .ok_or_else(|| {
                Problem::new(
                    item.mark,
                    format!("a condition must be a comparison, not {}", item.value.describe()),
                )
                .help("write `PATH < VALUE` with one of <, <=, ==, !=, >=, >")
            })
            .and_then(|condition| condition.check(settings, swept, item.mark));
        match condition {
            Ok(condition) => conditions.push(condition),
            Err(problem) => problems.push(problem),
        }
    }
    conditions
}

impl Condition {
    fn parse(text: &str) -> Option<Self> {
        let (at, sign, comparison) = SIGNS
            .iter()
            .filter_map(|&(sign, comparison)| Some((text.find(sign)?, sign, comparison)))
            .min_by_key(|&(at, sign, _)| (at, usize::MAX - sign.len()))?;
        let (left, right) = (text[..at].trim(), text[at + sign.len()..].trim());
        if left.is_empty() || right.is_empty() {
            return None;
        }
        let is_path = paths::check(right, Mark::nowhere()).is_ok();
        let right = if is_path { Operand::Path(right.to_owned()) } else { Operand::Value(right.to_owned()) };
        Some(Self { left: left.to_owned(), comparison, right })
    }

    fn check(self, settings: &Node, swept: &[&str], mark: Mark) -> Result<Self, Problem> {
        paths::check(&self.left, mark)?;
        let paths = [Some(&self.left), self.right.path()];
        for path in paths.into_iter().flatten() {
            let written = || settings.at(&paths::keys(path)).is_some();
            if !swept.contains(&path.as_str()) && !written() {
                return Err(Problem::new(
                    mark,
                    format!("this condition is about `{}`, which is neither swept nor set", shorten(path)),
                )
                .help("conditions compare swept settings and settings above the variants"));
            }
        }
        let ordered = !matches!(self.comparison, Comparison::Equal | Comparison::NotEqual);
        match &self.right {
            Operand::Value(value) if ordered && Figure::parse(value).is_none() => {
                Err(Problem::new(mark, format!("`{}` is no number to compare with", shorten(value)))
                    .help("compare texts with == or !="))
            }
            _ => Ok(self),
        }
    }

    /// Whether `point` meets the condition. What cannot be compared does not.
    pub(super) fn holds(&self, point: &Point, settings: &Node) -> bool {
        let value = |path: &str| {
            let swept = point.values.iter().find(|(swept, _)| swept == path).map(|(_, node)| node);
            swept.or_else(|| settings.at(&paths::keys(path))).map(|node| node.value.plain())
        };
        let right = match &self.right {
            Operand::Path(path) => value(path),
            Operand::Value(text) => Some(text.clone()),
        };
        let (Some(left), Some(right)) = (value(&self.left), right) else { return false };
        match (Figure::parse(&left), Figure::parse(&right)) {
            (Some(left), Some(right)) if left.kind == right.kind => {
                self.comparison.of(&left.value, &right.value)
            }
            (None, None) => self.comparison.of(left.as_str(), right.as_str()),
            _ => false,
        }
    }
}

impl Operand {
    fn path(&self) -> Option<&String> {
        match self {
            Self::Path(path) => Some(path),
            Self::Value(_) => None,
        }
    }
}

impl Comparison {
    fn of<T: PartialOrd + ?Sized>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::AtLeast => left >= right,
            Self::Greater => left > right,
        }
    }
}
