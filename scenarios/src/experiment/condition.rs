//! `where`: simple comparisons that a point of the sweep must meet.

use super::sweep::Axis;
use super::{paths, sweep};
use crate::schema::{Figure, FigureKind};
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

    /// Reads every value that it can have at points of `axes`, over `settings`: there may be a million points.
    pub(super) fn prepare(&self, axes: &[Axis], settings: &Node) -> Prepared {
        let right = match &self.right {
            Operand::Path(path) => Values::of(path, axes, settings),
            Operand::Value(text) => Values { stride: 1, read: vec![Some(Read::of(text))] },
        };
        Prepared { left: Values::of(&self.left, axes, settings), comparison: self.comparison, right }
    }
}

/// A condition with its values, to be asked about many points.
pub(super) struct Prepared {
    left: Values,
    comparison: Comparison,
    right: Values,
}

/// The values of an operand: those of the axis that it is swept on, or a single one.
struct Values {
    /// Points from one value of the axis to the next.
    stride: u64,
    read: Vec<Option<Read>>,
}

/// A value to be compared.
enum Read {
    Number(FigureKind, f64),
    Text(String),
}

impl Prepared {
    /// True if the point of `index` meets the condition. Values that cannot be compared do not.
    pub(super) fn holds(&self, index: u64) -> bool {
        match (self.left.at(index), self.right.at(index)) {
            (Some(Read::Number(kind, left)), Some(Read::Number(other, right))) if kind == other => {
                self.comparison.of(left, right)
            }
            (Some(Read::Text(left)), Some(Read::Text(right))) => self.comparison.of(left, right),
            _ => false,
        }
    }
}

impl Values {
    fn of(path: &str, axes: &[Axis], settings: &Node) -> Self {
        let read = |node: &Node| Some(Read::of(&node.value.plain()));
        let place = |axis: &Axis| axis.paths.iter().position(|swept| swept == path);
        let swept = axes.iter().enumerate().find_map(|(at, axis)| Some((at, axis, place(axis)?)));
        match swept {
            Some((at, axis, place)) => Self {
                stride: sweep::size(&axes[at + 1..]),
                read: (0..axis.len()).map(|index| read(&axis.value(index)[place])).collect(),
            },
            None => Self { stride: 1, read: vec![settings.at(&paths::keys(path)).and_then(read)] },
        }
    }

    fn at(&self, index: u64) -> Option<&Read> {
        self.read[(index / self.stride % self.read.len() as u64) as usize].as_ref()
    }
}

impl Read {
    fn of(text: &str) -> Self {
        match Figure::parse(text) {
            Some(figure) => Self::Number(figure.kind, figure.value),
            None => Self::Text(text.to_owned()),
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
