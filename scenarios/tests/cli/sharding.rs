//! Shards, merged and resumed: the same bytes as one run, whatever workers were killed.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::support::{Answer, Sandbox, assert_session};

const PAGES: [&str; 4] = ["report.html", "results.csv", "results.json", "scenario.yaml"];

/// Ten runs, of which some do not fit, with remedies.
const SWEEP: &str = "sweep: { training.micro_batches: [4, 8, 12, 16, 20] }\n";

/// Runs that take some milliseconds each.
const LONG: &str = "sweep: { training.micro_batches: { from: 2001, to: 2200, steps: 200 } }\n";
const LONG_RUNS: usize = 200;

/// Groups of plans that differ in their work, and plans that differ in stages alone.
const SPACE: &str = "
name: Small space
machine: { node: { name: dgx-1v-16g } }
model: { transformer: { layers: 8, hidden: 512, heads: 16, vocabulary: 32000, max_positions: 1024 } }
training: { micro_batch: 2, global_batch: 16, sequence: 512, precision: fp16-mixed }
parallelism: { idle: allow }
search:
  over:
    parallelism.tensor: [1, 2, 4]
    parallelism.pipeline: [1, 2, 4]
    training.micro_batch: [1, 2, 4]
    techniques.recompute: [none, { mode: full }]
  gap: 1 %
";

/// Fails unless two folders hold the same results.
fn assert_same(sandbox: &Sandbox, first: &str, second: &str) {
    for page in PAGES {
        let [first, second] = [first, second].map(|folder| sandbox.read(&format!("{folder}/{page}")));
        assert!(first == second, "{page} of {second} differs");
    }
}

/// Outcomes of a journal: its lines that are whole. A kill may tear one, which the next worker ends.
fn lines(sandbox: &Sandbox, path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(sandbox.path(path)).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let is_outcome = |line: &&str| {
        serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line.get("key").is_some())
    };
    whole.filter(is_outcome).map(str::to_owned).collect()
}

#[test]
fn any_number_of_workers_gives_the_bytes_of_one_run() {
    let sandbox = Sandbox::with_pipeline("shards", SWEEP);
    sandbox.write("space.yaml", SPACE);
    for name in ["small", "space"] {
        let alone = sandbox.run(&format!("run {name}.yaml --out alone --format csv"));
        assert_eq!(alone.exit, 0, "{}", alone.err);
        for count in [1, 2, 16] {
            let out = format!("out-{count}");
            for number in (1..=count).rev() {
                let shard = sandbox.run(&format!("run {name}.yaml --shard {number}/{count} --out {out}"));
                assert_eq!(shard.exit, 0, "{}", shard.err);
            }
            let merged = sandbox.run(&format!("merge {name}.yaml --out {out} --format csv"));
            assert_eq!((merged.exit, merged.err.as_str()), (0, ""));
            assert!(merged.out == alone.out);
            assert_same(&sandbox, &format!("alone/{name}"), &format!("{out}/{name}"));
        }
    }
    assert_eq!(sandbox.names("alone"), ["small", "space"], "no journal is left beside results");
}

/// Programs and traces are drawn as they run; a run from a journal is drawn later.
#[test]
fn undrawn_runs_are_drawn_when_they_are_merged() {
    let sandbox = Sandbox::new("shards-drawn");
    for name in ["replay-resnet50-v100", "graphs-vs-eager"] {
        sandbox.run(&format!("run {name} --out alone"));
        sandbox.run(&format!("run {name} --shard 1/1"));
        let merged = sandbox.run(&format!("merge {name}"));
        assert_eq!((merged.exit, merged.err.as_str()), (0, ""));
        assert_same(&sandbox, &format!("alone/{name}"), &format!("out/{name}"));
    }
}

#[test]
fn shards_say_how_far_they_are_and_what_follows() {
    let sandbox = Sandbox::with_pipeline("shards-told", SWEEP);
    assert_session!(
        "shards",
        sandbox.session(&[
            "run small.yaml --shard 1/3",
            "run small.yaml --shard 3/3 --format json",
            "run small.yaml --shard 2/3 --plan",
            "run small.yaml --shard 16/16",
            "merge small.yaml --variant 1f1b",
            "merge small.yaml --set training.micro_batch=1",
            "merge small.yaml",
        ])
    );
}

