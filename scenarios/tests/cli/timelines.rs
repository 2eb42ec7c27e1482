//! Files for viewers of timelines: of which runs they are written, and in which form.

use serde_json::Value;

use super::support::Sandbox;

const TRACE: &[u8] =
    include_bytes!("../../../workloads/tests/data/traces/trace_a100_resnet_ddp_2rank_rank0.json.gz");

/// Events of a Chrome trace by phase.
fn count(sandbox: &Sandbox, file: &str, phase: &str) -> usize {
    let events: Vec<Value> = serde_json::from_str(&sandbox.read(file)).expect("JSON");
    events.iter().filter(|event| event["ph"] == phase).count()
}

#[test]
fn one_run_is_written_in_the_form_of_its_name() {
    let sandbox = Sandbox::with_pipeline("timeline", "");
    let written = sandbox.run("run small.yaml --quiet --variant 1f1b --trace run.pftrace");
    assert_eq!((written.exit, written.err.as_str()), (0, "trace: run.pftrace of 1f1b\n"));
    let alone = std::fs::read(sandbox.path("run.pftrace")).expect("it is there");
    assert!(alone.len() > 1_000 && alone.first() == Some(&0x0a));
    sandbox.run("run small.yaml --quiet --variant 1f1b --trace again.pftrace");
    assert!(alone == std::fs::read(sandbox.path("again.pftrace")).expect("it is there"), "the same again");
    assert_eq!(sandbox.run("run small.yaml --quiet --variant 1f1b --trace run.json").exit, 0);
    let phases = ["B", "E", "s", "f"].map(|phase| count(&sandbox, "run.json", phase));
    assert_eq!((phases[0], phases[2]), (phases[1], phases[3]));
    assert!(phases[0] > 64 && phases[2] > 8, "{phases:?}");
    let left: Vec<_> = sandbox.names(".").into_iter().filter(|name| name.contains("unfinished")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn what_cannot_be_written_is_refused_with_what_can() {
    let sandbox = Sandbox::with_pipeline("timeline-refused", "");
    let refused = |words: &str, told: &str| {
        let answer = sandbox.run(words);
        assert_eq!(answer.exit, 2, "{}", answer.err);
        assert!(answer.err.contains(told), "{}", answer.err);
    };
    refused("run small.yaml --trace a.pftrace", "choose one with `--variant gpipe`");
    refused("run small.yaml --variant 1f1b --trace a.txt", "end it in `.pftrace`");
    refused("run small.yaml --variant gpipe --trace a.pftrace", "`gpipe` has no trace");
    refused("run small.yaml small.yaml --variant 1f1b --trace a.pftrace", "leave the others out");
    refused("run small.yaml --variant 1f1b --trace no/such/a.pftrace", "cannot write `no/such/a.pftrace`");
    refused(
        "run small.yaml --variant 1f1b --set training.micro_batches=65536 --set run.steps.measured=3 --trace a.json",
        "name it `a.pftrace`",
    );
    assert!(!sandbox.path("a.pftrace").exists() && !sandbox.path("a.json").exists());
}

#[test]
fn of_a_sweep_the_best_run_is_written() {
    let sandbox = Sandbox::with_pipeline("timeline-sweep", "sweep: { training.micro_batches: [4, 16] }\n");
    let written = sandbox.run("run small.yaml --quiet --variant 1f1b --trace run.json");
    assert_eq!(written.err, "trace: run.json of 1f1b (micro-batches 16)\n");
    assert!(sandbox.read("run.json").contains("forward of micro-batch 15"));
}

#[test]
fn threads_and_streams_are_written_with_their_launches() {
    let sandbox = Sandbox::new("timeline-lanes");
    sandbox.write("trace.json.gz", TRACE);
    let imported = sandbox.run("import kineto trace.json.gz --trace replay.json");
    assert_eq!((imported.exit, imported.err.as_str()), (0, "trace: replay.json\n"));
    assert!(count(&sandbox, "replay.json", "B") > 2_700, "every kernel is a slice");
    assert!(sandbox.read("replay.json").contains("\"launch\""));
    let arrows = ["s", "f"].map(|phase| count(&sandbox, "replay.json", phase));
    assert_eq!(arrows[0], arrows[1]);
    assert!(arrows[0] > 2_700, "{arrows:?}");
    let program = sandbox.run("run graph-breaks --quiet --variant no-break --trace program.pftrace");
    assert_eq!(program.exit, 0, "{}", program.err);
}
