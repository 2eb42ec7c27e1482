//! Programs executed: timelines by hand, and what must hold of every mode.

mod by_hand;
mod convert;
mod corners;
mod plain;
mod properties;
mod regimes;
mod traces;
mod wrong;

use hw_models::framework::Framework;
use hw_models::host::{HostCosts, OpClass};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_yaml::with::singleton_map_recursive;
use sim_core::time::Time;
use workloads::program::base::{Base, BlockOperators, Operator, Operators, Way};
use workloads::program::issuer::Costs;
use workloads::program::run::{Executed, Session, execute};
use workloads::program::statement::{BatchLoader, Fragment, Program, Statement};

/// A host whose constants are easy to add up (us): interpreter 1, dispatch 2, launch 1, gaps 0.
const HOST: &str = "
dispatch: { pointwise: { us: 3.0, provenance: &p { origin: estimate, source: made up, confidence: low } } }
launch: { us: 1.0, provenance: *p }
neighbour: { us: 0.0, provenance: *p }
gap_in_stream: { us: 0.0, provenance: *p }
gap_in_graph: { us: 0.0, provenance: *p }
graph_launch: { us: 4.0, provenance: *p }
graph_node: { us: 0.0, provenance: *p }
synchronise: { us: 0.0, provenance: *p }
variation: { share: 0.0, provenance: *p }
allocation: { us: 0.0, gb_per_s: 1, provenance: *p }
release: { us: 0.0, gb_per_s: 1, provenance: *p }
";

/// A framework to go with it: validation 1, a node of a graph 1, messages and all else nothing.
const FRAMEWORK: &str = "
interpreter: { us: 1.0, provenance: &p { origin: estimate, source: made up, confidence: low } }
engine: { us: 1.0, provenance: *p }
engine_thread: false
update: lists
gradients_added: true
validate: { us: 1.0, provenance: *p }
record: { us: 1.0, provenance: *p }
trace: { us: 0.0, provenance: *p }
enter_region: { us: 0.0, provenance: *p }
node: { us: 1.0, provenance: *p }
message: { us: 0.0, provenance: *p }
build: { us: 0.0, provenance: *p }
compile: { us: 0.0, provenance: *p }
capture: { us: 0.0, provenance: *p }
switch_interval: { us: 5000.0, provenance: *p }
";

/// A program over blocks of kernels, with its costs.
struct Case {
    base: Base,
    host: HostCosts,
    framework: Framework,
    fragments: IndexMap<String, Fragment>,
    loader: Option<BatchLoader>,
    iteration: Vec<Statement>,
}

impl Case {
    /// Blocks, each a number of forward kernels and the time of each (us), and an iteration.
    fn new(blocks: &[(u32, u64)], iteration: &str) -> Self {
        let operator = |us: u64| Operator {
            class: OpClass::Pointwise,
            start: Time::ZERO,
            work: Time::from_us(us),
            members: 1,
            views: 0,
        };
        let block = |&(count, us): &(u32, u64)| BlockOperators {
            forward: vec![operator(us); count as usize],
            backward: vec![operator(us); count as usize],
        };
        let operators = Operators {
            blocks: blocks.iter().map(block).collect(),
            update: vec![operator(10)],
            fragments: vec![BlockOperators { forward: vec![operator(10)], backward: Vec::new() }],
        };
        let way = Way { latency: Time::ZERO, rate: 1e15 };
        let base = Base {
            library: operators.clone(),
            merged: operators,
            tensors: 1,
            copy_parameters: Time::from_us(100),
            to_device: [way; 2],
            from_device: way,
        };
        Self {
            base,
            host: serde_yaml::from_str(HOST).expect("costs"),
            framework: serde_yaml::from_str(FRAMEWORK).expect("a framework"),
            fragments: written("extra: { operators: 1, bytes: 1 MB }"),
            loader: None,
            iteration: written(iteration),
        }
    }

    fn program(&self) -> Program<'_> {
        let Self { fragments, loader, iteration, .. } = self;
        Program { fragments, loader: loader.as_ref(), iteration }
    }

    fn run(&self, execution: &str, iterations: u32) -> Executed {
        self.with_queue(execution, iterations, 1_024)
    }

    fn with_queue(&self, execution: &str, iterations: u32, queue: u64) -> Executed {
        let session = Session { execution: written(execution), iterations, seed: 1, queue };
        self.session(&session)
    }

    fn session(&self, session: &Session) -> Executed {
        execute(self.program(), self.costs(), session).expect("it runs")
    }

    /// Lets all of the host's own constants take `by` times as long.
    fn scale_host(&mut self, by: f64) {
        let Self { host, framework, .. } = self;
        let dispatch = host.dispatch.values_mut();
        let calls = [&mut host.launch, &mut host.graph_launch, &mut host.graph_node, &mut host.synchronise];
        let interpreter = [
            &mut framework.interpreter,
            &mut framework.engine,
            &mut framework.validate,
            &mut framework.record,
            &mut framework.trace,
            &mut framework.enter_region,
            &mut framework.node,
            &mut framework.message,
            &mut framework.build,
            &mut framework.compile,
            &mut framework.capture,
        ];
        dispatch.chain(calls).chain(interpreter).for_each(|cost| cost.us *= by);
    }

    fn costs(&self) -> Costs<'_> {
        let Self { base, loader, framework, host, .. } = self;
        Costs { base, loader: loader.as_ref(), framework, host }
    }
}

/// YAML as scenarios read it: a choice is a word, or a map with one key.
fn written<T: DeserializeOwned>(text: &str) -> T {
    singleton_map_recursive::deserialize(serde_yaml::Deserializer::from_str(text)).expect("it can be read")
}

/// Times of iterations (us).
fn times(executed: &Executed) -> Vec<f64> {
    executed.iterations.iter().map(|it| it.time.0 as f64 * 1e-6).collect()
}

/// Time of kernels (us).
fn kernels(executed: &Executed) -> f64 {
    let device = executed.lanes.iter().find(|lane| lane.name.starts_with("gpu")).expect("a stream");
    let spent = device.spent.iter().find(|(cause, _)| cause == "kernels");
    spent.map_or(0.0, |(_, time)| time.0 as f64 * 1e-6)
}