#[test]
fn shards_that_are_wrong_are_told() {
    let sandbox = Sandbox::with_pipeline("shards-wrong", SWEEP);
    sandbox.write("space.yaml", SPACE);
    assert_session!(
        "shards-wrong",
        sandbox.session(&[
            "run small.yaml --shard 0/4",
            "run small.yaml --shard 5/4",
            "run small.yaml --shard a/b",
            "run small.yaml --shard 1/4 --emit slurm",
            "run small.yaml --shards 4",
            "run small.yaml space.yaml --shard 1/4",
            "run - --emit ray",
            "merge small.yaml",
            "run space.yaml --shard 2/3",
            "merge space.yaml",
        ])
    );
}

/// Missing runs may be simulated by `merge`; a missing end, too.
#[test]
fn merging_finishes_where_it_is_asked_to() {
    let sandbox = Sandbox::with_pipeline("shards-finish", SWEEP);
    sandbox.write("space.yaml", SPACE);
    for name in ["small", "space"] {
        sandbox.run(&format!("run {name}.yaml --out alone"));
        sandbox.run(&format!("run {name}.yaml --shard 2/3"));
        assert_eq!(sandbox.run(&format!("merge {name}.yaml")).exit, 2);
        assert_eq!(sandbox.run(&format!("merge {name}.yaml --finish")).exit, 0);
        assert_same(&sandbox, &format!("alone/{name}"), &format!("out/{name}"));
    }
}

/// A file system that mixes up the lines of two nodes costs the time of these, and changes nothing.
#[test]
fn a_line_that_is_spoilt_is_simulated_again() {
    let sandbox = Sandbox::with_pipeline("shards-spoilt", SWEEP);
    sandbox.run("run small.yaml --out alone");
    sandbox.run("run small.yaml --shard 1/1");
    let journal = sandbox.read("out/small.shards/1-of-1.jsonl");
    sandbox.write("out/small.shards/1-of-1.jsonl", journal.replacen("\"fits\":", "\"fi{\"key\":", 2));
    let merged = sandbox.run("merge small.yaml");
    assert_eq!((merged.exit, merged.err.as_str()), (0, ""));
    assert_same(&sandbox, "alone/small", "out/small");
}

#[test]
fn two_versions_are_not_merged() {
    let sandbox = Sandbox::with_pipeline("shards-versions", SWEEP);
    sandbox.run("run small.yaml --shard 1/2");
    sandbox.run("run small.yaml --shard 2/2");
    let journal = "out/small.shards/2-of-2.jsonl";
    let (old, new) = ("\"foretrain\":\"0.0.9, not ", "\"foretrain\":\"");
    let older = sandbox.read(journal).replacen(new, old, 1);
    sandbox.write(journal, older);
    assert_session!("shards-versions", sandbox.session(&["merge small.yaml", "run small.yaml --shard 2/2"]));
    assert_eq!(sandbox.run("merge small.yaml").exit, 0);
    assert!(sandbox.path("out/small.shards/2-of-2.set-aside").exists());
}

/// A worker that is killed, again and again. `FORETRAIN_KILLS` says how often.
#[test]
fn a_killed_worker_loses_only_what_was_under_way() {
    let kills = std::env::var("FORETRAIN_KILLS").map_or(24, |kills| kills.parse().expect("a number"));
    let sandbox = Sandbox::with_pipeline("shards-killed", LONG);
    sandbox.run("run small.yaml --variant 1f1b --out alone");
    let (journal, mut killed, mut round) = ("out/small.shards/1-of-1.jsonl", 0, 0);
    while killed < kills {
        round += 1;
        let _ = std::fs::remove_dir_all(sandbox.path("out"));
        let mut kept: Vec<String> = Vec::new();
        loop {
            let mut worker = sandbox.command("run small.yaml --variant 1f1b --shard 1/1 --quiet --jobs 2");
            let mut worker = worker.stdout(Stdio::null()).spawn().expect("it starts");
            // Delays that differ and are the same in every test.
            std::thread::sleep(Duration::from_millis(20 + (killed * 7919 + round * 104_729) % 160));
            worker.kill().expect("it can be killed");
            let is_done = worker.wait().expect("it ends").success();
            let lines = lines(&sandbox, journal);
            assert!(lines.starts_with(&kept), "a whole line is never lost");
            let keys: BTreeSet<&str> = lines.iter().map(|line| &line[..48]).collect();
            assert_eq!(keys.len(), lines.len(), "nothing that was kept is simulated again");
            kept = lines;
            if is_done {
                break;
            }
            killed += 1;
        }
        assert_eq!(kept.len(), LONG_RUNS);
        assert_eq!(sandbox.run("merge small.yaml --variant 1f1b").exit, 0);
        assert_same(&sandbox, "alone/small", "out/small");
    }
}

