//! Properties of random programs: a plain interpreter does the same, and so does every mode.

use proptest::prelude::*;
use workloads::lanes::{ActivityKind, Lanes};
use workloads::program::base::Operators;
use workloads::program::convert::refused;
use workloads::program::execution::{Beside, Execution, FallBack, Kernels, LaunchedBy, Loops, Mode};
use workloads::program::modes::Ran;
use workloads::program::path::{Path, Region, Step, What, draw};
use workloads::program::run::{Session, Written};
use workloads::program::trace_graph::TraceGraph;

use super::plain::{BLOCKS, case, each, interpret, kernel, programs};
use super::{Case, kernels};

/// Iterations of each run.
const ITERATIONS: u32 = 8;

fn sessions() -> impl Strategy<Value = Session> {
    let beside = (any::<bool>(), 0..3_u32, any::<bool>(), any::<bool>()).prop_map(
        |(overlap, depth, rolled, replays)| Beside {
            overlap,
            depth,
            loops: if rolled { Loops::Rolled } else { Loops::Unrolled },
            fall_back: if replays { FallBack::Replay } else { FallBack::Continue },
        },
    );
    let queue = prop_oneof![Just(1), Just(2), 3..64_u64, Just(1_024)];
    let mode = prop_oneof![2 => Just(Mode::CoExecution), 1 => prop::sample::select(Mode::ALL.to_vec())];
    let kernels = prop_oneof![4 => Just(Kernels::Library), 1 => Just(Kernels::Merged)];
    (mode, any::<bool>(), kernels, beside, queue, 0..5_u64).prop_map(
        |(mode, graph, kernels, beside, queue, seed)| {
            let launch = if graph { LaunchedBy::Graph } else { LaunchedBy::Kernel };
            let usual = Execution::of(mode);
            let execution = match mode {
                Mode::Eager => usual,
                _ => Execution { mode, launch, kernels, beside },
            };
            Session { execution, iterations: ITERATIONS, seed, queue }
        },
    )
}

/// A program, whether backward passes have a thread, and a loader.
type Setup = (String, bool, Option<String>);

fn setups() -> impl Strategy<Value = Setup> {
    let loader = (0..3_u32, 1..3_u32, any::<bool>()).prop_map(|(workers, prefetch, pinned)| {
        format!("{{ time: 20 us, bytes: 1 MB, workers: {workers}, prefetch: {prefetch}, pinned: {pinned} }}")
    });
    (programs(true), any::<bool>(), prop::option::of(loader))
}

fn set_up((program, engine_thread, loader): &Setup) -> Case {
    let mut case = case(program);
    case.framework.engine_thread = *engine_thread;
    case.loader = loader.as_ref().map(|loader| super::written(loader));
    case
}

fn path(case: &Case, session: &Session, iteration: u32) -> Path {
    draw(case.program(), BLOCKS, session.seed, iteration).expect("a short path")
}

fn regions(steps: &[Step]) -> Vec<Region> {
    let region = |step: &Step| if let What::Run(region) = step.what { Some(region) } else { None };
    steps.iter().filter_map(region).collect()
}

/// Kernels of regions (us).
fn times_of(operators: &Operators, regions: &[Region]) -> Vec<u64> {
    regions
        .iter()
        .flat_map(|&region| vec![kernel(region); operators.of(region).len() * each(region) as usize])
        .collect()
}

/// Kernels on the stream, in order (us).
fn launched(lanes: &Lanes) -> Vec<u64> {
    let kernels = lanes.streams[0].items.iter().filter(|item| item.kind == ActivityKind::Kernel);
    kernels.map(|item| item.duration.0 / 1_000_000).collect()
}

/// Regions that are executed, and those among them that are by mistake.
#[derive(Default)]
struct Expected {
    all: Vec<Region>,
    astray: Vec<Region>,
    /// Not all of `all` need have been launched when the graph was stopped.
    at_most: bool,
}

