//! Corners of modes: batches of an iteration that is repeated, graphs that are never launched, and
//! rounds of forward and backward passes.

use workloads::program::modes::Ran;
use workloads::program::run::Executed;

use super::{Case, kernels, times};

/// Time of a lane by cause (us).
fn spent(executed: &Executed, lane: &str, cause: &str) -> f64 {
    let lane = executed.lanes.iter().find(|it| it.name.contains(lane)).expect("the lane");
    lane.spent.iter().find(|(name, _)| name == cause).map_or(0.0, |(_, time)| time.0 as f64 * 1e-6)
}

fn count(executed: &Executed, ran: Ran) -> usize {
    executed.iterations.iter().filter(|it| it.ran == ran).count()
}

#[test]
fn a_backlog_of_the_device_is_no_part_of_a_step() {
    // Ten kernels of 10, in one launch of 4: the host gets ever further ahead.
    let case = Case::new(&[(10, 10)], "[ { run: forward } ]");
    let executed = case.run("cuda-graphs", 48);
    assert_eq!(executed.step.0, 100_000_000);
    assert_eq!(times(&executed)[1..], [100.0; 47]);
}

#[test]
fn an_iteration_that_is_repeated_uses_its_batches_again() {
    let mut case = Case::new(
        &[(2, 1), (2, 1)],
        "[ { feed: { batch: true } }, { run: forward 0..1 },
           { branch: { name: rare, probability: 10 %, then: [ { run: extra } ] } },
           { feed: { batch: true } }, { run: forward 1..2 } ]",
    );
    for workers in [0, 1, 3] {
        case.loader = Some(super::written(&format!(
            "{{ time: 20 us, bytes: 1 MB, pinned: true, workers: {workers} }}"
        )));
        for fall_back in ["replay", "continue"] {
            let executed = case.run(&format!("co-execution: {{ fall_back: {fall_back} }}"), 20);
            assert_eq!(count(&executed, Ran::FellBack), 1);
            let lanes = executed.lanes.iter().flat_map(|lane| &lane.spent);
            let made: u64 = lanes.filter(|(cause, _)| cause == "loader").map(|(_, time)| time.0).sum();
            assert_eq!(made, 20 * 2 * 20_000_000, "{workers} {fall_back}");
        }
    }
}

#[test]
fn a_graph_that_is_stopped_before_its_launch_executes_nothing() {
    // The device is behind, and one launch may wait: the graph of the iteration that falls back
    // waits with its launch until it is stopped.
    let case = Case::new(
        &[(2, 100), (4, 100)],
        "[ { run: forward 0..1 }, { branch: { name: extra, probability: 10 %, then: [ { run: extra } ] } },
           { run: forward 1..2 } ]",
    );
    for launch in ["kernel", "graph"] {
        let executed = case.with_queue(&format!("co-execution: {{ launch: {launch} }}"), 20, 1);
        assert_eq!(count(&executed, Ran::FellBack), 1);
        assert_eq!(kernels(&executed), kernels(&case.run("eager", 20)), "{launch}");
    }
}

#[test]
fn an_update_by_mistake_is_undone() {
    // The graph updates while Python works, and then takes a path that no trace has.
    let case = Case::new(
        &[(2, 1)],
        "[ { run: forward }, { python: 500 us },
           { branch: { name: extra, probability: 10 %, then: [ { run: extra } ] } }, { run: update } ]",
    );
    for fall_back in ["replay", "continue"] {
        let executed = case.run(&format!("co-execution: {{ fall_back: {fall_back} }}"), 20);
        assert_eq!(count(&executed, Ran::FellBack), 1);
        assert!(spent(&executed, "gpu", "copies") >= 100.0, "{fall_back}");
    }
}

#[test]
fn a_graph_is_told_that_its_iteration_ends() {
    let case = Case::new(
        &[(2, 1)],
        "[ { run: forward }, { python: 200 us }, { branch: { name: extra, probability: 50 %, then: [ { run: extra } ] } } ]",
    );
    let executed = case.run("co-execution", 20);
    let beside = count(&executed, Ran::CoExecuted);
    assert!(beside > 10, "{:?}", executed.iterations);
    let waited = spent(&executed, "graph", "waiting for the path");
    assert!(waited > 150.0 * beside as f64, "{waited} in {beside} iterations");
}

#[test]
fn operators_that_a_list_names_twice_are_two_places() {
    let mut case = Case::new(&[(2, 1)], "[ { run: [ forward, extra, extra, forward, backward ] } ]");
    // The graph waits wherever it has to.
    case.framework.validate.us = 50.0;
    let executed = case.run("co-execution", 8);
    assert_eq!(spent(&executed, "graph", "waiting for the path"), 0.0);
}

#[test]
fn each_compiled_region_has_a_backward_pass() {
    let python = |program: &str| spent(&Case::new(&[(1, 1)], program).run("compiled", 1), "python", "python");
    // The engine is entered once a region, for 1.
    assert_eq!(python("[ { run: [ forward, forward, backward ] } ]"), 1.0);
    assert_eq!(
        python("[ { run: forward }, { fetch: { tensor: loss } }, { run: [ forward, backward ] } ]"),
        2.0
    );
    assert_eq!(python("[ { run: [ forward, backward, forward, backward ] } ]"), 2.0);
}

#[test]
fn a_record_of_nothing_is_not_executed() {
    let mut case = Case::new(&[(3, 1)], "[ { run: forward }, { fetch: { tensor: loss } } ]");
    case.framework.message.us = 1.0;
    let executed = case.run("lazy", 2);
    // Three records of 1, and one handed over.
    assert_eq!(spent(&executed, "python", "python"), 2.0 * 4.0);
    assert_eq!(executed.iterations[1].ran, Ran::Captured);
    let mut fetches = Case::new(
        &[(3, 1)],
        "[ { run: forward }, { fetch: { tensor: loss } }, { fetch: { tensor: loss } } ]",
    );
    fetches.framework.message.us = 1.0;
    assert_eq!(spent(&fetches.run("lazy", 1), "python", "python"), 5.0);
    assert_eq!(fetches.run("lazy", 2).iterations[1].ran, Ran::Captured);
}
