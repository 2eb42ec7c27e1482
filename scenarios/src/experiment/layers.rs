//! The layers of settings, and what they say about one run: presets of techniques, what a file
//! extends, the file, a variant, a point of the sweep, `--set`; later ones win.

use std::iter;

use indexmap::IndexMap;

use super::check::{self, Finding};
use super::named::Named;
use super::overrides::Override;
use super::search::Search;
use super::sweep::{self, Axis, Point};
use super::{Infeasible, Resolved, merge, paths};
use crate::schema::Scenario;
use crate::schema::shape::Shape;
use crate::text::decode::decode;
use crate::text::node::{Map, Node, Value};
use crate::text::problem::Problem;
use crate::text::source::Mark;

/// Everything that settings come from.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    pub(super) settings: Node,
    pub(super) variants: IndexMap<String, Node>,
    pub(super) axes: Vec<Axis>,
    pub(super) overrides: Vec<Override>,
    /// The files that they name.
    pub(super) named: Named,
}

/// A variant, merged with what is below it once for all points.
pub(crate) struct Variant<'e> {
    settings: Node,
    overrides: &'e [Override],
    named: &'e Named,
}

/// Values of a quantity that is asked for whose scenarios imply axes.
const ENOUGH_VALUES: u64 = 64;

/// How far the settings of a run are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Each, and with each other.
    Settings,
    /// Also by building what they say as far as it is priced.
    Whole,
}

impl Variant<'_> {
    /// Its scenario at `point`.
    ///
    /// # Errors
    /// Only over a sweep: sizes that do not multiply at this point.
    pub(crate) fn at(&self, point: &Point) -> Result<Resolved, Infeasible> {
        self.changed(point, &[], Vec::new())
    }

    /// Its scenario at `point`, without the check whether it can be built, which takes longest.
    ///
    /// # Errors
    /// Sizes that do not multiply at this point.
    pub(crate) fn unbuilt_at(&self, point: &Point) -> Result<Resolved, Infeasible> {
        self.resolved(self.tree(point, &[]), Depth::Settings, Vec::new())
    }

    /// Its scenario at `point` with `changes`, in which `problems` were found.
    ///
    /// # Errors
    /// The problems, and settings that do not go together.
    pub(super) fn changed(
        &self,
        point: &Point,
        changes: &[Override],
        problems: Vec<Problem>,
    ) -> Result<Resolved, Infeasible> {
        self.resolved(self.tree(point, changes), Depth::Whole, problems)
    }

    fn resolved(&self, tree: Node, depth: Depth, mut problems: Vec<Problem>) -> Result<Resolved, Infeasible> {
        match resolve(tree, self.named, depth, &mut problems) {
            Some((resolved, findings)) if problems.is_empty() && findings.is_empty() => Ok(resolved),
            other => {
                let findings = other.into_iter().flat_map(|(_, findings)| findings);
                problems.extend(findings.map(|finding| finding.problem));
                let unsupported = !problems.is_empty() && problems.iter().all(|problem| problem.unsupported);
                let reasons: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
                Err(Infeasible { reason: reasons.join("; "), reasons, unsupported })
            }
        }
    }

    /// The settings of one run, not yet typed.
    fn tree(&self, point: &Point, changes: &[Override]) -> Node {
        let mut tree = self.settings.clone();
        for (path, node) in &point.values {
            let keys = paths::keys(path);
            let is_map = matches!(node.value, Value::Map(_));
            if let Some(place) = tree.at_mut(&keys).filter(|_| !is_map) {
                // What merging would do, for the price of a look.
                *place = node.clone();
            } else if paths::leads_through(&keys, &tree) {
                set(&mut tree, &keys, node.clone());
            }
        }
        for change in self.overrides.iter().chain(changes) {
            set(&mut tree, &paths::keys(&change.path), change.value.clone());
        }
        merge::remove_nones(&mut tree, Shape::scenario());
        tree
    }
}

