//! Axes of a sweep and their points, which are made only when asked for.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths;
use crate::schema::{Count, Figure, document, meaning, same_meaning, shape::Shape, split_quantity};
use crate::text::decode::decode;
use crate::text::node::{Entry, Layer, Map, Node, Value, shorten};
use crate::text::problem::Problem;
use crate::text::source::Mark;

/// The most points of a sweep.
pub(crate) const MAX_POINTS: u64 = 1_000_000;
/// The most values written out on one axis.
pub(crate) const MAX_LISTED: usize = 10_000;

/// Settings that take several values, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The swept paths; several change together.
    pub(crate) paths: Vec<String>,
    values: Values,
    mark: Mark,
    /// What its listed values mean, for each path; only statements about points need it.
    meanings: OnceLock<Vec<BTreeSet<String>>>,
}

#[derive(Clone, Debug)]
enum Values {
    /// For each value one node per path.
    Listed(Vec<Vec<Node>>),
    Spaced(Spaced),
}

/// Values at equal distances, or at equal ratios.
#[derive(Clone, Debug)]
struct Spaced {
    from: f64,
    to: f64,
    unit: String,
    steps: u64,
    scale: Scale,
    mark: Mark,
}

/// One point of the sweep: swept paths and their values, the first axis first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    pub(super) values: Vec<(String, Node)>,
}

/// `{ from, to, steps, scale }`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spacing {
    /// First value.
    from: Figure,
    /// Last value, in the same unit.
    to: Figure,
    /// Number of values, both ends included.
    steps: Count<2, MAX_POINTS>,
    /// Equal differences, or equal ratios.
    #[serde(default)]
    scale: Scale,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Scale {
    /// Equal differences.
    #[default]
    Linear,
    /// Equal ratios.
    Log2,
}

impl Point {
    /// Swept path to value as text, for results; empty without sweep.
    pub fn values(&self) -> IndexMap<String, String> {
        self.values.iter().map(|(path, node)| (path.clone(), node.value.plain())).collect()
    }
}

/// The axes of `sweep:`.
pub(super) fn read(sweep: &Node, problems: &mut Vec<Problem>) -> Vec<Axis> {
    let Value::Map(map) = &sweep.value else {
        let message = format!("`sweep` must be a map, not {}", sweep.value.describe());
        problems.push(
            Problem::new(sweep.mark, message).help("write `sweep: { training.micro_batches: [8, 16, 32] }`"),
        );
        return Vec::new();
    };
    let axes = axes(map, problems);
    check_size(&axes, sweep.mark, problems);
    axes
}

/// Axes by their paths.
pub(super) fn axes(map: &Map, problems: &mut Vec<Problem>) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for (key, entry) in map {
        let Some(axis) = read_axis(key, entry, problems) else { continue };
        match axis.paths.iter().find_map(|path| axes.iter().find(|other| other.paths.contains(path))) {
            Some(other) => problems.push(
                Problem::new(entry.key, format!("`{}` is swept by two axes", shorten(key)))
                    .note(other.mark, "also here")
                    .help("give all its values on one axis"),
            ),
            None => axes.push(axis),
        }
    }
    axes
}

/// The number of points; saturates.
pub(super) fn size(axes: &[Axis]) -> u64 {
    axes.iter().fold(1, |size, axis| size.saturating_mul(axis.len()))
}

/// The point of `index` in the order in which the last axis changes fastest.
pub(super) fn point(axes: &[Axis], index: u64) -> Point {
    let of_axis = |(axis, digit): (&Axis, u64)| axis.paths.clone().into_iter().zip(axis.value(digit));
    Point { values: axes.iter().zip(digits(axes, index)).flat_map(of_axis).collect() }
}

/// Numbers of the values on each axis of the point of `index`.
pub(crate) fn digits(axes: &[Axis], mut index: u64) -> Vec<u64> {
    let mut digits: Vec<u64> = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        digits.push(index % axis.len());
        index /= axis.len();
    }
    digits.reverse();
    digits
}

impl Axis {
    /// True if its values are a range, not a list.
    pub(crate) fn is_spaced(&self) -> bool {
        matches!(self.values, Values::Spaced(_))
    }

