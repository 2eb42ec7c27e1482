//! `search:` instead of `sweep:`: a space of plans of which the best is looked for.
//!
//! Its axes are those of a sweep; `auto` stands for values that model, machine and batch imply
//! ([`auto`]). Plans are points of these axes. They are not all simulated, so there may be more.

mod auto;
mod extreme;
mod limit;
mod objective;

use schemars::JsonSchema;
use serde::Deserialize;

use super::sweep::{self, Axis};
use crate::schema::shape::Shape;
use crate::schema::{Campaign, Count, Duration, Scenario, Share, document};
use crate::text::decode::decode;
use crate::text::node::{Entry, Map, Node, Value, shorten};
use crate::text::problem::Problem;
use crate::text::source::Mark;

pub(crate) use extreme::Extreme;
pub(crate) use limit::Limit;
pub use objective::Objective;
pub(crate) use objective::{OBJECTIVES_MAX, Objectives};

/// The most plans of a space.
pub(crate) const MAX_PLANS: u64 = 10_000_000;
/// A value or a whole axis that the scenario implies.
const AUTO: &str = "auto";
/// Axes of the space.
const OVER: &str = "over";

/// A search as its file says it.
#[derive(Clone, Debug)]
pub struct Search {
    pub(crate) settings: Settings,
    pub(crate) limits: Vec<Limit>,
    /// The quantity that is asked for; its axis is the first one. `None`: the best plan is.
    pub(crate) extreme: Option<Extreme>,
    /// Place of the objective.
    objective: Mark,
    /// Axes whose values the scenario implies, in the order of the file.
    implied: Vec<Implied>,
}

/// An axis, and the place among the axes that it takes once its values are known.
#[derive(Clone, Debug)]
struct Implied {
    path: String,
    mark: Mark,
    place: usize,
    /// It is one where GPUs are of several kinds.
    if_mixed: bool,
}

/// How the best plan is looked for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Objective, or a list of them: then plans that no other beats in all.
    #[schemars(extend("examples" = ["step_time"]))]
    pub(crate) minimise: Objectives,
    /// Limits that a plan must keep: a figure of its result, a comparison, a value.
    #[schemars(extend("examples" = [["peak_memory <= 76 GiB", "interval_width <= 30 %"]]))]
    pub(crate) subject_to: Vec<String>,
    /// Plans that are reported, the best first.
    pub(crate) keep: Count<1, 1000>,
    /// The search ends when the best plan is proven to be within this of any other.
    pub(crate) gap: Share,
    /// Time after which it ends with the best plan so far, and the gap that is proven then.
    pub(crate) budget: Option<Duration>,
    /// Looks for more about the best plan: plans without its techniques, plans by known rules, and
    /// slower parts with which another plan is better.
    pub(crate) alternatives: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            minimise: Objectives::default(),
            subject_to: Vec::new(),
            keep: Count::new(10).expect("it is in the range"),
            gap: Share::parse("1 %").expect("it is a share"),
            budget: None,
            alternatives: true,
        }
    }
}

/// Reads `search:`; gives its axes beside it.
pub(super) fn read(node: &Node, problems: &mut Vec<Problem>) -> Option<(Vec<Axis>, Search)> {
    let Value::Map(map) = &node.value else {
        let message = format!("`search` must be a map, not {}", node.value.describe());
        problems.push(Problem::new(node.mark, message).help(EXAMPLE));
        return None;
    };
    let mut beside = map.clone();
    let over = beside.shift_remove(OVER);
    let extreme = extreme::read(&mut beside, problems);
    let asks = extreme::KEYS.iter().any(|key| map.contains_key(*key));
    let schema = document::of::<Settings>();
    let beside = Node::new(node.mark, Value::Map(beside));
    let settings: Settings = decode(&beside, Shape::of(&schema), "search", problems)?.value;
    let limits = beside.at(&["subject_to"]).map_or_else(Vec::new, |node| limit::read(node, problems));
    let objective = beside.nearest_mark(&["minimise"]);
    let mut search = Search { settings, limits, extreme, objective, implied: Vec::new() };
    let axes = match over.as_ref().map(|entry| &entry.node) {
        Some(Node { value: Value::Map(over), .. }) if !over.is_empty() => search.axes(over, problems),
        None if asks => Vec::new(),
        other => {
            let mark = other.map_or(node.mark, |node| node.mark);
            problems.push(Problem::new(mark, "`search` has no axes to search over").help(EXAMPLE));
            Vec::new()
        }
    };
    search.check_extreme(&axes, problems);
    Some((axes, search))
}

