//! Comparing two runs.

use super::support::{PIPELINE, Sandbox, assert_session};

/// Two schedules that fit.
const BOTH_FIT: &str = "  zb: { parallelism: { schedule: zb-h1 } }\n";

#[test]
fn variants_of_results_are_compared() {
    let sandbox = Sandbox::with_pipeline("compare", BOTH_FIT);
    sandbox.run("run small.yaml");
    assert_session!(
        "compare",
        sandbox.session(&[
            "compare out/small:1f1b :zb",
            "compare out/small:1f1b :gpipe",
            "compare out/small:1f1b :zb --format markdown",
        ])
    );
}

#[test]
fn results_and_scenarios_are_the_same_source() {
    let sandbox = Sandbox::with_pipeline("compare-sources", BOTH_FIT);
    sandbox.run("run small.yaml");
    let times = |words: &str| sandbox.run(words).json()["time"].clone();
    let of_results = times("compare out/small:1f1b out/small:zb --format json");
    assert!(of_results.as_array().is_some_and(|rows| !rows.is_empty()));
    assert_eq!(of_results, times("compare small.yaml:1f1b small.yaml:zb --format json"));
    assert_eq!(of_results, times("compare out/small:1f1b small.yaml:zb --format json"));
}

/// Rows of causes add up to the difference of the steps, in both orders.
#[test]
fn a_waterfall_adds_up_in_both_orders() {
    let sandbox = Sandbox::with_pipeline("compare-waterfall", BOTH_FIT);
    sandbox.run("run megatron-22b");
    for (a, b) in [("full", "selective-sp"), ("selective-sp", "full")] {
        let json = sandbox.run(&format!("compare out/megatron-22b:{a} :{b} --format json")).json();
        let sum: f64 = json["time"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|row| row["difference"].as_f64().expect("a number"))
            .sum();
        let step = json["step"]["difference"].as_f64().expect("a number");
        assert!((sum - step).abs() < 1e-9 && step != 0.0, "{a} to {b}: {sum} of {step}");
    }
}

#[test]
fn a_setting_is_compared_with_another_value_of_it() {
    let sandbox = Sandbox::with_pipeline("compare-setting", "");
    let json = sandbox.run("compare small.yaml:1f1b --set-b training.micro_batches=16 --format json").json();
    assert_eq!(json["a"]["name"], "1f1b");
    assert_eq!(json["b"]["name"], "micro-batches 16");
    let settings = json["settings"].as_array().expect("settings of both");
    assert!(settings.iter().any(|one| one["path"] == "training.micro_batches" && one["b"] == "16"));
}

#[test]
fn a_point_of_a_sweep_is_chosen() {
    let sandbox = Sandbox::with_pipeline("compare-sweep", "sweep: { training.micro_batches: [8, 16] }\n");
    sandbox.run("run small.yaml");
    sandbox.write("plain.yaml", PIPELINE);
    assert_session!(
        "compare-sweep",
        sandbox.session(&[
            "compare out/small:1f1b plain.yaml:1f1b",
            "compare small.yaml:1f1b plain.yaml:1f1b",
            "compare out/small:1f1b :gpipe --set training.micro_batches=9",
            "compare out/small:1f1b :gpipe --set training.micro_batch=4",
        ])
    );
    let words = "compare out/small:1f1b --set training.micro_batches=8 --set-b training.micro_batches=16";
    let json = sandbox.run(&format!("{words} --format json")).json();
    assert_eq!(json["settings"][0]["b"], "16", "two points of one sweep");
}

#[test]
fn wrong_sources_are_told_with_what_to_do() {
    let sandbox = Sandbox::with_pipeline("compare-wrong", "");
    sandbox.write("empty/notes.txt", "");
    sandbox.write("old/results.json", "{ \"schema_version\": 1 }");
    sandbox.write("text/results.json", "none");
    sandbox.write("damaged/results.json", "{ \"schema_version\": 2 }");
    assert_session!(
        "compare-wrong",
        sandbox.session(&[
            "compare out/nowhere small.yaml",
            "compare empty small.yaml",
            "compare old small.yaml",
            "compare text small.yaml",
            "compare damaged small.yaml",
            "compare small.yaml:1f1b",
            "compare small.yaml:2f2b small.yaml",
            "compare small.yaml:1f1b small.yaml --set training.micro_batches",
        ])
    );
}
