//! Frameworks as their hosts see them: what Python, dispatch and launches of an operator cost, how
//! many kernels it launches, and what capturing and executing graphs adds.
//!
//! [`HostCosts`] has the dispatch of one eager framework, which `calibrate` measures; a profile
//! here adds what tells frameworks and versions apart, and falls back to it.

use indexmap::IndexMap;
use serde::Deserialize;
use sim_core::time::Time;

use crate::host::{Cost, HostCosts, OpClass};
use crate::provenance::Origin;

/// The catalogue of frameworks, `hw-models/catalogue/frameworks.yaml`.
pub const FRAMEWORKS: &str = include_str!("../catalogue/frameworks.yaml");

/// The profile of a framework.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    /// Interpreter around an operator of a forward pass or an update: modules, arguments, results.
    pub interpreter: Cost,
    /// The engine of automatic differentiation between two operators of a backward pass.
    pub engine: Cost,
    /// True if that engine has a thread of its own, for which Python waits.
    pub engine_thread: bool,
    /// True if it is the framework of [`HostCosts`], which `calibrate --with-torch` measures: a
    /// dispatch or a launch that was measured here counts before one of this profile, and any of a
    /// class before one of a broader class.
    #[serde(default)]
    pub calibrated: bool,
    /// Dispatch of an operator by class, without interpreter and launches; of a class without an
    /// entry what [`HostCosts`] says less `interpreter`.
    #[serde(default)]
    pub dispatch: IndexMap<OpClass, Cost>,
    /// Its counterpart in backward passes; of a class without an entry as in forward passes.
    #[serde(default)]
    pub backward: IndexMap<OpClass, Cost>,
    /// Launch of one kernel; if absent that of [`HostCosts`].
    #[serde(default)]
    pub launch: Option<Cost>,
    /// Kernels that an operator launches, by class; 1 of a class without an entry.
    #[serde(default)]
    pub launches: IndexMap<OpClass, u32>,
    /// Calls that captured Python makes for an operator, by class: of all below automatic
    /// differentiation, a linear layer its transposition and its product; 1 of a class without an
    /// entry.
    #[serde(default)]
    pub captured_calls: IndexMap<OpClass, u32>,
    /// How parameters are updated.
    pub update: UpdateStyle,
    /// True if gradients are added to what is there: each was cleared by a kernel, and another adds
    /// to it. Otherwise the first of a step takes its place.
    pub gradients_added: bool,
    /// Running an operator's Python against a trace, without dispatching it (co-execution).
    pub validate: Cost,
    /// Recording an operator to be executed later (lazy tensors).
    pub record: Cost,
    /// Addition of recording to an eager operator while it is traced.
    pub trace: Cost,
    /// Guards of a compiled region, and entering it.
    pub enter_region: Cost,
    /// The executor of a graph, for each operator without its launch.
    pub node: Cost,
    /// Compiled Python around a kernel that a compiler made; if absent as `node`.
    #[serde(default)]
    pub generated: Option<Cost>,
    /// True if operators of a library are dispatched from there as well: beside `node`, or beside
    /// `interpreter` where the compiled code is Python.
    #[serde(default)]
    pub graphs_dispatch: bool,
    /// A value, a notice or a batch handed from a thread to another.
    pub message: Cost,
    /// Making a graph ready to be executed, for each operator of it.
    pub build: Cost,
    /// Compiling a kernel that several operators become.
    pub compile: Cost,
    /// Recording and instantiating a graph of launches, for each kernel of it.
    pub capture: Cost,
    /// Time after which a thread gives up the interpreter lock if another waits for it.
    pub switch_interval: Cost,
}

/// How a framework updates parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateStyle {
    /// Operators over lists of all tensors.
    Lists,
    /// Operators of each parameter by itself.
    EachParameter,
}

/// Time of a host to issue an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The interpreter, or the engine of a backward pass.
    pub python: Time,
    /// Dispatch.
    pub dispatch: Time,
    /// One launch.
    pub launch: Time,
    /// Kernels it launches.
    pub launches: u32,
}

impl Issue {
    /// All of it.
    pub fn time(&self) -> Time {
        self.python.saturating_add(self.dispatch).saturating_add(self.launching())
    }

    /// All launches.
    pub fn launching(&self) -> Time {
        Time(self.launch.0.saturating_mul(u64::from(self.launches)))
    }
}