const EXAMPLE: &str =
    "write `search: { over: { parallelism: auto, training.micro_batch: auto, techniques: [recompute] } }`";

impl Search {
    /// Time after which it ends with what it has found (ns).
    pub fn budget_ns(&self) -> Option<u64> {
        self.settings.budget.map(|budget| budget.picoseconds() / 1000)
    }

    /// Most of the first objective that limits allow.
    pub(crate) fn most_objective(&self) -> f64 {
        let of_time = self.settings.minimise.all().first() == Some(&Objective::StepTime);
        let limits = self.limits.iter().filter(|_| of_time).filter_map(Limit::most_step_time);
        limits.fold(f64::INFINITY, f64::min)
    }

    /// A search for any plan that fits: those that hold least are tried first, where time is limited
    /// those that take least.
    pub(crate) fn for_any(&self) -> Self {
        let is_timed = self.limits.iter().any(|limit| limit.most_step_time().is_some());
        let objective = if is_timed { Objective::StepTime } else { Objective::PeakMemory };
        let minimise = Objectives::one(objective);
        Self { settings: Settings { minimise, ..self.settings.clone() }, ..self.clone() }
    }

    /// Reports what does not go with a quantity that is asked for, beside these axes.
    fn check_extreme(&self, axes: &[Axis], problems: &mut Vec<Problem>) {
        let Some(extreme) = &self.extreme else { return };
        let written = axes.iter().flat_map(|axis| axis.paths.iter().map(|path| (path.as_str(), axis.mark())));
        let implied = self.implied.iter().map(|implied| (implied.path.as_str(), implied.mark));
        extreme.check_over(written.chain(implied), problems);
        if self.settings.minimise.is_front() {
            problems.push(
                Problem::new(
                    self.objective,
                    format!("`{}` asks for one plan, not for a front", extreme.wanted),
                )
                .help("minimise one objective: the best plan by it is told of the value that is found"),
            );
        }
    }

    /// The axes that are written out; the others are noted with their places.
    fn axes(&mut self, over: &Map, problems: &mut Vec<Problem>) -> Vec<Axis> {
        let mut written = Map::new();
        for (key, entry) in over {
            let is_auto = entry.node.as_text() == Some(AUTO);
            match (key.as_str(), &entry.node.value) {
                ("techniques", Value::List(names)) => {
                    names.iter().for_each(|name| self.technique(name, written.len(), problems));
                }
                ("parallelism", _) if is_auto => {
                    let implied = |path: &str, if_mixed| Implied {
                        path: path.to_owned(),
                        mark: entry.key,
                        place: written.len(),
                        if_mixed,
                    };
                    self.implied.extend(auto::PARALLELISM.map(|path| implied(path, false)));
                    self.implied.push(implied(auto::STAGE_LAYERS, true));
                }
                (path, _) if is_auto => self.imply(path, entry, written.len(), problems),
                _ => {
                    written.insert(key.clone(), entry.clone());
                }
            }
        }
        match written.is_empty() {
            true => Vec::new(),
            false => sweep::axes(&written, problems),
        }
    }

    fn imply(&mut self, path: &str, entry: &Entry, place: usize, problems: &mut Vec<Problem>) {
        if auto::is_known(path) {
            self.implied.push(Implied { path: path.to_owned(), mark: entry.key, place, if_mixed: false });
            return;
        }
        let message = format!("nothing implies values of `{}`", shorten(path));
        let known = auto::known().collect::<Vec<_>>().join("`, `");
        problems.push(
            Problem::new(entry.node.mark, message)
                .help(format!("list its values; `auto` is for `parallelism`, `{known}` and techniques")),
        );
    }