/// A run that was killed goes on where it was, be its last line torn; one of another version begins anew.
#[test]
fn a_killed_run_is_resumed() {
    let sandbox = Sandbox::with_pipeline("resumed", LONG);
    let run = "run small.yaml --variant 1f1b --quiet --jobs 1 --format csv";
    let alone = sandbox.run(&format!("{run} --out alone"));
    let killed = || {
        let mut worker = sandbox.command(run).stdout(Stdio::null()).spawn().expect("it starts");
        while lines(&sandbox, "out/.small.journal").len() < 20 {
            std::thread::yield_now();
        }
        worker.kill().expect("it can be killed");
        worker.wait().expect("it ends");
        lines(&sandbox, "out/.small.journal").len()
    };
    let resumed = |note: &str| {
        let answer = sandbox.run(run);
        assert_eq!((answer.exit, answer.err.as_str()), (0, note));
        assert!(answer.out == alone.out);
        assert_same(&sandbox, "alone/small", "out/small");
        assert!(!sandbox.path("out/.small.journal").exists(), "results need no journal");
    };
    let kept = killed();
    let text = sandbox.read("out/.small.journal");
    let torn = text.trim_end().len() - 40;
    sandbox.write("out/.small.journal", &text[..torn]);
    resumed(&format!("note: this run goes on with {} simulations of one that was stopped\n", kept - 1));
    killed();
    let older =
        sandbox.read("out/.small.journal").replacen("\"foretrain\":\"", "\"foretrain\":\"0.0.9, not ", 1);
    sandbox.write("out/.small.journal", &older);
    let version = older.split('"').nth(5).expect("the version");
    let aside =
        format!("`out/.small.journal` is of foretrain {version}: it was set aside as `out/.small.set-aside`");
    resumed(&format!("note: {aside}\n"));
    assert_eq!(sandbox.read("out/.small.set-aside"), older);
    // A heading that is not whole heads nothing.
    sandbox.write("out/.small.journal", "{\"form\":1,\"foretr");
    resumed("");
}

/// A run is worth more than its journal; a shard is nothing without it.
#[cfg(unix)]
#[test]
fn a_journal_that_cannot_be_written_ends_a_shard_and_no_run() {
    let sandbox = Sandbox::with_pipeline("unkept", LONG);
    sandbox.write("out/.small.journal/in-the-way", "");
    let run = sandbox.run("run small.yaml --variant 1f1b --quiet");
    assert_eq!(run.exit, 0, "{}", run.err);
    assert!(run.err.starts_with("warning: ") && run.err.lines().count() == 1, "{}", run.err);
    let shard = sandbox.limited("40", "run small.yaml --variant 1f1b --shard 1/1 --quiet");
    assert_eq!(shard.exit, 2, "{}", shard.err);
    assert!(
        shard.err.contains("1-of-1.jsonl") && shard.err.contains("may not be that long"),
        "{}",
        shard.err
    );
    let shard = sandbox.run("run small.yaml --variant 1f1b --shard 1/1");
    assert!(shard.out.starts_with("shard 1/1: 200 of 200 runs"), "{}", shard.out);
}

/// An interrupted run keeps its results, and what it takes to go on.
#[cfg(unix)]
#[test]
fn an_interrupted_shard_goes_on() {
    let sandbox = Sandbox::with_pipeline("shards-interrupted", LONG);
    let words = "run small.yaml --shard 1/2 --jobs 1";
    let mut child = sandbox.command(words);
    child.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("it starts");
    while lines(&sandbox, "out/small.shards/1-of-2.jsonl").is_empty() {
        std::thread::yield_now();
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    let answer = Answer::of(child.wait_with_output().expect("it ends"));
    assert_eq!(answer.exit, 130, "{}", answer.err);
    assert!(answer.err.contains("runs of the shard are kept"), "{}", answer.err);
    let merge = sandbox.run("merge small.yaml");
    assert!(merge.err.contains("shard 2/2 lacks 200 runs"), "{}", merge.err);
    assert!(sandbox.run(words).out.starts_with("shard 1/2: 200 of 200 runs"));
}
