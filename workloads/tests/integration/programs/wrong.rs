//! Programs that are wrong say so, all at once.

use workloads::program::check::check;
use workloads::program::execution::{Execution, Mode};

use super::{Case, written};

/// Faults of a case over two blocks, a line each.
fn faults(case: &Case, mode: Mode) -> Vec<String> {
    check(case.program(), Execution::of(mode), 2).iter().map(ToString::to_string).collect()
}

fn of(iteration: &str) -> Vec<String> {
    faults(&Case::new(&[(1, 1), (1, 1)], iteration), Mode::Eager)
}

#[test]
fn everything_wrong_is_told_at_once() {
    let mut case = Case::new(
        &[(1, 1), (1, 1)],
        "[ { feed: { batch: true } },
           { feed: {} },
           { fetch: { tensor: loss } },
           { fetch: { tensor: los } },
           { run: [ backward, forwards, forward 1..1, forward 1..7, forward 4..7 ] },
           { run: [] },
           { branch: { name: one, by: gradient, probability: 50 %, then: [ { fetch: { tensor: extra } } ],
               else: [ { loop: { name: one, trips: 0, body: [] } } ] } },
           { branch: { name: two, by: rest, probability: 50 % } },
           { try: [ { generator: [ { run: blok } ] } ] } ]",
    );
    case.fragments = written(
        "{ extra: { operators: 1, bytes: 1 MB }, host: { operators: 1, bytes: 1 MB }, forward 0..3: { operators: 1, bytes: 1 MB },
           forward one: { operators: 1, bytes: 1 MB }, block: { operators: 1, bytes: 1 MB } }",
    );
    insta::assert_snapshot!(faults(&case, Mode::Eager).join("\n"));
}

#[test]
fn loaders_and_feeds_of_batches_belong_together() {
    let mut case = Case::new(&[(1, 1)], "[ { run: forward } ]");
    case.loader = Some(written("{ time: 1 ms, bytes: 1 MB }"));
    assert_eq!(faults(&case, Mode::Eager).len(), 1);
    case.iteration = written("[ { try: [ { feed: { batch: true } } ] }, { run: forward } ]");
    assert_eq!(faults(&case, Mode::Eager), [""; 0]);
    // Without one, batches are in the memory of the GPU.
    case.loader = None;
    assert_eq!(faults(&case, Mode::Eager), [""; 0]);
}

#[test]
fn an_iteration_runs_operators() {
    let nothing = "iteration: has no statements: add `- run: [forward, backward, update]`";
    assert_eq!(of("[]"), [nothing]);
    let never = "[ { python: 1 us },
                   { branch: { name: a, probability: 0 %, then: [ { run: forward } ] } },
                   { branch: { name: b, probability: 100 %, else: [ { run: forward } ] } } ]";
    let expected = "iteration: runs no operator on any path: add `- run: [forward, backward, update]`, or take a way that runs operators";
    assert_eq!(of(never), [expected]);
}

#[test]
fn a_tensor_may_be_read_where_some_path_has_made_it() {
    let right = [
        "[ { run: forward }, { fetch: { tensor: loss } } ]",
        "[ { branch: { name: a, probability: 1 %, then: [ { run: extra } ] } }, { fetch: { tensor: extra } }, { run: update } ]",
        // The second trip reads what the first one made.
        "[ { loop: { name: a, trips: [0, 2], body: [ { fetch: { tensor: extra } }, { run: extra } ] } } ]",
        "[ { run: [ forward, backward ] }, { branch: { name: a, by: gradients, probability: 1 % } } ]",
        // The third trip's backward pass follows the second trip's forward pass.
        "[ { loop: { name: a, trips: 3, body: [ { branch: { name: b, probability: 50 %, then: [ { run: backward } ] } }, { run: forward } ] } } ]",
    ];
    for program in right {
        assert_eq!(of(program), [""; 0], "{program}");
    }
    let made = |program| {
        let faults = of(program);
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults.into_iter().next().unwrap_or_default()
    };
    assert_eq!(
        made("[ { fetch: { tensor: loss } }, { run: forward } ]"),
        "iteration[0].fetch.tensor: `loss` is made only behind this statement: move the statement behind `run: forward`"
    );
    assert_eq!(
        made("[ { loop: { name: a, trips: 1, body: [ { fetch: { tensor: extra } }, { run: extra } ] } } ]"),
        "iteration[0].loop.body[0].fetch.tensor: `extra` is made only behind this statement: move the statement behind `run: extra`"
    );
    assert_eq!(
        made(
            "[ { run: forward }, { branch: { name: a, probability: 0 %, then: [ { run: extra } ] } }, { fetch: { tensor: extra } } ]"
        ),
        "iteration[2].fetch.tensor: `extra` is made on no path: add `- run: extra` before the statement"
    );
    assert_eq!(
        made("[ { run: forward }, { branch: { name: a, by: gradients, probability: 10 % } } ]"),
        "iteration[1].branch.by: `gradients` is made on no path: add `- run: backward` before the statement"
    );
}

#[test]
fn a_backward_pass_follows_a_forward_pass() {
    for (program, count) in [
        ("[ { run: [ forward, backward, backward ] } ]", 1),
        ("[ { run: [ forward, backward ] }, { run: [ forward, backward ] } ]", 0),
        // Its fragment has no backward pass.
        ("[ { run: [ extra, backward ] } ]", 1),
        ("[ { run: forward }, { loop: { name: a, trips: 2, body: [ { run: backward } ] } } ]", 0),
        (
            "[ { run: forward }, { loop: { name: a, trips: [0, 2], body: [ { run: backward } ] } }, { run: backward } ]",
            0,
        ),
        (
            "[ { run: forward }, { loop: { name: a, trips: [1, 2], body: [ { run: backward } ] } }, { run: backward } ]",
            1,
        ),
    ] {
        assert_eq!(of(program).len(), count, "{program}: {:?}", of(program));
    }
}

#[test]
fn nested_loops_are_checked_in_a_moment() {
    let depth = 40;
    let open: String =
        (0..depth).map(|at| format!("{{ loop: {{ name: a{at}, trips: [0, 4], body: [ ")).collect();
    let close = " ] } }".repeat(depth);
    assert_eq!(of(&format!("[ {open} {{ run: [ forward, backward ] }} {close} ]")), [""; 0]);
}
