//! Where results go, and what happens when they cannot.

use std::process::Stdio;

use super::support::{Answer, Sandbox};

const PAGES: [&str; 4] = ["report.html", "results.csv", "results.json", "scenario.yaml"];

#[test]
fn results_replace_the_old_ones_as_a_whole() {
    let sandbox = Sandbox::with_pipeline("replace", "");
    for words in
        ["run small.yaml", "run small.yaml --set training.micro_batches=2", "run small.yaml --out x/y"]
    {
        assert_eq!(sandbox.run(words).exit, 0);
    }
    assert_eq!(sandbox.names("out/small"), PAGES);
    assert!(sandbox.read("out/small/scenario.yaml").contains("micro_batches: 2"));
    assert_eq!(sandbox.names("out"), ["small"], "nothing is left beside");
    assert_eq!(sandbox.names("x/y/small"), PAGES);
}

#[test]
fn the_scenario_beside_the_results_can_be_run() {
    let sandbox = Sandbox::with_pipeline("rerun", "");
    sandbox.run("run small.yaml");
    let answer = sandbox.run("check out/small/scenario.yaml");
    assert_eq!(answer.exit, 0, "{}", answer.err);
}

/// A scenario names hardware files as seen from where it is; the copy beside the results is elsewhere.
#[test]
fn the_scenario_beside_the_results_finds_the_files_that_it_names() {
    let sandbox = Sandbox::new("rerun-files");
    let errors = "{ samples: 9, mean: 0, median: 0, p90: 0, p95: 0, worst: 0, bias: 0 }";
    sandbox.write(
        "in/host.yaml",
        format!(
            "form: 1\nforetrain: t\ndate: 2026-01-01\ndevice: {{ name: a host, driver: '1' }}\nsteady: true\nlaws:\n  launch:\n    \
             constants: {{ call: {{ value: 9, unit: us, error: 0.01, told: true }} }}\n    method: m\n    fitted: {errors}\n    \
             held_out: {errors}\n    scatter: 0\n    unstable: 0\n    refused: 0\n"
        ),
    );
    sandbox.write(
        "in/step.yaml",
        "name: step
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2 } }
training: { global_batch: 8, micro_batch: 1, sequence: 512 }
parallelism: { data: 8 }
calibration: [host.yaml]
",
    );
    let run = |file: &str| sandbox.run(&format!("run {file} --quiet --format json --out again")).json();
    sandbox.run("run in/step.yaml --quiet");
    let kept = sandbox.read("out/step/scenario.yaml");
    assert!(kept.contains("/in/host.yaml]"), "{kept}");
    let step = |answer: serde_json::Value| answer["variants"][0]["step_time_s"].as_f64().expect("it fits");
    let (first, again) = (step(run("in/step.yaml")), step(run("out/step/scenario.yaml")));
    assert_eq!(first, again);
    assert!(
        sandbox.read("out/step/results.json").contains("[host.yaml]"),
        "results do not depend on where they are"
    );
}

#[test]
fn a_folder_with_other_files_is_not_replaced() {
    let sandbox = Sandbox::with_pipeline("strangers", "");
    sandbox.write("out/small/notes.txt", "mine");
    let answer = sandbox.run("run small.yaml");
    assert_eq!(answer.exit, 2);
    assert!(answer.err.contains("`notes.txt`") && answer.err.contains("--out"), "{}", answer.err);
    assert_eq!(sandbox.names("out/small"), ["notes.txt"]);
    assert_eq!(sandbox.names("out"), ["small"]);
}

#[test]
fn nowhere_to_write_is_told_before_the_run() {
    let sandbox = Sandbox::with_pipeline("nowhere", "");
    sandbox.write("file", "");
    for (words, place) in
        [("run small.yaml --out file", "file/small"), ("run small.yaml --out file/x", "file/x/small")]
    {
        let answer = sandbox.run(words);
        assert_eq!((answer.exit, answer.out.as_str()), (2, ""));
        assert!(answer.err.contains(place) && answer.err.contains("a file is in the way"), "{}", answer.err);
    }
    sandbox.write("out/small", "a file where the results should be");
    assert_eq!(sandbox.run("run small.yaml").exit, 2);
}

#[test]
fn a_reader_that_goes_away_is_a_normal_end() {
    let sandbox = Sandbox::with_pipeline("closed", "");
    let all = ["", "--help", "schema", "list", "show small.yaml", "check small.yaml", "completions zsh"];
    for words in all.into_iter().chain(["run small.yaml", "run small.yaml --format json", "new my.yaml"]) {
        let mut child =
            sandbox.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let answer = Answer::of(child.wait_with_output().expect("it ends"));
        assert_eq!((answer.exit, answer.err.as_str()), (0, ""), "{words}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = Sandbox::new("full").command("schema").stdout(full).output().expect("it starts");
    let answer = Answer::of(output);
    assert_eq!(answer.exit, 2);
    assert!(answer.err.starts_with("error: cannot write to standard output: "), "{}", answer.err);
}

/// Ctrl-C, and what Slurm, Kubernetes and closed terminals send.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_run_and_leaves_whole_results_or_none() {
    ["INT", "TERM", "HUP"].into_iter().for_each(interrupted_by);
}

#[cfg(unix)]
fn interrupted_by(signal: &str) {
    let sweep = "sweep: { training.micro_batches: { from: 2001, to: 6000, steps: 4000 } }\n";
    let sandbox = Sandbox::with_pipeline(&format!("interrupt-{signal}"), sweep);
    let command = "run small.yaml --jobs 1 --variant 1f1b";
    let child =
        sandbox.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // What is staged tells that the run has begun, and with it the handling of interrupts.
    let staged = sandbox.path(&format!("out/.small.new.{}", child.id()));
    while !staged.exists() {
        std::thread::yield_now();
    }
    let kill = format!("kill -{signal} {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    let answer = Answer::of(child.wait_with_output().expect("it ends"));
    assert_eq!(answer.exit, 130, "{signal}: {}", answer.err);
    assert!(answer.err.contains("interrupted"), "{signal}: {}", answer.err);
    for name in sandbox.names("out") {
        match name.as_str() {
            ".small.journal" => {}
            folder => assert_eq!(sandbox.names(&format!("out/{folder}")), PAGES),
        }
    }
}