impl Framework {
    /// The framework on a host that is `factor` times as fast.
    #[must_use]
    pub fn at_speed(&self, factor: f64) -> Self {
        let mut framework = self.clone();
        let Self {
            interpreter,
            engine,
            dispatch,
            backward,
            launch,
            validate,
            record,
            trace,
            enter_region,
            node,
            generated,
            message,
            build,
            compile,
            capture,
            ..
        } = &mut framework;
        let always = [
            interpreter,
            engine,
            validate,
            record,
            trace,
            enter_region,
            node,
            message,
            build,
            compile,
            capture,
        ];
        let classes = dispatch.values_mut().chain(backward.values_mut());
        let costs = classes.chain(always).chain(launch.as_mut()).chain(generated.as_mut());
        costs.for_each(|cost| cost.us /= factor);
        framework
    }

    /// Constants that hold for all operators, with their names.
    pub fn costs(&self) -> impl Iterator<Item = (&'static str, &Cost)> {
        let all = [
            ("interpreter", &self.interpreter),
            ("engine", &self.engine),
            ("validate", &self.validate),
            ("record", &self.record),
            ("trace", &self.trace),
            ("enter region", &self.enter_region),
            ("node", &self.node),
            ("message", &self.message),
            ("build", &self.build),
            ("compile", &self.compile),
            ("capture", &self.capture),
            ("switch interval", &self.switch_interval),
        ];
        let some = [("launch", &self.launch), ("generated", &self.generated)];
        let some = some.into_iter().filter_map(|(name, cost)| Some((name, cost.as_ref()?)));
        all.into_iter().chain(some)
    }

    /// Constants of classes of operators: `dispatch of convolution`, `backward dispatch of
    /// convolution`.
    pub fn class_costs(&self) -> impl Iterator<Item = (String, &Cost)> {
        let kinds = [("dispatch", &self.dispatch), ("backward dispatch", &self.backward)];
        kinds.into_iter().flat_map(|(kind, costs)| {
            costs.iter().map(move |(class, cost)| (format!("{kind} of {class}"), cost))
        })
    }

    /// Cost of issuing an operator of a class, in a backward pass or outside of one.
    pub fn issue(&self, host: &HostCosts, class: OpClass, backward: bool) -> Issue {
        let python = if backward { &self.engine } else { &self.interpreter };
        let here = |cost: &Cost| self.calibrated && cost.provenance.origin == Origin::MeasuredHere;
        let own = |class| {
            let of_backward = backward.then(|| self.backward.get(&class)).flatten();
            of_backward.or_else(|| self.dispatch.get(&class)).map(Cost::time)
        };
        let of_host = |time: Time| Time(time.0.saturating_sub(self.interpreter.time().0));
        let dispatch = class.and_broader().find_map(|class| {
            let host = host.dispatch.get(&class).filter(|_| self.calibrated);
            let of_host = || host.map(|cost| of_host(cost.time()));
            if host.is_some_and(here) { of_host() } else { own(class).or_else(of_host) }
        });
        let dispatch = dispatch.unwrap_or_else(|| of_host(host.dispatch(class)));
        let launch = self.launch.as_ref().filter(|_| !here(&host.launch));
        let launch = launch.unwrap_or(&host.launch).time();
        let launches = of_class(&self.launches, class);
        Issue { python: python.time(), dispatch, launch, launches }
    }

    /// Time in which compiled code or the executor of a graph calls an operator, without launches:
    /// one whose kernels a compiler made, or one of a library; `from_python` if that code is
    /// Python.
    pub fn called(&self, class: OpClass, issue: &Issue, generated: bool, from_python: bool) -> Time {
        let dispatched = self.graphs_dispatch && !generated;
        let (call, calls) = match (dispatched, from_python, &self.generated) {
            (true, true, _) => (&self.interpreter, of_class(&self.captured_calls, class)),
            (false, true, Some(generated)) => (generated, 1),
            _ => (&self.node, 1),
        };
        let dispatch = if dispatched { issue.dispatch } else { Time::ZERO };
        Time(call.time().0.saturating_mul(calls.into())).saturating_add(dispatch)
    }
}

/// The entry of a class or of the next broader one, or 1.
fn of_class(counts: &IndexMap<OpClass, u32>, class: OpClass) -> u32 {
    class.and_broader().find_map(|class| counts.get(&class).copied()).unwrap_or(1)
}