/// Regions that iterations execute which ran like this.
fn expected(case: &Case, session: &Session, ran: &[Ran]) -> Expected {
    let beside = session.execution.beside;
    let mut traces = TraceGraph::new(beside.loops);
    let mut expected = Expected::default();
    for (iteration, &ran) in (0..).zip(ran) {
        let path = path(case, session, iteration);
        let trace: Vec<Step> = path.iter().copied().filter(|step| step.what.is_traced()).collect();
        if ran == Ran::FellBack {
            let departs = traces.departs(&trace).expect("it departs");
            expected.all.extend(regions(&trace[..departs]));
            let runs = |what: &What| matches!(what, What::Run(_) | What::Fetch(_) | What::Decide(_));
            let alone = traces.alone_behind(&trace, departs).into_iter().take_while(runs);
            let astray = alone.filter_map(|what| if let What::Run(it) = what { Some(it) } else { None });
            let astray: Vec<Region> = astray.filter(|_| beside.overlap).collect();
            expected.all.extend(&astray);
            expected.astray.extend(astray);
            if beside.fall_back == FallBack::Replay {
                expected.at_most = true;
                expected.all.extend(regions(&path));
            } else {
                expected.all.extend(regions(&trace[departs..]));
            }
        } else {
            expected.all.extend(regions(&path));
        }
        match ran {
            Ran::CoExecuted => assert_eq!(traces.departs(&trace), None),
            Ran::Tracing | Ran::FellBack => {
                traces.merge(&trace);
            }
            _ => {}
        }
    }
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_interpreter_takes_the_same_path(program in programs(true), seed in 0..100_u64) {
        let case = case(&program);
        for iteration in 0..ITERATIONS {
            let path = draw(case.program(), BLOCKS, seed, iteration).expect("a short path");
            let done: Vec<What> = path.iter().map(|step| step.what).collect();
            prop_assert_eq!(done, interpret(case.program(), seed, iteration));
        }
    }

    #[test]
    fn every_mode_executes_the_operators_of_the_path_in_order(
        setup in setups(),
        sessions in prop::collection::vec(sessions(), 4),
    ) {
        let case = set_up(&setup);
        for session in &sessions {
            if session.execution.mode == Mode::Static && !refused(case.program()).is_empty() {
                continue;
            }
            let executed = case.session(session);
            prop_assert_eq!(executed.iterations.len(), ITERATIONS as usize);
            let ran: Vec<Ran> = executed.iterations.iter().map(|it| it.ran).collect();
            let written = Written::first(case.program(), case.costs(), session, ITERATIONS).expect("it is short");
            prop_assert_eq!(written.ran(), &ran);
            if session.execution.kernels == Kernels::Merged {
                continue;
            }

            let Expected { all, astray, at_most } = expected(&case, session, &ran);
            let (all, launched) = (times_of(&case.base.library, &all), launched(written.lanes()));
            if !session.execution.beside.overlap && at_most {
                // Python drops what it had not launched yet.
                prop_assert!(launched.len() <= all.len());
            } else {
                prop_assert_eq!(&launched, &all, "{:?} {:?}", session, ran);
            }

            let spent = kernels(&executed);
            let most = all.iter().sum::<u64>() as f64;
            let stray = times_of(&case.base.library, &astray).iter().sum::<u64>() as f64;
            match at_most {
                false => prop_assert!(most - stray - 1e-6 <= spent && spent <= most + 1e-6, "{spent} of {most}"),
                true => prop_assert!(spent <= most + 1e-6),
            }
        }
    }

    #[test]
    fn a_faster_host_is_never_slower(program in programs(false), engine_thread: bool, session in sessions()) {
        let mut case = case(&program);
        case.framework.engine_thread = engine_thread;
        if session.execution.mode == Mode::Static && !refused(case.program()).is_empty() {
            return Ok(());
        }
        let total = |case: &Case| case.session(&session).iterations.iter().map(|it| it.time.0).sum::<u64>();
        // What was launched before its graph was cancelled still runs: the more, the faster the
        // host.
        if case.session(&session).iterations.iter().any(|it| it.ran == Ran::FellBack) {
            return Ok(());
        }
        let usual = total(&case);
        case.scale_host(0.5);
        prop_assert!(total(&case) <= usual, "{} > {}: {program} {session:?}", total(&case), usual);
    }
}

#[test]
fn a_trip_count_is_no_new_trace_of_a_rolled_loop() {
    let ran = |loops: &str, most: u32| -> Vec<Ran> {
        let case = case(&format!(
            "[ {{ loop: {{ name: tokens, trips: [1, {most}], body: [ {{ run: [ forward, head ] }} ] }} }}, {{ run: [ backward, update ] }} ]"
        ));
        let executed = case.run(&format!("co-execution: {{ loops: {loops} }}"), 40);
        executed.iterations.iter().map(|it| it.ran).collect()
    };
    let settled = |ran: &[Ran]| ran.iter().rev().take_while(|&&ran| ran == Ran::CoExecuted).count();
    for most in [3, 1_000] {
        assert!(settled(&ran("rolled", most)) >= 35, "{:?}", ran("rolled", most));
    }
    // Three trip counts are three traces; of a thousand hardly one comes twice.
    assert!(settled(&ran("unrolled", 3)) >= 20, "{:?}", ran("unrolled", 3));
    assert!(!ran("unrolled", 1_000).contains(&Ran::CoExecuted), "{:?}", ran("unrolled", 1_000));
}