impl Layers {
    pub(super) fn variant(&self, name: &str) -> Variant<'_> {
        let mut settings = self.settings.clone();
        merge::merge(&mut settings, self.variants[name].clone(), Some(Shape::scenario()));
        Variant { settings, overrides: &self.overrides, named: &self.named }
    }

    /// What the command line sets is no longer swept: its axis has this one value.
    pub(super) fn pin_axes(&mut self, problems: &mut Vec<Problem>) {
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

    /// Fills in axes of a search whose values the scenarios of its variants imply, as far as those are
    /// right.
    pub(super) fn imply(&mut self, search: &mut Search, problems: &mut Vec<Problem>) {
        let Self { settings, variants, overrides, .. } = &*self;
        let is_set = |path: &str| overrides.iter().any(|change| change.path == path);
        let is_written = |path: &str| {
            let keys = paths::keys(path);
            let written = iter::once(settings).chain(variants.values()).any(|node| node.at(&keys).is_some());
            written || is_set(path)
        };
        let asked = search.extreme.as_ref().and_then(|extreme| extreme.beginning(is_written));
        let mut implied = self.axes.clone();
        let axes: Vec<Axis> = asked.iter().chain(&self.axes).cloned().collect();
        let values = asked.as_ref().map_or(1, Axis::len).min(ENOUGH_VALUES);
        let points = (0..values).map(|value| sweep::point(&axes, value * sweep::size(&self.axes)));
        let points: Vec<Point> = points.collect();
        let trees = |variant: &String| {
            let variant = self.variant(variant);
            points.iter().map(|point| variant.tree(point, &[])).collect::<Vec<_>>()
        };
        let trees: Vec<Node> = variants.keys().flat_map(trees).collect();
        if let (Some(extreme), Some(tree)) = (&search.extreme, trees.first()) {
            extreme.check_there(tree, problems);
        }
        let scenario = |tree: Node| {
            resolve(tree, &self.named, Depth::Settings, &mut Vec::new())
                .map(|(resolved, _)| resolved.scenario)
        };
        let scenarios: Vec<Scenario> = trees.into_iter().filter_map(scenario).collect();
        search.check_inputs(&scenarios, problems);
        search.fill(&mut implied, &scenarios, is_set, is_written, problems);
        self.axes = implied;
    }

    /// Every layer, and every swept or set value of one of the settings `about`.
    pub(super) fn saying(&self, about: &[&str]) -> impl Iterator<Item = Node> {
        let swept = self.axes.iter().flat_map(|axis| {
            let indices = 0..axis.len().min(sweep::MAX_LISTED as u64);
            indices.flat_map(|index| axis.paths.iter().zip(axis.value(index)))
        });
        let set = self.overrides.iter().map(|change| (&change.path, change.value.clone()));
        let single = swept.chain(set).filter(|(path, _)| about.contains(&path.as_str()));
        let written = iter::once(&self.settings).chain(self.variants.values()).cloned();
        written.chain(single.map(|(path, node)| Node::nest(&paths::keys(path), node)))
    }

    /// Reports settings of variants that no run would have, as the sweep has values for them.
    fn swept_over(&self, problems: &mut Vec<Problem>) {
        let paths = || self.axes.iter().flat_map(|axis| &axis.paths);
        for (variant, patch) in &self.variants {
            for (path, node) in paths().filter_map(|path| Some((path, patch.at(&paths::keys(path))?))) {
                let message =
                    format!("`{path}` of the variant `{variant}` is swept: no run would have this value");
                let help = "remove it, or sweep other settings";
                problems.push(Problem::new(node.mark, message).help(help));
            }
        }
    }

    /// Checks every variant, and every value of every axis on its own.
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        const ENOUGH: usize = 20;
        const TOO_MANY: usize = 1_000;
        let first = sweep::point(&self.axes, 0);
        let mut of_variants: Vec<(Problem, Vec<&str>)> = Vec::new();
        for (variant, patch) in &self.variants {
            let mut found = Vec::new();
            // Every variant repeats the problems of the base; once there are many, its patch is
            // checked alone.
            if of_variants.len() > ENOUGH {
                check_alone(iter::once((Vec::new(), patch.clone())), &mut found);
            } else if let Some((_, findings)) =
                resolve(self.variant(variant).tree(&first, &[]), &self.named, Depth::Whole, &mut found)
            {
                let lasting = findings.into_iter().filter(|finding| !finding.swept);
                found.extend(lasting.map(|finding| finding.problem));
            }
            for problem in found {
                let known = of_variants.iter_mut().take(TOO_MANY).find(|(known, _)| *known == problem);
                match known {
                    Some((_, variants)) => variants.push(variant),
                    None => of_variants.push((problem, vec![variant])),
                }
            }
        }
        let all = self.variants.len();
        problems.extend(of_variants.into_iter().map(|(problem, variants)| match variants.len() {
            some if some < all => problem.of_variants(&variants),
            _ => problem,
        }));
        self.swept_over(problems);
        for axis in &self.axes {
            for index in 0..axis.len().min(sweep::MAX_LISTED as u64) {
                if problems.len() > TOO_MANY {
                    return;
                }
                let keys = axis.paths.iter().map(|path| paths::keys(path));
                let before = problems.len();
                check_alone(keys.zip(axis.value(index)), problems);
                // All values of a range stand at one place: one that is wrong tells enough.
                if problems.len() > before && axis.is_spaced() {
                    break;
                }
            }
        }
    }
}