    /// An axis over one path.
    pub(super) fn listed(path: String, values: Vec<Node>, mark: Mark) -> Self {
        let values = Values::Listed(values.into_iter().map(|value| vec![value]).collect());
        Self { paths: vec![path], values, mark, meanings: OnceLock::new() }
    }

    pub(super) const fn mark(&self) -> Mark {
        self.mark
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.values {
            Values::Listed(values) => values.len() as u64,
            Values::Spaced(spaced) => spaced.steps,
        }
    }

    /// One node per path.
    pub(crate) fn value(&self, index: u64) -> Vec<Node> {
        match &self.values {
            Values::Listed(values) => values[index as usize].clone(),
            Values::Spaced(spaced) => vec![spaced.value(index)],
        }
    }

    /// Whether a point has `value`, as text, at `path`.
    pub(crate) fn has(&self, path: &str, value: &str) -> bool {
        let Some(place) = self.paths.iter().position(|swept| swept == path) else { return false };
        match &self.values {
            Values::Listed(values) => {
                let wanted = meaning(value);
                self.meanings
                    .get_or_init(|| meanings(values))
                    .get(place)
                    .is_some_and(|known| known.contains(&wanted))
            }
            Values::Spaced(spaced) => spaced.has(value),
        }
    }

    /// The first values of `path`, as text.
    pub(crate) fn first_values(&self, path: &str, count: u64) -> Vec<String> {
        let place = self.paths.iter().position(|swept| swept == path).unwrap_or(0);
        (0..self.len().min(count)).map(|index| self.value(index)[place].value.plain()).collect()
    }

    /// The same axis with one value, for a path that the command line sets.
    pub(super) fn pin(&mut self, node: Node) {
        self.values = Values::Listed(vec![vec![node]]);
        self.meanings.take();
    }
}

impl Spaced {
    /// Looks only where the value would have to be.
    fn has(&self, value: &str) -> bool {
        let Some(figure) = Figure::parse(value) else { return false };
        let Some(unit) = Figure::parse(format!("1 {}", self.unit).trim_end()) else { return false };
        let number = figure.value / unit.value;
        let share = match self.scale {
            Scale::Linear => (number - self.from) / (self.to - self.from),
            Scale::Log2 => (number / self.from).log2() / (self.to / self.from).log2(),
        };
        let nearest = (share * (self.steps - 1) as f64).round();
        let near = |index: f64| {
            (0.0..self.steps as f64).contains(&index)
                && same_meaning(value, &self.value(index as u64).value.plain())
        };
        near(nearest - 1.0) || near(nearest) || near(nearest + 1.0)
    }

    fn value(&self, index: u64) -> Node {
        let share = index as f64 / (self.steps - 1) as f64;
        let number = match self.scale {
            _ if index == 0 => self.from,
            _ if index == self.steps - 1 => self.to,
            Scale::Linear => self.from + (self.to - self.from) * share,
            Scale::Log2 => self.from * ((self.to / self.from).log2() * share).exp2(),
        };
        let number = twelve_digits(number);
        let value = match self.unit.as_str() {
            "" if number.fract() == 0.0 && number.abs() < 9e15 => Value::Integer(number as i128),
            "" => Value::Float(number),
            unit => Value::Text(format!("{number} {unit}")),
        };
        Node { mark: self.mark, layer: Layer::Sweep, value }
    }
}

/// For each path, what the values listed for it mean.
fn meanings(values: &[Vec<Node>]) -> Vec<BTreeSet<String>> {
    let paths = values.first().map_or(0, Vec::len);
    (0..paths)
        .map(|place| values.iter().map(|nodes| meaning(&nodes[place].value.plain())).collect())
        .collect()
}

/// Rounded so that neither binary fractions nor the platform's logarithm show.
fn twelve_digits(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

fn read_axis(key: &str, entry: &Entry, problems: &mut Vec<Problem>) -> Option<Axis> {
    let names: Vec<&str> = match key.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(joined) => joined.split(',').map(str::trim).collect(),
        None => vec![key.trim()],
    };
    let mut known = true;
    for name in &names {
        if let Err(problem) = paths::check(name, entry.key) {
            problems.push(problem);
            known = false;
        }
    }
    if (1..names.len()).any(|later| names[..later].contains(&names[later])) {
        problems
            .push(Problem::new(entry.key, "a joined axis names one path twice").help("name each path once"));
        known = false;
    }
    let values = read_values(&names, entry, problems)?;
    let paths = names.iter().map(|&name| name.to_owned()).collect();
    known.then_some(Axis { paths, values, mark: entry.key, meanings: OnceLock::new() })
}

