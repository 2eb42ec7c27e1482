//! What is wrong, where, and how to mend it: exit code 2.

use super::support::{Sandbox, assert_session};

#[test]
fn all_problems_of_all_files_are_told_at_once() {
    let sandbox = Sandbox::with_pipeline("problems", "");
    sandbox.write("bad.yaml", "name: bad\nmodle: {}\ntraining: { micro_batches: many }\n");
    assert_session!(
        "problems",
        sandbox.session(&[
            "check small.yaml bad.yaml",
            "run small.yaml --set training.micro_batchs=8 --set run",
            "run small.yaml --variant zb",
        ])
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let sandbox = Sandbox::new("unreadable");
    sandbox.write("folder/x.yaml", "");
    sandbox.write("latin1.yaml", b"name: caf\xe9\n");
    sandbox.write("huge.yaml", vec![b'#'; scenarios::MAX_BYTES + 1]);
    sandbox.write("lost.yaml", "name: lost\nextends: base.yaml\n");
    assert_session!(
        "unreadable",
        sandbox.session(&[
            "check none.yaml",
            "check pipeline-schedule",
            "check folder",
            "check .",
            "check latin1.yaml",
            "check huge.yaml",
            "check lost.yaml",
            "check small.yaml/x",
        ])
    );
}

#[test]
fn programs_get_the_problems_as_json() {
    let sandbox = Sandbox::new("problems-json");
    sandbox.write("bad.yaml", "name: bad\nmodle: {}\n");
    for words in
        ["check bad.yaml --format json", "run bad.yaml --format json", "run bad.yaml --plan --format json"]
    {
        let answer = sandbox.run(words);
        assert_eq!(answer.exit, 2);
        let json = answer.json();
        let problems = json["problems"].as_array().expect("a list");
        let slip =
            problems.iter().find(|problem| problem["help"] == "did you mean `model`?").expect("the slip");
        assert_eq!(slip["places"][0], serde_json::json!({ "file": "bad.yaml", "line": 2, "column": 1 }));
        assert!(answer.err.contains("bad.yaml:2:1"), "people are told as well");
    }
    let unlocated = sandbox.run("run none.yaml --format json").json();
    assert_eq!(unlocated["schema_version"], 2);
    assert!(
        unlocated["problems"][0]["message"].as_str().is_some_and(|message| message.contains("none.yaml"))
    );
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::OsStr::from_bytes(b"caf\xe9.yaml");
    let output = Sandbox::new("not-text").command("check").arg(path).output().expect("the binary starts");
    let answer = super::support::Answer::of(output);
    assert_eq!(answer.exit, 2);
    assert!(answer.err.contains("UTF-8"), "{}", answer.err);
}

/// Pipes and devices are not waited for, and no line of a file that is no scenario is shown.
#[cfg(unix)]
#[test]
fn files_that_a_scenario_names_are_files_and_foreign_ones_are_not_quoted() {
    let sandbox = Sandbox::new("named-files");
    let pipe = sandbox.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it is there").success());
    sandbox.write("secret", "token: 0123\n");
    sandbox.write("list", "- 0123\n");
    sandbox.write("broken", "a: [0123\n");
    for name in ["pipe", "/dev/zero", "secret", "list", "broken"] {
        sandbox.write("names.yaml", format!("name: x\nextends: {name}\n"));
        let answer = sandbox.run("check names.yaml");
        assert_eq!(answer.exit, 2, "{name}: {}", answer.err);
        let is_device = ["pipe", "/dev/zero"].contains(&name);
        let expected = if is_device { "it is a pipe or a device, not a file" } else { "is not a scenario" };
        assert!(answer.err.contains(expected) && !answer.err.contains("0123"), "{name}: {}", answer.err);
    }
    for setting in ["calibration: [pipe]", "model: { transformer: { preset: none, config: pipe } }"] {
        let text = format!("name: x\nextends: library:megatron-22b\n{setting}\n");
        sandbox.write("names.yaml", text);
        let answer = sandbox.run("check names.yaml");
        assert!(answer.exit == 2 && answer.err.contains("a pipe or a device"), "{setting}: {}", answer.err);
    }
}

/// A range with a wrong value is one mistake, and a mistake of a variant names it.
#[test]
fn one_cause_is_one_problem_and_names_its_variant() {
    let sandbox = Sandbox::with_pipeline(
        "one-cause",
        "sweep: { training.micro_batches: { from: 1, to: 100, steps: 1000 } }\n",
    );
    let answer = sandbox.run("check small.yaml");
    assert!(answer.exit == 2 && answer.err.ends_with("\n1 problem\n"), "{}", answer.err);
    let model = "name: x\nmachine: { node: dgx-h100 }\nmodel: { transformer: { preset: gpt2 } }\n\
        training: { micro_batch: 1, sequence: 512 }\n";
    sandbox.write(
        "wide.yaml",
        format!("{model}variants: {{ plain: {{}}, wide: {{ parallelism: {{ tensor: 16 }} }} }}\n"),
    );
    let answer = sandbox.run("check wide.yaml");
    assert!(answer.err.contains("over 16 ranks (variant `wide`)"), "{}", answer.err);
    assert!(answer.err.contains("= help: 4 would do"), "{}", answer.err);
    let swept = "variants: { wide: { parallelism: { tensor: 2 } } }\nsweep: { parallelism.tensor: [1, 2] }\n";
    sandbox.write("swept.yaml", format!("{model}{swept}"));
    let answer = sandbox.run("check swept.yaml");
    assert!(answer.err.contains("of the variant `wide` is swept"), "{}", answer.err);
}

/// Groups of operators that no kernel can be, and words that name none: each told once, with what to do.
#[test]
fn fusion_that_cannot_be_is_refused() {
    let sandbox = Sandbox::new("fusion-mistakes");
    let scenario = "name: fused
machine: { node: { name: epyc-pcie-8x, gpu: MI } }
model: { layers: { preset: resnet-50 } }
training: { micro_batch: 8, accumulate: 1, precision: fp16, step: forward }
parallelism: { data: 1, idle: allow }
variants:
  twice:   { techniques: { fusion: { policy: epilogues, members: [bias, activation, bias] } } }
  without: { techniques: { fusion: { policy: inductor, members: [bias], prune: 20 % } } }
  none:    { techniques: { fusion: { policy: searched, prune: 120 % } } }
  anchors: { techniques: { fusion: { policy: epilogues, members: [bias, anchor] } } }
  both:    { software: { compile: true }, techniques: { fusion: { policy: xla } } }
";
    sandbox.write("members.yaml", scenario.replace("MI", "a100-pcie-40gb"));
    sandbox.write(
        "unknown.yaml",
        scenario.replace("MI", "a100-pcie-40gb").replace("xla }", "xla, members: [relu] }"),
    );
    let plain = scenario.split("variants:").next().expect("the base");
    sandbox
        .write("limits.yaml", format!("{}techniques: {{ fusion: {{}} }}\n", plain.replace("MI", "mi250x")));
    sandbox.write(
        "sums.yaml",
        plain.replace("MI", "mi250x").replace("fp16,", "bf16,")
            + "software: { products: { accumulate: fp16 } }\n",
    );
    sandbox
        .write("training.yaml", plain.replace("MI", "a100-pcie-40gb").replace("step: forward", "step: full"));
    assert_session!(
        "fusion-mistakes",
        sandbox.session(&[
            "check members.yaml",
            "check unknown.yaml",
            "check limits.yaml",
            "check sums.yaml",
            "check training.yaml",
            "run training.yaml --set training.precision=fp16-mixed --explain-fusion groups.csv -q",
        ])
    );
}

/// A word in place of a map is suggested as a map that is right.
#[test]
fn a_map_that_is_suggested_for_a_word_works() {
    let sandbox = Sandbox::new("word-for-a-map");
    let file = |recompute: &str| {
        "name: One
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2-medium } }
training: { global_batch: 64, micro_batch: 1, sequence: 512, precision: bf16-mixed }
techniques: { recompute: "
            .to_owned()
            + recompute
            + " }\n"
    };
    for (word, map) in
        [("full", "{ mode: full }"), ("selective", "{ mode: selective }"), ("[full]", "{ mode: full }")]
    {
        sandbox.write("one.yaml", file(word));
        let refused = sandbox.run("check one.yaml");
        assert_eq!(refused.exit, 2, "{word}");
        let (_, suggested) = refused.err.rsplit_once("= help: write ").expect("a remedy");
        assert!(suggested.contains(&format!("`{map}`")), "{word}: {suggested}");
        sandbox.write("one.yaml", file(map));
        let taken = sandbox.run("check one.yaml");
        assert_eq!(taken.exit, 0, "{word}: {}", taken.err);
    }
}
