//! Explaining runs and words.

use super::support::{Sandbox, assert_session};

#[test]
fn a_run_is_explained_by_its_path_and_by_what_ifs() {
    let sandbox = Sandbox::with_pipeline("explain", "");
    assert_session!(
        "explain",
        sandbox.session(&["explain small.yaml", "explain small.yaml --variant gpipe"])
    );
    let json = sandbox.run("explain small.yaml --format json").json();
    assert_eq!(json["variant"], "1f1b", "gpipe does not fit");
    let path = json["path"].as_array().expect("a path");
    let sum: f64 = path.iter().map(|visit| visit["time_s"].as_f64().expect("a number")).sum();
    assert!((sum - json["step_time_s"].as_f64().expect("it fits")).abs() < 1e-9, "{sum}");
    let all = sandbox.run("explain small.yaml --all");
    assert!(all.out.lines().count() > path.len(), "every visit has a line: {}", all.out);
}

/// The answer fits on a screen, whatever is explained.
#[test]
fn an_explanation_fits_on_a_screen() {
    let sandbox = Sandbox::new("explain-screen");
    for words in ["megatron-22b", "ssdtrain-a100", "replay-resnet50-v100", "two-kinds-of-nodes"] {
        let answer = sandbox.run(&format!("explain {words} --quiet"));
        assert!(answer.out.lines().count() <= 25, "{}", answer.out);
        let widest = answer.out.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(widest <= 100, "{widest} columns: {}", answer.out);
    }
}

#[test]
fn a_page_is_written_where_one_is_asked_for() {
    let sandbox = Sandbox::with_pipeline("explain-page", "");
    let answer = sandbox.run("explain small.yaml --out pages");
    assert!(answer.out.contains("page: pages/explain-small.html"), "{}", answer.out);
    let page = sandbox.read("pages/explain-small.html");
    assert!(page.contains("<svg") && page.contains("twice as fast"), "a tornado");
    assert_eq!(sandbox.names("."), ["pages", "small.yaml"]);
}

#[test]
fn words_are_explained() {
    let sandbox = Sandbox::with_pipeline("explain-words", "");
    assert_session!(
        "explain-words",
        sandbox.session(&[
            "explain bubble",
            "explain pipeline bubble",
            "explain tokens/s",
            "explain zb-h3",
            "explain nonsense",
            "explain nowhere/mine.yaml",
        ])
    );
    assert_eq!(sandbox.run("explain zb-h1 --format json").json()["names"][0], "zb-h1");
}

const TRACE: &[u8] =
    include_bytes!("../../../workloads/tests/data/traces/trace_a100_resnet_ddp_2rank_rank0.json.gz");

/// A trace beside its own replay, which repeats what was recorded.
#[test]
fn a_recorded_step_is_laid_beside_the_simulated_one() {
    let sandbox = Sandbox::new("explain-measured");
    sandbox.write("trace.json.gz", TRACE);
    sandbox.write("replay.yaml", "name: Replay\nmodel: { trace: { file: trace.json.gz } }\n");
    let json = sandbox.run("explain replay.yaml --measured trace.json.gz --format json").json();
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let (recorded, simulated) = (number(&json["measured"]["measured_s"]), number(&json["step_time_s"]));
    assert!((simulated / recorded - 1.0).abs() < 0.1, "{simulated} of {recorded}");
    let parts = json["measured"]["parts"].as_array().expect("parts").clone();
    let sum = |key: &str| -> f64 {
        parts.iter().filter(|part| part["lane"] == "GPU").map(|part| number(&part[key])).sum()
    };
    assert!((sum("measured_s") - recorded).abs() < 1e-9, "parts add up");
    assert!((sum("simulated_s") - simulated).abs() < 1e-9, "parts add up");
    let difference = |part: &serde_json::Value| number(&part["simulated_s"]) - number(&part["measured_s"]);
    assert!(parts.is_sorted_by(|a, b| difference(a).abs() >= difference(b).abs()), "ranked: {parts:?}");
    let shown = sandbox.run("explain replay.yaml --measured trace.json.gz").out;
    assert!(shown.starts_with("The simulated step is"), "{shown}");
    assert!(shown.lines().count() <= 25, "{shown}");
    let plan = sandbox.run("explain resnet-50-data-parallel --measured trace.json.gz --quiet").out;
    assert!(plan.contains("exposed collectives") && plan.lines().count() <= 25, "{plan}");
    for (file, told) in [("nowhere.json", "cannot be opened"), ("replay.yaml", "replay.yaml")] {
        let refused = sandbox.run(&format!("explain replay.yaml --measured {file}"));
        assert!(refused.exit == 2 && refused.err.contains(told), "{}", refused.err);
    }
}

/// A file wins over a word of its name.
#[test]
fn a_file_is_no_word() {
    let sandbox = Sandbox::with_pipeline("explain-file", "");
    sandbox.write("skew", sandbox.read("small.yaml"));
    assert!(sandbox.run("explain skew").out.contains("critical path of 1f1b"));
}
