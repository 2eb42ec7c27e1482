//! One file, read and checked: variants, points of the sweep, and the scenario of each.
//!
//! Settings are layered: what a file extends, the file, a variant, a point of the sweep, `--set`.
//! [`load`] checks all layers and reports every problem at once; [`Experiment::resolve`] then
//! gives the scenario of one run.

mod calibrations;
mod cases;
mod check;
mod condition;
mod configs;
mod draft;
mod explain;
mod files;
mod graph_files;
mod head;
mod layers;
mod measured_kernels;
mod merge;
mod movement_plans;
mod named;
mod opened;
mod overrides;
mod paths;
mod presets;
pub(crate) mod search;
pub(crate) mod sweep;
mod tables;
mod traces;

use std::ops::Range;

use indexmap::IndexMap;

use crate::expectation::{self, Expectation, Names};
use crate::schema::Scenario;
use crate::text::node::Node;
use crate::text::problem::{Failure, Problem};
use crate::text::source::{Mark, Sources};

use check::Derived;
use condition::{Condition, Prepared};
use draft::Draft;
use layers::Layers;
use named::Named;
use overrides::Override;

pub use files::Files;
pub(crate) use layers::Variant;
pub use opened::{Opened, beginning, refuse_special};
pub(crate) use paths::{check as check_path, is_below, leads_to};
pub(crate) use search::OBJECTIVES_MAX;
pub use search::{Objective, Search};
pub use sweep::Point;

/// A checked experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    name: String,
    description: Option<String>,
    sources: Sources,
    layers: Layers,
    cases: Vec<String>,
    conditions: Vec<Condition>,
    search: Option<Search>,
    promises: Vec<Expectation>,
    citations: Vec<Expectation>,
}

/// The scenario of one run, with the tree that it was typed from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The scenario, complete and checked.
    pub scenario: Scenario,
    tree: Node,
    derived: Derived,
}

/// Reasons for which a point of the sweep cannot be run: its settings do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infeasible {
    /// The reasons, in one line.
    pub reason: String,
    /// Each of them.
    pub reasons: Vec<String>,
    /// True if all are that a system lacks what is asked for.
    pub unsupported: bool,
}

/// Name of the only variant of an experiment without variants.
pub const BASE: &str = "base";

/// Reads and checks the experiment at `path`, a file or `library:NAME`, with settings `path=value`
/// from the command line.
///
/// # Errors Every problem of the experiment, each with its place and a remedy.
pub fn load(files: &dyn Files, path: &str, overrides: &[String]) -> Result<Experiment, Failure> {
    let mut sources = Sources::default();
    let mut problems = Vec::new();
    let draft = files::read(files, path, &mut sources, &mut problems);
    let overrides: Vec<Override> = overrides
        .iter()
        .filter_map(|argument| overrides::read(argument, &mut sources, &mut problems))
        .collect();
    complete(files, (draft, overrides), sources, problems)
}

/// Checks the experiment of a tree that is no file of its own, with settings (path, value) on top.
///
/// # Errors
/// Every problem of the experiment, at the marks of the tree and of the values.
pub(crate) fn assembled(
    files: &dyn Files,
    root: Node,
    settings: Vec<(String, Node)>,
    sources: Sources,
) -> Result<Experiment, Failure> {
    let mut problems = Vec::new();
    let draft = Draft::of(root, &mut problems);
    let overrides = settings.into_iter().map(|(path, value)| Override { path, value }).collect();
    complete(files, (draft, overrides), sources, problems)
}

/// Path and value of a setting of the command line, `path=value`.
pub(crate) fn setting(
    argument: &str,
    sources: &mut Sources,
    problems: &mut Vec<Problem>,
) -> Option<(String, Node)> {
    overrides::read(argument, sources, problems).map(|change| (change.path, change.value))
}

/// Reports settings that are wrong whatever stands beside them: paths with their values.
pub(crate) fn check_settings<'a>(
    settings: impl Iterator<Item = (&'a str, Node)>,
    problems: &mut Vec<Problem>,
) {
    layers::check_alone(settings.map(|(path, node)| (paths::keys(path), node)), problems);
}

