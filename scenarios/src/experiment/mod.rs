//! One file, read and checked: variants, points of the sweep, and the scenario of each.
//!
//! Settings are layered: what a file extends, the file, a variant, a point of the sweep, `--set`. [`load`] checks all
//! layers and reports every problem at once; [`Experiment::resolve`] then gives the scenario of one run.

mod check;
mod condition;
mod draft;
mod explain;
mod files;
mod head;
mod merge;
mod overrides;
mod paths;
pub(crate) mod sweep;

use std::iter;

use indexmap::IndexMap;

use crate::expectation::{self, Expectation, Names};
use crate::schema::Scenario;
use crate::schema::shape::Shape;
use crate::text::decode::decode;
use crate::text::node::Node;
use crate::text::problem::{Failure, Problem};
use crate::text::source::{Mark, Sources};

use check::{Derived, Finding};
use condition::Condition;
use draft::Draft;
use overrides::Override;
use sweep::Axis;

pub use files::Files;
pub use sweep::Point;

/// A checked experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    name: String,
    description: Option<String>,
    sources: Sources,
    layers: Layers,
    conditions: Vec<Condition>,
    promises: Vec<Expectation>,
    citations: Vec<Expectation>,
}

/// Everything that settings come from.
#[derive(Clone, Debug)]
struct Layers {
    settings: Node,
    variants: IndexMap<String, Node>,
    axes: Vec<Axis>,
    overrides: Vec<Override>,
}

/// The scenario of one run, with the tree that it was typed from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The scenario, complete and checked.
    pub scenario: Scenario,
    tree: Node,
    derived: Derived,
}

/// Why a point of the sweep cannot be run: its sizes do not multiply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infeasible {
    /// The reasons, in one line.
    pub reason: String,
}

/// Name of the only variant of an experiment without variants.
const BASE: &str = "base";

/// Reads and checks the experiment at `path`, a file or `library:NAME`, with settings `path=value` from the command
/// line.
///
/// # Errors
/// Every problem of the experiment, each with its place and a remedy.
pub fn load(files: &dyn Files, path: &str, overrides: &[String]) -> Result<Experiment, Failure> {
    let mut sources = Sources::default();
    let mut problems = Vec::new();
    let draft = files::read(files, path, &mut sources, &mut problems);
    let overrides: Vec<Override> = overrides
        .iter()
        .filter_map(|argument| overrides::read(argument, &mut sources, &mut problems))
        .collect();
    let Some(draft) = draft else {
        return Err(Failure::new(sources, problems));
    };
    let experiment = Experiment::assemble(draft, overrides, &mut problems);
    if problems.is_empty() {
        Ok(Experiment { sources, ..experiment })
    } else {
        Err(Failure::new(sources, problems))
    }
}

impl Experiment {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its author says about it.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Every text it was read from; the first is the file itself.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Its variants in the order of the file; `base` where the file has none.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        self.layers.variants.keys().map(String::as_str)
    }

    /// The swept paths, the first axis first.
    pub fn swept(&self) -> impl Iterator<Item = &str> {
        self.layers.axes.iter().flat_map(|axis| axis.paths.iter().map(String::as_str))
    }

    /// The number of points before `where` leaves any out; 1 without sweep. At most a million.
    pub fn size(&self) -> u64 {
        sweep::size(&self.layers.axes)
    }

    /// The points of the sweep that meet `where`, made one at a time; the last axis changes fastest.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        let point = |index| sweep::point(&self.layers.axes, index);
        let meets = |point: &Point| {
            self.conditions.iter().all(|condition| condition.holds(point, &self.layers.settings))
        };
        (0..self.size()).map(point).filter(meets)
    }

    /// The scenario of `variant` at `point`.
    ///
    /// # Errors
    /// Only over a sweep: sizes that do not multiply at this point.
    ///
    /// # Panics
    /// If the experiment has no variant of that name.
    pub fn resolve(&self, variant: &str, point: &Point) -> Result<Resolved, Infeasible> {
        let tree = self.layers.tree(variant, point);
        let mut problems = Vec::new();
        let resolved = resolve(tree, &mut problems);
        match resolved {
            Some((resolved, findings)) if problems.is_empty() && findings.is_empty() => Ok(resolved),
            other => {
                problems.extend(
                    other.into_iter().flat_map(|(_, findings)| findings).map(|finding| finding.problem),
                );
                let reasons: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
                Err(Infeasible { reason: reasons.join("; ") })
            }
        }
    }

    /// What must hold.
    pub fn promises(&self) -> &[Expectation] {
        &self.promises
    }

    /// What others published.
    pub fn citations(&self) -> &[Expectation] {
        &self.citations
    }

    /// A resolved scenario as YAML, every value with its origin in a comment.
    pub fn explain(&self, resolved: &Resolved) -> String {
        explain::explain(resolved, &self.sources)
    }

    fn assemble(draft: Draft, overrides: Vec<Override>, problems: &mut Vec<Problem>) -> Self {
        let Draft { head, settings } = draft;
        let name = head::name(&head, settings.mark, problems);
        let description = head::description(&head, problems);
        let variants = head::variants(&head, settings.mark, problems);
        let axes = head.get("sweep").map_or_else(Vec::new, |entry| sweep::read(&entry.node, problems));
        let swept_axes = axes.clone();
        let mut layers = Layers { settings, variants, axes, overrides };
        layers.pin_axes(problems);
        layers.check(problems);
        let names =
            Names { variants: layers.variants.keys().map(String::as_str).collect(), axes: &swept_axes };
        let conditions = head.get("where").map_or_else(Vec::new, |entry| {
            condition::read(&entry.node, &layers.settings, &names.swept(), problems)
        });
        let mut statements = |key: &str| {
            head.get(key).map_or_else(Vec::new, |entry| expectation::read(&entry.node, key, &names, problems))
        };
        let (promises, citations) = (statements("expect"), statements("published"));
        Self { name, description, sources: Sources::default(), layers, conditions, promises, citations }
    }
}

