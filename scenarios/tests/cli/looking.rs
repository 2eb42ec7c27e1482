//! Looking without running: list, show, check and `--plan`.

use super::support::{PIPELINE, Sandbox, assert_session};

#[test]
fn lists_say_what_there_is_in_a_line_each() {
    let sandbox = Sandbox::new("lists");
    assert_session!(
        "lists",
        sandbox.session(&["list", "list scenarios", "list schedules", "list techniques", "list metrics"])
    );
    let listing = sandbox.run("list techniques --format json").json();
    assert_eq!(listing["schema_version"], 2);
    assert_eq!(listing["items"][1]["name"], "bpipe");
}

#[test]
fn the_catalogue_is_listed_with_what_matters_and_how_far_it_is_to_be_trusted() {
    let sandbox = Sandbox::new("catalogue");
    let line = |topic: &str, name: &str| {
        let listed = sandbox.run(&format!("list {topic}")).out;
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("no `{name}` in {listed}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let gpu = "a100-sxm4-80gb ampere 8.0, 108 SMs, 312 TFLOP/s in bf16, 80 GiB at 2039 GB/s, 12 x nvlink3, pcie4 x16 confidence high";
    assert_eq!(line("gpus", "a100-sxm4-80gb"), gpu);
    let gpus = sandbox.run("list gpus --format json").json();
    let listed = gpus["items"].as_array().and_then(|all| all.iter().find(|it| it["name"] == "rtx-3070"));
    let sm = &listed.expect("listed")["details"]["multiprocessor"];
    assert_eq!(
        (&sm["registers"], &sm["shared_bytes"], &sm["blocks"]),
        (&65_536.into(), &102_400.into(), &16.into())
    );
    let node = "dgx-a100-80g 8 x a100-sxm4-80gb, NVSwitch, pcie4, 8 x connectx-6-hdr200, hdr200-fat-tree confidence high";
    assert_eq!(line("machines", "dgx-a100-80g"), node);
    let model = "gpt3-96b 96.2 billion parameters, 80 layers, hidden 9984, 104 heads, 2048 positions";
    assert_eq!(line("models", "gpt3-96b"), model);
    assert!(line("fabrics", "hdr200-fat-tree-2to1").contains("2 to 1 oversubscribed"));
    for (topic, name) in
        [("links", "nvlink3"), ("nics", "connectx-6-hdr200"), ("ssds", "samsung-980-pro-1tb")]
    {
        assert!(line(topic, name).contains("confidence"), "{topic}");
    }
    let eager = line("frameworks", "pytorch-2");
    assert!(
        eager.contains(" interpreter 6 us, ") && eager.contains(", engine on its own thread, "),
        "{eager}"
    );
    let profiled = line("frameworks", "pytorch-1.9-profiled");
    assert!(profiled.contains(", launch 9 us, dispatch of its own for 10 classes, "), "{profiled}");
    let frameworks = sandbox.run("list frameworks --format json").json();
    let tensorflow =
        frameworks["items"].as_array().and_then(|all| all.iter().find(|it| it["name"] == "tensorflow-2.4"));
    let source = tensorflow.and_then(|it| it["source"].as_str()).expect("a source of each constant");
    assert!(source.contains("; dispatch of matrix-product 14 us, estimate: "), "{source}");
    let gpus = sandbox.run("list gpus --format json").json();
    let a100 =
        gpus["items"].as_array().and_then(|gpus| gpus.iter().find(|gpu| gpu["name"] == "a100-sxm4-80gb"));
    let source = a100.and_then(|gpu| gpu["source"].as_str()).expect("a source");
    assert!(source.starts_with("data sheet: "), "{source}");
}

#[test]
fn show_prints_every_value_with_its_origin() {
    let sandbox = Sandbox::with_pipeline("show", "sweep: { training.micro_batches: [8, 16] }\n");
    assert_session!(
        "show",
        sandbox.session(&[
            "show small.yaml --variant 1f1b --set run.seeds=3",
            "show small.yaml --explain training.micro_batches",
            "show small.yaml --explain parallelism.schedule",
            "show small.yaml --explain techniques.bpipe.bound",
            "show small.yaml --explain parallelism.shedule",
            "show small.yaml --variant interleaved",
        ])
    );
}

#[test]
fn what_show_prints_is_a_scenario_that_gives_the_same_results() {
    let sandbox = Sandbox::with_pipeline("show-again", "");
    let shown = sandbox.run("show small.yaml --variant 1f1b").out;
    sandbox.write("again.yaml", shown);
    let step = |words: &str| sandbox.run(words).json()["variants"][0]["step_time_s"].clone();
    let again = step("run again.yaml --format json");
    assert!(again.is_number());
    assert_eq!(again, step("run small.yaml --variant 1f1b --format json"));
}

#[test]
fn check_and_plan_size_up_without_simulating() {
    let sandbox = Sandbox::with_pipeline("check", "sweep: { training.micro_batches: [8, 16] }\n");
    assert_session!(
        "check",
        sandbox.session(&[
            "check small.yaml bpipe-profiled",
            "run small.yaml --plan",
            "run small.yaml --plan --variant 1f1b --set training.micro_batches=4",
            "check small.yaml --format json",
        ])
    );
    assert_eq!(sandbox.names("."), ["small.yaml"]);
}

#[test]
fn impossible_points_are_told_by_reason() {
    let sandbox = Sandbox::with_pipeline(
        "reasons",
        "  inter: { parallelism: { schedule: { interleaved: { chunks: 2 } } } }\nsweep: { training.micro_batches: [8, 9, 10] }\n",
    );
    let answer = sandbox.run("check small.yaml");
    let rest =
        answer.out.split_once("7 runs, 2 more impossible, ").expect("nine runs, two of them impossible").1;
    let reasons = rest.lines().skip(1).collect::<Vec<_>>();
    assert_eq!(reasons, ["  2 x the interleaved schedule needs a multiple of 4 micro-batches, not 9"]);
    let json = sandbox.run("check small.yaml --format json").json();
    assert_eq!(json["plan"]["infeasible"], 2);
    assert_eq!(json["plan"]["reasons"][0]["runs"], 2);
}

#[test]
fn a_plan_above_the_limit_is_refused_with_the_flag_that_lifts_it() {
    let sandbox = Sandbox::with_pipeline("limit", "");
    let refused = sandbox.run("check small.yaml --set run.limit=10");
    assert_eq!(refused.exit, 2);
    let remedy = refused.err.split('`').find(|part| part.starts_with("--set run.limit=")).expect("a flag");
    assert_eq!(sandbox.run(&format!("check small.yaml {remedy}")).exit, 0, "{remedy}");
}

#[test]
fn a_scenario_may_come_from_standard_input() {
    let sandbox = Sandbox::new("stdin");
    sandbox.write("piped", PIPELINE);
    sandbox.write("broken", "name: x\nmodle: 1\n");
    let piped = |file: &str, words: &str| {
        let from = std::fs::File::open(sandbox.path(file)).expect("it was just written");
        super::support::Answer::of(sandbox.command(words).stdin(from).output().expect("the binary starts"))
    };
    assert_eq!(piped("piped", "run -").exit, 0);
    assert_eq!(sandbox.names("out"), ["stdin"]);
    let broken = piped("broken", "check -");
    assert_eq!(broken.exit, 2);
    assert!(broken.err.contains("<stdin>:2:1"), "{}", broken.err);
}
