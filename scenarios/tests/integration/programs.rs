//! The ten programs of Terra: which a conversion of the whole program can express, and why not.

use std::collections::BTreeMap;

use scenarios::Failure;
use serde_json::{Value, json};
use workloads::program::PROGRAMS;

use crate::support::{messages, read, run};

/// Programs that conversion refuses, and words of the published reason.
const REFUSED: [(&str, &str); 5] = [
    ("dropblock", "changes a Python object"),
    ("music-transformer", "changes a Python object"),
    ("sdpoint", "changes a Python object"),
    ("bert-cls", "reads a tensor that operators follow"),
    ("faster-rcnn", "calls a library"),
];

/// Features that defeat a conversion, and words of the reason.
fn features() -> [(Value, &'static str); 5] {
    [
        (json!({ "mutate": "state" }), "changes a Python object"),
        (json!({ "third_party": { "time": "1 us" } }), "calls a library"),
        (json!({ "try": [{ "python": "1 us" }] }), "handles exceptions"),
        (json!({ "generator": [{ "python": "1 us" }] }), "yields"),
        (json!({ "fetch": { "tensor": "loss" } }), "reads a tensor that operators follow"),
    ]
}

fn programs() -> BTreeMap<String, Value> {
    serde_yaml::from_str(PROGRAMS).expect("programs")
}

/// A scenario of a program with another iteration, if one is given.
fn scenario(name: &str, execution: &str, iteration: Option<&Value>) -> String {
    let mut program = json!({ "preset": name });
    if let Some(iteration) = iteration {
        program["iteration"] = iteration.clone();
    }
    let scenario = json!({
        "name": "test",
        "machine": { "node": "epyc-pcie-8x" },
        "model": { "program": program },
        "training": { "accumulate": 1, "precision": "fp32" },
        "software": { "framework": "tensorflow-2.4", "execution": execution },
        "run": { "iterations": 6 },
    });
    scenario.to_string()
}

fn refusals(result: Result<scenarios::Experiment, Failure>) -> Vec<String> {
    result.err().map_or_else(Vec::new, |failure| messages(&failure).into_iter().map(str::to_owned).collect())
}

#[test]
fn five_of_ten_programs_convert() {
    for name in programs().keys() {
        let found = refusals(read(&scenario(name, "static", None), &[]));
        match REFUSED.iter().find(|(refused, _)| refused == name) {
            Some((_, reason)) => {
                assert!(found.iter().any(|message| message.contains(reason)), "{name}: {found:?}");
            }
            None => assert_eq!(found, [""; 0], "{name}"),
        }
        assert_eq!(refusals(read(&scenario(name, "co-execution", None), &[])), [""; 0], "{name}");
    }
}

#[test]
fn without_its_feature_each_of_the_others_converts() {
    let programs = programs();
    for (name, _) in REFUSED {
        let iteration = programs[name]["iteration"].as_array().expect("statements");
        let last = iteration.len() - 1;
        let kept = iteration.iter().enumerate().filter(|(at, statement)| {
            let decides = statement.get("branch").is_some();
            let reads = statement.get("fetch").is_some() && *at < last;
            !(decides || reads || statement.get("mutate").is_some() || statement.get("third_party").is_some())
        });
        let kept = Value::Array(kept.map(|(_, statement)| statement.clone()).collect());
        assert_eq!(refusals(read(&scenario(name, "static", Some(&kept)), &[])), [""; 0], "{name}");
    }
}

#[test]
fn each_feature_makes_each_of_the_five_fail_where_it_stands() {
    let programs = programs();
    let convertible = programs.keys().filter(|name| !REFUSED.iter().any(|(refused, _)| refused == name));
    let mut cases = 0;
    for name in convertible {
        for (feature, reason) in features() {
            let mut iteration = programs[name]["iteration"].as_array().expect("statements").clone();
            // Behind a forward pass, before what follows it.
            let runs = iteration
                .iter()
                .position(|statement| statement.get("run").is_some() || statement.get("loop").is_some());
            let at = runs.expect("it runs something");
            iteration.splice(at..at, [json!({ "run": "forward" }), feature.clone()]);
            let found = refusals(read(&scenario(name, "static", Some(&Value::Array(iteration))), &[]));
            let here = format!("iteration[{}]", at + 1);
            let told = found.iter().any(|message| message.contains(reason) && message.contains(&here));
            assert!(told, "{name}, {feature}: {found:?}");
            cases += 1;
        }
    }
    assert_eq!(cases, 25);
}

#[test]
fn a_program_of_one_pass_is_its_model() {
    // Where the host is never late, iterations take what the plan's step does, but for the gap
    // behind its last kernel.
    let model = r#"{ "layers": { "preset": "resnet-50" } }"#;
    let of = |model: &str, software: &str| {
        format!(
            r#"{{ "name": "test", "machine": {{ "node": "dgx-1v-32g" }}, "model": {model},
            "training": {{ "micro_batch": 32, "accumulate": 1, "precision": "fp32", "optimizer": "sgd-momentum" }}, {software} }}"#
        )
    };
    let program = format!(
        r#"{{ "program": {{ "base": {model}, "iteration": [{{ "run": ["forward", "backward", "update"] }}] }} }}"#
    );
    let step = |text: &str| {
        let experiment = read(text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
        run(&experiment).variants[0].step_time_s.expect("a step")
    };
    let plan = step(&of(
        model,
        r#""parallelism": { "data": 1, "idle": "allow" }, "software": { "launch": "free" }"#,
    ));
    let executed = step(&of(
        &program,
        r#""software": { "framework": "pytorch-1.9-profiled" }, "run": { "iterations": 20 }"#,
    ));
    assert!((executed / plan - 1.0).abs() < 0.05, "{executed} s, the plan {plan} s");
}
