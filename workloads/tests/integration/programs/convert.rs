//! Static conversion: what it cannot express is told with statement and reason.

use workloads::program::check::check;
use workloads::program::convert::{Reason, refused};
use workloads::program::execution::{Execution, Mode};

use super::Case;

fn reasons(iteration: &str) -> Vec<(String, Reason)> {
    refused(Case::new(&[(1, 1), (1, 1)], iteration).program())
}

/// One statement for each reason.
const PLANTED: [(Reason, &str); 6] = [
    (Reason::Mutation, "mutate: probability"),
    (Reason::HostBranch, "branch: { name: planted, probability: 30 %, then: [ { run: extra } ] }"),
    (Reason::Materialised, "fetch: { tensor: loss, when: every 10 }"),
    (Reason::ThirdParty, "third_party: { time: 1 ms }"),
    (Reason::Generator, "generator: [ { python: 1 us } ]"),
    (Reason::Try, "try: [ { run: extra } ]"),
];

#[test]
fn a_program_without_features_converts() {
    let programs = [
        "[ { feed: { batch: true, scalar: rate } }, { python: 1 ms }, { run: [ forward, backward, update ] }, { fetch: { tensor: loss } } ]",
        // Decided by a tensor, or always the same way.
        "[ { run: forward }, { branch: { name: a, by: loss, probability: 30 %, then: [ { run: extra } ] } }, { run: backward } ]",
        "[ { branch: { name: a, probability: 0 %, then: [ { mutate: a } ], else: [ { run: forward } ] } } ]",
        "[ { branch: { name: a, probability: 100 %, then: [ { run: forward } ], else: [ { mutate: a } ] } } ]",
        "[ { loop: { name: a, trips: [1, 9], body: [ { run: forward } ] } }, { fetch: { tensor: loss } } ]",
    ];
    for program in programs {
        assert_eq!(reasons(program), [], "{program}");
    }
}

#[test]
fn a_planted_feature_is_refused_where_it_stands() {
    for (reason, statement) in PLANTED {
        let flat = format!("[ {{ run: forward }}, {{ {statement} }}, {{ run: backward }} ]");
        assert_eq!(reasons(&flat), [("iteration[1]".to_owned(), reason)], "{statement}");
        let nested = format!(
            "[ {{ run: forward }}, {{ branch: {{ name: a, by: loss, probability: 0 %, else: [], then: [
                 {{ loop: {{ name: b, trips: 3, body: [ {{ run: forward }}, {{ {statement} }} ] }} }} ] }} }} ]"
        );
        let path = "iteration[1].branch.then[0].loop.body[1]".to_owned();
        assert_eq!(reasons(&nested), [(path, reason)], "{statement}");
    }
}

#[test]
fn a_value_that_operators_follow_is_materialised() {
    let last = "[ { run: forward }, { fetch: { tensor: loss } }, { mutate: best } ]";
    assert_eq!(reasons(last), [("iteration[2]".to_owned(), Reason::Mutation)]);
    for (trips, count) in [(1, 0), (2, 1)] {
        let program = format!(
            "[ {{ loop: {{ name: a, trips: {trips}, body: [ {{ run: forward }}, {{ fetch: {{ tensor: loss }} }} ] }} }} ]"
        );
        assert_eq!(reasons(&program).len(), count, "{trips} trips");
    }
    let conditional = "[ { run: forward }, { fetch: { tensor: loss } },
        { branch: { name: a, by: loss, probability: 0 %, then: [ { run: extra } ] } } ]";
    assert_eq!(reasons(conditional), [("iteration[1]".to_owned(), Reason::Materialised)]);
}

#[test]
fn all_reasons_are_told_in_the_order_of_the_program() {
    let statements: Vec<String> = PLANTED.iter().map(|(_, statement)| format!("{{ {statement} }}")).collect();
    let program = format!("[ {{ run: forward }}, {}, {{ run: update }} ]", statements.join(", "));
    let found: Vec<Reason> = reasons(&program).into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(found, Reason::ALL);
}

#[test]
fn only_static_mode_refuses() {
    let statements: Vec<String> = PLANTED.iter().map(|(_, statement)| format!("{{ {statement} }}")).collect();
    let program = format!("[ {{ run: forward }}, {}, {{ run: update }} ]", statements.join(", "));
    let case = Case::new(&[(1, 1), (1, 1)], &program);
    for mode in Mode::ALL {
        let faults = check(case.program(), Execution::of(mode), 2);
        let expected = if mode == Mode::Static { Reason::ALL.len() } else { 0 };
        assert_eq!(faults.len(), expected, "{}: {faults:?}", mode.name());
    }
    let faults = check(case.program(), Execution::of(Mode::Static), 2);
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"));
}