fn read_values(names: &[&str], entry: &Entry, problems: &mut Vec<Problem>) -> Option<Values> {
    let node = &entry.node;
    let axis = shorten(&names.join(", "));
    let problem = match &node.value {
        Value::List(items) if items.is_empty() => {
            Problem::new(node.mark, format!("the axis `{axis}` has no values"))
                .help("write `[first, second]`")
        }
        Value::List(items) if items.len() > MAX_LISTED => {
            Problem::new(node.mark, format!("the axis `{axis}` lists more than {MAX_LISTED} values"))
                .help("write `{ from: ..., to: ..., steps: ... }`")
        }
        Value::List(items) if names.len() == 1 => {
            return Some(Values::Listed(
                items.iter().map(|item| vec![item.clone().on(Layer::Sweep)]).collect(),
            ));
        }
        Value::List(items) => return read_joined(names, items, problems),
        Value::Map(_) if names.len() == 1 => return read_spacing(&axis, node, problems).map(Values::Spaced),
        other => Problem::new(
            node.mark,
            format!("the axis `{axis}` must be a list of values, not {}", other.describe()),
        )
        .help("write `[first, second]` or `{ from: 1, to: 8, steps: 4 }`"),
    };
    problems.push(problem);
    None
}

/// A list for each value, with an item for each path.
fn read_joined(names: &[&str], items: &[Node], problems: &mut Vec<Problem>) -> Option<Values> {
    let mut values = Vec::new();
    for item in items {
        match &item.value {
            Value::List(parts) if parts.len() == names.len() => {
                values.push(parts.iter().map(|part| part.clone().on(Layer::Sweep)).collect());
            }
            other => {
                let found = match other {
                    Value::List(parts) => format!("one of {}", parts.len()),
                    other => other.describe(),
                };
                let message = format!(
                    "a value of this joined axis must be a list of {} values, not {found}",
                    names.len()
                );
                problems.push(
                    Problem::new(item.mark, message).help("give one value for each path, in their order"),
                );
                return None;
            }
        }
    }
    Some(Values::Listed(values))
}

fn read_spacing(axis: &str, node: &Node, problems: &mut Vec<Problem>) -> Option<Spaced> {
    let schema = document::of::<Spacing>();
    let before = problems.len();
    let spacing: Spacing = decode(node, Shape::of(&schema), &format!("sweep.{axis}"), problems)?.value;
    if problems.len() > before {
        return None;
    }
    let (from, to) = (ends(&spacing.from), ends(&spacing.to));
    let problem = if from.1 != to.1 {
        let message = format!("`from` and `to` of the axis `{axis}` have different units");
        Problem::new(node.nearest_mark(&["to"]), message)
            .note(node.nearest_mark(&["from"]), "")
            .help("write both in one unit")
    } else if spacing.scale == Scale::Log2 && (from.0 <= 0.0 || to.0 <= 0.0) {
        Problem::new(
            node.nearest_mark(&["scale"]),
            format!("the axis `{axis}` cannot reach zero in equal ratios"),
        )
        .help("use `scale: linear`, or begin above zero")
    } else {
        let unit = from.1.to_owned();
        let (steps, scale) = (spacing.steps.get(), spacing.scale);
        return Some(Spaced { from: from.0, to: to.0, unit, steps, scale, mark: node.mark });
    };
    problems.push(problem);
    None
}

/// Number and unit as written.
fn ends(figure: &Figure) -> (f64, &str) {
    let (number, unit) = split_quantity(&figure.text);
    match number.parse() {
        Ok(number) if !unit.trim().is_empty() && !unit.starts_with(['e', 'E']) => (number, unit.trim()),
        _ => (figure.value, ""),
    }
}

fn check_size(axes: &[Axis], mark: Mark, problems: &mut Vec<Problem>) {
    let size = size(axes);
    if size > MAX_POINTS {
        let lengths: Vec<String> = axes.iter().map(|axis| axis.len().to_string()).collect();
        let message = format!("the sweep has {} points, more than {MAX_POINTS}", lengths.join(" x "));
        problems.push(
            Problem::new(mark, message).help("leave out values, or split the sweep into several files"),
        );
    }
}