    fn technique(&mut self, name: &Node, place: usize, problems: &mut Vec<Problem>) {
        let known: Vec<&str> = auto::techniques().collect();
        match name.as_text().filter(|name| known.contains(name)) {
            Some(text) => {
                let path = auto::technique(text);
                self.implied.push(Implied { path, mark: name.mark, place, if_mixed: false });
            }
            None => {
                let shown = shorten(&name.value.plain());
                problems.push(
                    Problem::new(name.mark, format!("there is no technique `{shown}` to search over"))
                        .help(hw_models::catalogue::nearest::remedy(&shown, &known, "technique")),
                );
            }
        }
    }

    /// Reports objectives of which a scenario says too little: a cost without a price of time, energy
    /// without a machine.
    pub(super) fn check_inputs(&self, scenarios: &[Scenario], problems: &mut Vec<Problem>) {
        let all = |has: fn(&Scenario) -> bool| scenarios.iter().all(has);
        let has_price =
            |scenario: &Scenario| scenario.campaign.as_ref().is_some_and(Campaign::has_price_of_time);
        let lacks = |objective| match objective {
            Objective::Cost if !all(has_price) => Some((
                "a cost needs a price: `campaign.prices` has neither `gpu_hour` nor `node_hour`",
                "add `campaign: { tokens: 15 T, prices: { gpu_hour: \
                 { price: 2.49 USD, source: list price, date: 2026-11-01 } } }`",
            )),
            Objective::Energy if !all(|scenario| scenario.machine.is_some()) => Some((
                "energy needs boards that draw power: the scenario has no machine",
                "add `machine: { node: { name: dgx-h100 } }`",
            )),
            _ => None,
        };
        let lacking = self.settings.minimise.all().iter().filter_map(|&objective| lacks(objective));
        problems.extend(lacking.map(|(message, help)| Problem::new(self.objective, message).help(help)));
    }

    /// Fills in the axes that `scenarios` imply, all values of any of them; paths that are set
    /// otherwise are left out. That of the quantity that is asked for comes first.
    pub(super) fn fill(
        &mut self,
        axes: &mut Vec<Axis>,
        scenarios: &[Scenario],
        is_set: impl Fn(&str) -> bool,
        is_written: impl Fn(&str) -> bool,
        problems: &mut Vec<Problem>,
    ) {
        // From behind, so that places before stay right.
        let is_asked = |path: &String| self.extreme.as_ref().is_some_and(|it| it.paths.contains(path));
        for Implied { path, mark, place, if_mixed } in std::mem::take(&mut self.implied).into_iter().rev() {
            let is_left_out = if_mixed && !auto::is_mixed(scenarios) || is_set(&path) || is_asked(&path);
            if is_left_out || axes.iter().any(|axis| axis.paths.contains(&path)) {
                continue;
            }
            let values = auto::values(&path, scenarios, mark);
            match values.is_empty() {
                // Axes that could not be read are missing.
                false => axes.insert(place.min(axes.len()), Axis::listed(path, values, mark)),
                true => problems.push(
                    Problem::new(mark, format!("nothing in the scenario implies values of `{path}`"))
                        .help("list its values"),
                ),
            }
        }
        check_size(axes, problems);
        let Some(extreme) = &self.extreme else { return };
        extreme.check_free(is_set, problems);
        if let Some(axis) = extreme.axis(scenarios, axes, is_written, problems) {
            axes.insert(0, axis);
        }
    }
}

fn check_size(axes: &[Axis], problems: &mut Vec<Problem>) {
    let plans = sweep::size(axes);
    if let Some(first) = axes.first().filter(|_| plans > MAX_PLANS) {
        let lengths: Vec<String> =
            axes.iter().map(|axis| format!("{} of `{}`", axis.len(), axis.paths.join(", "))).collect();
        problems.push(
            Problem::new(
                first.mark(),
                format!("the space has {plans} plans, more than {MAX_PLANS}: {}", lengths.join(" x ")),
            )
            .help("leave out axes or values"),
        );
    }
}