fn complete(
    files: &dyn Files,
    (draft, overrides): (Option<Draft>, Vec<Override>),
    mut sources: Sources,
    mut problems: Vec<Problem>,
) -> Result<Experiment, Failure> {
    let Some(draft) = draft else {
        return Err(Failure::new(sources, problems));
    };
    let mut experiment = Experiment::assemble(draft, overrides, &mut problems);
    experiment.layers.named = Named::read(files, &experiment.layers, &mut sources);
    if let Some(search) = &mut experiment.search {
        experiment.layers.imply(search, &mut problems);
    }
    experiment.layers.check(&mut problems);
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

    /// 64-bit FNV-1a over the text of every source, in hexadecimal.
    pub fn digest(&self) -> String {
        let bytes = self.sources.iter().flat_map(|source| source.text.bytes().chain([0]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    }

    /// Its variants in the order of the file; `base` where the file has none.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        self.layers.variants.keys().map(String::as_str)
    }

    /// The swept paths, the first axis first.
    pub fn swept(&self) -> impl Iterator<Item = &str> {
        self.layers.axes.iter().flat_map(|axis| axis.paths.iter().map(String::as_str))
    }

    /// The swept paths that say what problem is solved; the others are choices, of which the best
    /// is looked for.
    pub fn cases(&self) -> &[String] {
        &self.cases
    }

    /// The number of points before `where` leaves any out; 1 without sweep. At most a million.
    pub fn size(&self) -> u64 {
        sweep::size(&self.layers.axes)
    }

    /// The number of [`points`](Self::points), of a search that asks for a quantity those of its
    /// first value; none is made where no `where` leaves any out.
    pub fn count(&self) -> u64 {
        if self.asks() {
            return self.indices_in(0..self.size_of_value()).count() as u64;
        }
        if self.conditions.is_empty() { self.size() } else { self.indices().count() as u64 }
    }

    /// True if a search asks for the largest or the fewest of a quantity.
    pub fn asks(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.extreme.is_some())
    }

    /// The points of the sweep that meet `where`, made one at a time; the last axis changes
    /// fastest.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        self.indices().map(|index| sweep::point(&self.layers.axes, index))
    }

    /// Indices of the points that meet `where`.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u64> {
        self.indices_in(0..self.size())
    }

    /// Points of each value of the quantity that a search asks for, before `where` leaves any out;
    /// its axis is the first one.
    pub(crate) fn size_of_value(&self) -> u64 {
        sweep::size(self.layers.axes.get(1..).unwrap_or_default())
    }

    /// Those of a range.
    pub(crate) fn indices_in(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        let Layers { axes, settings, .. } = &self.layers;
        let prepare = |condition: &Condition| condition.prepare(axes, settings);
        let conditions: Vec<Prepared> = self.conditions.iter().map(prepare).collect();
        range.filter(move |&index| conditions.iter().all(|condition| condition.holds(index)))
    }

    /// The scenario of `variant` at `point`.
    ///
    /// # Errors
    /// Only over a sweep: settings that do not go together at this point.
    ///
    /// # Panics
    /// If the experiment has no variant of that name.
    pub fn resolve(&self, variant: &str, point: &Point) -> Result<Resolved, Infeasible> {
        self.variant(variant).at(point)
    }

    /// The scenario of `variant` at `point` with other settings: paths, each with its value as
    /// YAML, over everything else.
    ///
    /// # Errors
    /// Settings that cannot be read, or do not go together.
    pub(crate) fn changed(
        &self,
        variant: &str,
        point: &Point,
        settings: &[(String, String)],
    ) -> Result<Scenario, Infeasible> {
        let mut problems = Vec::new();
        let mut sources = self.sources.clone();
        let mut read =
            |(path, value)| overrides::read(&format!("{path}={value}"), &mut sources, &mut problems);
        let changes: Vec<Override> =
            settings.iter().filter_map(|(path, value)| read((path, value))).collect();
        self.variant(variant).changed(point, &changes, problems).map(|resolved| resolved.scenario)
    }

    /// Search for the best of its points. `None`: all of them are run.
    pub fn search(&self) -> Option<&Search> {
        self.search.as_ref()
    }

    /// The point of an index before `where` leaves any out.
    pub(crate) fn point(&self, index: u64) -> Point {
        sweep::point(&self.layers.axes, index)
    }

    /// The point with these values, as results have them.
    pub(crate) fn point_of(&self, values: &IndexMap<String, String>) -> Option<Point> {
        self.index_of(values).map(|index| self.point(index))
    }

    /// Its index.
    pub(crate) fn index_of(&self, values: &IndexMap<String, String>) -> Option<u64> {
        let digit = |axis: &sweep::Axis| {
            (0..axis.len()).find(|&digit| {
                let nodes = axis.value(digit);
                axis.paths.iter().zip(nodes).all(|(path, node)| values.get(path) == Some(&node.value.plain()))
            })
        };
        let mut index = 0;
        for axis in &self.layers.axes {
            index = index * axis.len() + digit(axis)?;
        }
        Some(index)
    }

    /// Its axes.
    pub(crate) fn axes(&self) -> &[sweep::Axis] {
        &self.layers.axes
    }

    /// A variant to be resolved at many points.
    pub(crate) fn variant(&self, name: &str) -> Variant<'_> {
        self.layers.variant(name)
    }

    /// What must hold.
    pub fn promises(&self) -> &[Expectation] {
        &self.promises
    }

    /// What others published.
    pub fn citations(&self) -> &[Expectation] {
        &self.citations
    }

    /// Origin of the setting at `path`: a file and line, `default`, or what it is derived from.
    pub(crate) fn origin(&self, resolved: &Resolved, path: &str) -> String {
        explain::origin(resolved, &self.sources, path)
    }

    /// Place of the setting at `path`, or of the nearest map around it that is written.
    pub(crate) fn mark(&self, resolved: &Resolved, path: &str) -> Mark {
        resolved.tree.nearest_mark(&paths::keys(path))
    }

    /// A resolved scenario as YAML, every value with its origin in a comment.
    pub fn explain(&self, resolved: &Resolved) -> String {
        explain::explain(resolved, &self.sources, None)
    }

    /// Settings of a resolved scenario by path, each value on one line.
    pub(crate) fn settings(&self, resolved: &Resolved) -> IndexMap<String, String> {
        explain::by_path(resolved, &self.sources)
    }

    /// The same as a scenario to be kept elsewhere: hardware files are called as `place` calls
    /// them, which gets the names that they have where foretrain runs.
    pub fn explain_elsewhere(&self, resolved: &Resolved, place: &dyn Fn(&str) -> String) -> String {
        explain::explain(resolved, &self.sources, Some(place))
    }

    /// Settings as a scenario that can be run: below the name of the experiment.
    pub fn titled(&self, settings: &str) -> String {
        // A JSON text is one in YAML, too, whatever is in it.
        format!("name: {}\n{settings}", serde_json::Value::from(self.name.as_str()))
    }

    fn assemble(draft: Draft, overrides: Vec<Override>, problems: &mut Vec<Problem>) -> Self {
        let Draft { head, settings } = draft;
        let name = head::name(&head, settings.mark, problems);
        let description = head::description(&head, problems);
        let variants = head::variants(&head, settings.mark, problems);
        let swept = head.get("sweep").map_or_else(Vec::new, |entry| sweep::read(&entry.node, problems));
        let searched = head.get("search").and_then(|entry| search::read(&entry.node, problems));
        if let (Some(sweep), Some(search)) = (head.get("sweep"), head.get("search")) {
            problems.push(
                Problem::new(search.key, "a file that searches does not sweep as well")
                    .note(sweep.key, "also here")
                    .help("write the axes below `search.over`, or leave `search` out"),
            );
        }
        let (axes, search) = searched.map_or((swept, None), |(axes, search)| (axes, Some(search)));
        let cases = cases::read(head.get("cases").map(|entry| &entry.node), &axes, problems);
        let swept_axes = axes.clone();
        let mut layers = Layers { settings, variants, axes, overrides, named: Named::default() };
        layers.pin_axes(problems);
        let names =
            Names { variants: layers.variants.keys().map(String::as_str).collect(), axes: &swept_axes };
        let conditions = head.get("where").map_or_else(Vec::new, |entry| {
            condition::read(&entry.node, &layers.settings, &names.swept(), problems)
        });
        let mut statements = |key: &str| {
            head.get(key).map_or_else(Vec::new, |entry| expectation::read(&entry.node, key, &names, problems))
        };
        let (promises, citations) = (statements("expect"), statements("published"));
        Self {
            name,
            description,
            sources: Sources::default(),
            layers,
            cases,
            conditions,
            search,
            promises,
            citations,
        }
    }
}