impl Layers {
    /// The settings of one run, not yet typed.
    fn tree(&self, variant: &str, point: &Point) -> Node {
        let shape = Some(Shape::scenario());
        let mut tree = self.settings.clone();
        merge::merge(&mut tree, self.variants[variant].clone(), shape);
        for (path, node) in &point.values {
            let keys = paths::keys(path);
            if paths::leads_through(&keys, &tree) {
                merge::merge(&mut tree, Node::nest(&keys, node.clone()), shape);
            }
        }
        for change in &self.overrides {
            merge::merge(&mut tree, Node::nest(&paths::keys(&change.path), change.value.clone()), shape);
        }
        merge::remove_nones(&mut tree, Shape::scenario());
        tree
    }

    /// What the command line sets is no longer swept: its axis has this one value.
    fn pin_axes(&mut self, problems: &mut Vec<Problem>) {
        let axes = &mut self.axes;
        self.overrides.retain(|change| {
            match axes.iter_mut().find(|axis| axis.paths.contains(&change.path)) {
                Some(axis) if axis.paths.len() == 1 => {
                    axis.pin(change.value.clone());
                    false
                }
                Some(_) => {
                    let message = format!("`{}` is swept together with other settings", change.path);
                    problems.push(
                        Problem::new(change.value.mark, message)
                            .help("change the axis in a copy of the file"),
                    );
                    true
                }
                None => true,
            }
        });
    }

    /// Checks every variant, and every value of every axis on its own.
    fn check(&self, problems: &mut Vec<Problem>) {
        const ENOUGH: usize = 20;
        const TOO_MANY: usize = 1_000;
        let first = sweep::point(&self.axes, 0);
        for (variant, patch) in &self.variants {
            // Every variant repeats the problems of the base; once there are many, its patch is checked alone.
            if problems.len() > ENOUGH {
                check_alone(iter::once((Vec::new(), patch.clone())), problems);
            } else if let Some((_, findings)) = resolve(self.tree(variant, &first), problems) {
                let lasting = findings.into_iter().filter(|finding| !finding.swept);
                problems.extend(lasting.map(|finding| finding.problem));
            }
        }
        for axis in &self.axes {
            for index in 0..axis.len().min(sweep::MAX_LISTED as u64) {
                if problems.len() > TOO_MANY {
                    return;
                }
                let keys = axis.paths.iter().map(|path| paths::keys(path));
                check_alone(keys.zip(axis.value(index)), problems);
            }
        }
    }
}

/// Types changes in a small valid scenario, which costs less than in the real one.
fn check_alone<'a>(changes: impl Iterator<Item = (Vec<&'a str>, Node)>, problems: &mut Vec<Problem>) {
    let shape = Shape::scenario();
    let Some(mut tree) = shape.sample(Mark::nowhere()) else { return };
    for (keys, node) in changes {
        merge::merge(&mut tree, Node::nest(&keys, node), Some(shape));
    }
    merge::remove_nones(&mut tree, shape);
    decode::<Scenario>(&tree, shape, "", problems);
}

/// Types and checks the settings of one run. `None` when they are past repair.
fn resolve(tree: Node, problems: &mut Vec<Problem>) -> Option<(Resolved, Vec<Finding>)> {
    let decoded = decode::<Scenario>(&tree, Shape::scenario(), "", problems)?;
    let mut scenario = decoded.value;
    let (derived, findings) = check::check(&mut scenario, &tree, &decoded.examples);
    Some((Resolved { scenario, tree, derived }, findings))
}
