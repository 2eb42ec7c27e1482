//! Interrupts while a simulation takes long, and what killed runs leave behind.

#[cfg(unix)]
use std::process::{Child, Command, Stdio};

#[cfg(unix)]
use crate::support::Answer;
use crate::support::Sandbox;

/// A variant that ends at once and one that takes minutes.
#[cfg(unix)]
const LONG: &str = "name: long
machine: { cluster: { node: dgx-h100, count: 64, fabric: hdr200-fat-tree } }
model: { transformer: { preset: gpt3-175b } }
training: { global_batch: 6144, micro_batch: 1, sequence: 2048 }
parallelism: { tensor: 8, pipeline: 16, data: 4, sequence_parallel: true, sharding: optimizer }
run: { fold: never, limit: 1000000000 }
variants:
  short: { training: { global_batch: 4 }, run: { fold: auto } }
  long: {}
";

#[cfg(unix)]
fn begun(sandbox: &Sandbox, words: &str) -> Child {
    sandbox.write("long.yaml", LONG);
    let mut command = sandbox.command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

#[cfg(unix)]
fn terminated(child: Child) -> Answer {
    let kill = format!("kill -TERM {0}; kill -TERM {0}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    Answer::of(child.wait_with_output().expect("it ends"))
}

/// Lines of the journal of runs that go on.
#[cfg(unix)]
fn lines_of_journal(sandbox: &Sandbox, name: &str) -> usize {
    let journal = sandbox.path(&format!("out/.{name}.journal"));
    std::fs::read_to_string(journal).map_or(0, |text| text.lines().count())
}

/// Terminates when a first run is in the journal, behind its head.
#[cfg(unix)]
fn terminated_after_one(child: Child, sandbox: &Sandbox, name: &str) -> Answer {
    while lines_of_journal(sandbox, name) < 2 {
        std::thread::yield_now();
    }
    let answer = terminated(child);
    assert_eq!(answer.exit, 130, "{}", answer.err);
    answer
}

/// Two signals that follow at once, as `timeout` sends them, are one interrupt.
#[cfg(unix)]
#[test]
fn a_single_long_run_ends_with_an_interrupt() {
    let sandbox = Sandbox::new("interrupt-long");
    let child = begun(&sandbox, "run long.yaml --variant long");
    while !sandbox.path("out").exists() || sandbox.names("out").is_empty() {
        std::thread::yield_now();
    }
    let answer = terminated(child);
    assert_eq!((answer.exit, answer.out.as_str()), (130, ""), "{}", answer.err);
    assert_eq!(answer.err, "error: interrupted before any run had ended\n");
    assert!(sandbox.names("out").is_empty());
}

/// Runs that had ended are in the results, and the next run goes on with it.
#[cfg(unix)]
#[test]
fn runs_that_had_ended_are_kept_while_another_takes_long() {
    let sandbox = Sandbox::new("interrupt-mixed");
    let child = begun(&sandbox, "run long.yaml --jobs 2");
    let answer = terminated_after_one(child, &sandbox, "long");
    assert!(answer.err.ends_with("error: interrupted; 1 runs had ended and are kept\n"), "{}", answer.err);
    let rows = sandbox.read("out/long/results.csv");
    assert!(rows.lines().count() == 2 && rows.contains("\nshort,"), "{rows}");
    let again = sandbox.run("run long.yaml --variant short --set run.seeds=1 --resume");
    assert_eq!(again.exit, 2, "{}", again.err);
    assert!(again.err.contains("no stopped run"), "{}", again.err);
}

/// A search that is stopped while a plan takes minutes: its report has the plans that had ended,
/// and says how many it did not come to.
#[cfg(unix)]
#[test]
fn a_search_that_is_stopped_reports_what_it_has() {
    let sandbox = Sandbox::new("interrupt-search");
    let search =
        LONG.split("variants:").next().unwrap_or_default().replace("global_batch: 6144, ", "").to_owned()
            + "search: { over: { training.global_batch: [4, 6144] }, minimise: time_per_sample }\n";
    sandbox.write("search.yaml", search);
    let mut command = sandbox.command("run search.yaml --jobs 2");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let answer = terminated_after_one(child, &sandbox, "search");
    let told = "error: interrupted with 1 of 2 plans not looked at: the same command goes on\n";
    assert!(answer.err.ends_with(told), "{}", answer.err);
    assert!(answer.out.starts_with("So far best of 2 plans"), "{}", answer.out);
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/search/results.json")).expect("JSON");
    let [left, fit] = ["left", "fit"].map(|count| results["search"][count].as_u64());
    assert_eq!((left, fit, results["variants"].as_array().map(Vec::len)), (Some(1), Some(1), Some(1)));
    // Numbers are not torn off the words that they count.
    let page = sandbox.read("out/search/report.html").replace('\u{a0}', " ");
    assert!(page.contains("It was stopped with 1 of 2 plans not looked at."), "no count");
    assert!(lines_of_journal(&sandbox, "search") >= 2, "the journal is kept");
}

#[test]
fn a_run_that_was_never_stopped_is_not_resumed() {
    let sandbox = Sandbox::with_pipeline("resume-nothing", "");
    let answer = sandbox.run("run small.yaml --resume");
    assert_eq!(answer.exit, 2, "{}", answer.err);
    assert!(answer.err.contains("leave out `--resume`"), "{}", answer.err);
    assert!(!sandbox.path("out/small").exists());
}

/// Results that a killed run was about to replace are put back, its folders go.
#[test]
fn what_killed_runs_left_is_swept_up() {
    let sandbox = Sandbox::with_pipeline("swept-up", "");
    sandbox.write("out/.small.new.4000001/results.csv", "half");
    sandbox.write("out/.small.old.4000001/results.csv", "old");
    sandbox.write("out/.small.new.4000002/results.csv", "half");
    sandbox.write("out/.smaller.new.4000003/results.csv", "of another file");
    let refused =
        sandbox.run("run small.yaml --variant 1f1b --set training.micro_batches=8 --jobs 1 --resume");
    assert_eq!(refused.exit, 2, "{}", refused.err);
    let answer = sandbox.run("run small.yaml --variant 1f1b");
    assert_eq!(answer.exit, 0, "{}", answer.err);
    assert_eq!(sandbox.names("out"), [".smaller.new.4000003", "small"]);
    assert_ne!(sandbox.read("out/small/results.csv"), "old");
}