/// Changes the setting at `keys` by what `node` says.
fn set(tree: &mut Node, keys: &[&str], node: Node) {
    merge::merge(tree, Node::nest(keys, node), Some(Shape::scenario()));
}

/// Types changes in a small valid scenario, which costs less than in the real one.
pub(super) fn check_alone<'a>(
    changes: impl Iterator<Item = (Vec<&'a str>, Node)>,
    problems: &mut Vec<Problem>,
) {
    let shape = Shape::scenario();
    let Some(mut tree) = shape.sample(Mark::nowhere()) else { return };
    for (keys, node) in changes {
        make_room(&mut tree, &keys);
        set(&mut tree, &keys, node);
    }
    merge::remove_nones(&mut tree, shape);
    decode::<Scenario>(&tree, shape, "", problems);
}

/// Puts examples around the place at `keys`, where there is nothing yet: `cluster.count` needs a
/// `cluster.node` beside it.
fn make_room(tree: &mut Node, keys: &[&str]) {
    for depth in 1..keys.len() {
        let around = &keys[..depth];
        let example = Shape::scenario().at(around).and_then(|shape| shape.sample(Mark::nowhere()));
        if let (None, Some(example)) = (tree.at(around), example) {
            set(tree, around, example);
        }
    }
}

const TRAINING: &str = "training";

/// Settings of a trace, whose steps are recorded, with a training of which nothing is said. `None`:
/// any other model, which must say how it is trained.
fn without_training(tree: &Node) -> Option<Node> {
    let is_trace = tree.at(&["model", "trace"]).is_some();
    (is_trace && tree.at(&[TRAINING]).is_none()).then(|| {
        let mut whole = tree.clone();
        set(&mut whole, &[TRAINING], Node::new(tree.mark, Value::Map(Map::new())));
        whole
    })
}

/// Types and checks the settings of one run. `None` when they are past repair.
fn resolve(
    tree: Node,
    named: &Named,
    depth: Depth,
    problems: &mut Vec<Problem>,
) -> Option<(Resolved, Vec<Finding>)> {
    let before = problems.len();
    let tree = named.presets.below(tree, problems);
    let whole = without_training(&tree);
    let mut decoded = decode::<Scenario>(whole.as_ref().unwrap_or(&tree), Shape::scenario(), "", problems)?;
    // It is nothing that could be wrong.
    decoded.examples.extend(whole.map(|_| vec![TRAINING.to_owned()]));
    let mut scenario = decoded.value;
    let buildable = depth == Depth::Whole && problems.len() == before;
    let (derived, findings) = check::check(&mut scenario, &tree, (&decoded.examples, buildable), named);
    Some((Resolved { scenario, tree, derived }, findings))
}
