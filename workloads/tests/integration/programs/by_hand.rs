//! Timelines by hand, to the microsecond. An eager operator takes the host 1 + 2 + 1; its kernel
//! may begin when the launch ends.

use workloads::program::modes::Ran;

use super::{Case, kernels, times};

#[test]
fn a_host_that_is_slower_than_kernels_decides() {
    // 4 a kernel of the host's time, 10 kernels; the last of an iteration ends 1 after its launch.
    let case = Case::new(&[(10, 1)], "[ { run: forward } ]");
    assert_eq!(times(&case.run("eager", 2)), [41.0, 40.0]);
}

#[test]
fn kernels_that_are_slower_than_the_host_decide() {
    // The host is through after 40 and 80; the device begins at 4, and does 100 an iteration.
    let case = Case::new(&[(10, 10)], "[ { run: forward } ]");
    assert_eq!(times(&case.run("eager", 2)), [104.0, 100.0]);
}

#[test]
fn a_full_queue_stalls_the_host() {
    let case = Case::new(&[(10, 10)], "[ { run: forward } ]");
    // With two launches waiting the tenth one of the first iteration waits for the eighth kernel to
    // begin, at 4 + 7 x 10; the last one of all waits for the 18th, at 174, and takes 1.
    let stalled = case.with_queue("eager", 2, 2);
    assert_eq!(times(&stalled), [104.0, 100.0]);
    let (_, queue) =
        stalled.lanes[0].spent.iter().find(|(cause, _)| cause == "launch queue full").expect("a stall");
    assert_eq!(queue.0, (175 - 80) * 1_000_000);
}

#[test]
fn a_fetch_in_the_middle_lets_the_host_wait_for_the_device() {
    // 4 to 104 on the device; the copy was issued at 40 + 2 + 1. Then five more: 104 + 20, and 10.
    let case = Case::new(
        &[(10, 10), (5, 1)],
        "[ { run: forward 0..1 }, { fetch: { tensor: loss } }, { run: forward 1..2 } ]",
    );
    assert_eq!(times(&case.run("eager", 1)), [104.0 + 20.0 + 1.0]);
}

#[test]
fn a_graph_is_one_launch() {
    // Two kernels of 1: launched one by one the last ends at 8 + 1; as a graph at 4 + 2.
    let case = Case::new(&[(2, 1)], "[ { run: forward } ]");
    assert_eq!(times(&case.run("eager", 1)), [9.0]);
    assert_eq!(times(&case.run("cuda-graphs", 1)), [6.0]);
}

#[test]
fn python_runs_beside_the_graph() {
    // Two iterations are traced, eagerly: 40 each. From the third on Python checks 10 operators in
    // 10, the graph launches them in 20.
    let case = Case::new(&[(10, 1)], "[ { run: forward } ]");
    let all = times(&case.run("co-execution", 8));
    assert_eq!(all[..2], [41.0, 40.0]);
    assert_eq!(all[2..], [20.0; 6]);
    // Without overlap one does what both did.
    let apart = times(&case.run("co-execution: { overlap: false }", 8));
    assert_eq!(apart[2..7], [30.0; 5]);
}

#[test]
fn compiled_code_dispatches_what_it_calls_of_a_library() {
    // Ten kernels of 1: an executor or a launcher takes 2 for each and 1 to launch it. Operators
    // that no compiler has made a kernel of take 2 more, and an interpreter 1 in place of 2 if the
    // code is Python.
    for (dispatches, mode, kernels, time) in [
        (false, "static", "library", 30.0),
        (true, "static", "library", 50.0),
        (true, "static", "merged", 30.0),
        (false, "compiled", "library", 30.0),
        (true, "compiled", "library", 40.0),
        (true, "compiled", "merged", 30.0),
    ] {
        let mut case = Case::new(&[(10, 1)], "[ { run: forward } ]");
        case.framework.graphs_dispatch = dispatches;
        case.framework.node.us = 2.0;
        let executed = case.run(&format!("{mode}: {{ kernels: {kernels} }}"), 8);
        assert_eq!(times(&executed)[2..7], [time; 5], "{dispatches}, {mode}, {kernels}");
    }
}

#[test]
fn a_feed_that_comes_late_stalls_the_graph() {
    // Python works 100 before it feeds a number, which costs the graph a copy (2 + 1) before its
    // kernels.
    let case = Case::new(&[(10, 1)], "[ { python: 100 us }, { feed: { scalar: rate } }, { run: forward } ]");
    let executed = case.run("co-execution", 8);
    assert_eq!(times(&executed)[4..7], [110.0; 3]);
    let graph = executed.lanes.iter().find(|lane| lane.name == "thread[graph]").expect("a graph");
    assert!(graph.spent.iter().any(|(cause, _)| cause == "waiting for a feed"), "{:?}", graph.spent);
}

#[test]
fn a_library_that_holds_the_lock_keeps_the_graph_from_its_feed() {
    // The graph takes the lock to get what it is fed, for 1: beside a call that holds it for 30, it
    // comes to it afterwards.
    let held = |holds: bool| {
        let mut case = Case::new(
            &[(10, 1)],
            &format!(
                "[ {{ feed: {{ scalar: rate }} }}, {{ third_party: {{ time: 30 us, holds_lock: {holds} }} }}, {{ run: forward }} ]"
            ),
        );
        case.framework.message.us = 1.0;
        times(&case.run("co-execution: { depth: 0 }", 8))[5]
    };
    assert!(held(true) > held(false), "{} and {}", held(true), held(false));
}

#[test]
fn kernels_that_were_launched_before_their_graph_was_stopped_still_run() {
    // Python works 20 between two kernels of 100 that the graph launches, and the operator that no
    // trace has. Meanwhile the graph has launched the four that follow in all traces, which run
    // though nobody needs them.
    let case = Case::new(
        &[(2, 100), (4, 100)],
        "[ { run: forward 0..1 }, { python: 20 us },
           { branch: { name: extra, probability: 10 %, then: [ { run: extra } ] } }, { run: forward 1..2 } ]",
    );
    for (fall_back, repeated) in [("replay", 2), ("continue", 0)] {
        let executed = case.run(&format!("co-execution: {{ fall_back: {fall_back} }}"), 20);
        let fell = executed.iterations.iter().filter(|it| it.ran == Ran::FellBack).count();
        assert_eq!(fell, 1, "{:?}", executed.iterations);
        let eager = case.run("eager", 20);
        assert_eq!(kernels(&executed), kernels(&eager) + (4.0 + f64::from(repeated)) * 100.0);
    }
}
