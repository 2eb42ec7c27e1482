//! `validate --on-device` without a GPU: what is missing, what would run, and what a GPU did before.

use super::support::{Sandbox, assert_session};

/// What a GPU might have done: two rows and their ratio, a noisy row, one that was held back, one that did not fit, a pipeline, steps
/// that wait for loaders, steps beside other work, and a row that was being written.
const RECORD: &str = r#"{"foretrain":"0.0.0","device":{"name":"NVIDIA H200","driver":"NVIDIA 570.0","facts":{"torch":"2.7.1"}},"gpu":"h200-sxm5-141gb","date":"2026-11-22","calibrations":[]}
{"workload":"steps","row":{"size":"125M, 1 x 256","launch":"eager"},"figures":{"step_s":[0.0060,0.0061,0.0060]},"before":{"clock_mhz":1980.0},"after":{}}
{"workload":"steps","row":{"size":"125M, 1 x 256","launch":"graph"},"figures":{"step_s":[0.0050,0.0050,0.0051]},"before":{},"after":{}}
{"workload":"steps","row":{"size":"125M, 4 x 1,024","launch":"eager"},"figures":{"step_s":[0.010,0.013,0.016]},"before":{},"after":{}}
{"workload":"steps","row":{"size":"125M, 4 x 1,024","launch":"graph"},"figures":{"step_s":[0.013]},"before":{},"after":{"throttled_by":["heat (slowed by the driver)"]}}
{"workload":"memory","row":{"batch":"2 x 2,048","recompute":"flash, none"},"figures":{"peak_allocated_bytes":[37000000000.0],"peak_reserved_bytes":[38000000000.0]},"before":{},"after":{}}
{"workload":"memory","row":{"batch":"4 x 2,048","recompute":"materialised, none"},"before":{},"after":{},"failed":"the GPU's memory is used up: end other processes on it"}
{"workload":"pipelines","row":{"stages":"2","schedule":"gpipe"},"figures":{"span_s":[0.0952,0.0953,0.0952],"forward_s":[0.002],"backward_input_s":[0.002],"backward_weight_s":[0.0016]},"before":{},"after":{}}
{"workload":"loaders","row":{"threads":"2","slower":"loaders"},"figures":{"step_s":[0.0415,0.0416],"batch_alone_s":[0.0402],"step_alone_s":[0.0101],"cores":[1.0]},"before":{},"after":{}}
{"workload":"interference","row":{"size":"125M, 4 x 1,024, a graph","beside":"nothing"},"figures":{"step_s":[0.0130,0.0131],"alone_s":[0.0131,0.0130]},"before":{},"after":{}}
{"workload":"interference","row":{"size":"125M, 4 x 1,024, a graph","beside":"24 SMs held"},"figures":{"step_s":[0.0180,0.0181],"alone_s":[0.0140,0.0140]},"before":{},"after":{}}
{"workload":"interference","row":{"size":"125M, 4 x 1,024, a graph","beside":"copies both ways"},"before":{},"after":{},"failed":"PyTorch cannot do this: the other work ended before a step of 0.1 s, as it began"}
{"workload":"steps","row":{"size":"1.3B, 4"#;

fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    sandbox.write("on-device.jsonl", RECORD);
    sandbox
}

#[test]
fn what_a_gpu_did_is_judged_anywhere() {
    let sandbox = sandbox("workloads-recorded");
    assert_session!(
        "workloads",
        sandbox.session(&["validate --recorded on-device.jsonl --quiet --all --strict"])
    );
    let json = sandbox.run("validate --recorded on-device.jsonl --quiet --format json steps").json();
    let parts = json["sets"][0]["parts"].as_array().unwrap().clone();
    let part = |name: &str| parts.iter().find(|part| part["name"] == name).unwrap().clone();
    assert_eq!(part("step")["rows"][0]["measured"], 0.006, "the median");
    assert_eq!(part("step")["left_out"].as_array().unwrap().len(), 2);
    let ratio = part("eager over graph")["rows"][0].clone();
    assert!((ratio["measured"].as_f64().unwrap() - 1.2).abs() < 1e-12, "{ratio}");
    // What was measured of passes is what the schedule is simulated with: (16 + 2 - 1) x (2 + 2 + 1.6) ms.
    let pipelines = sandbox.run("validate --recorded on-device.jsonl --quiet --format json pipelines").json();
    let row = pipelines["sets"][0]["parts"][0]["rows"][0].clone();
    assert!((row["predicted"].as_f64().unwrap() - 0.0952).abs() < 1e-9, "{row}");
    // Two loaders share what makes one core: each batch takes as long as one would take alone.
    let loaders = sandbox.run("validate --recorded on-device.jsonl --quiet --format json loaders").json();
    let row = loaders["sets"][0]["parts"][0]["rows"][0].clone();
    assert!((row["predicted"].as_f64().unwrap() - 0.0402).abs() < 1e-9, "{row}");
    // What was timed in turns with the other work is what it is compared with, not the row alone.
    let beside = sandbox.run("validate --recorded on-device.jsonl --quiet --format json interference").json();
    let parts = beside["sets"][0]["parts"].as_array().unwrap().clone();
    let [steps, slowdown] = ["step", "slowdown"].map(|name| parts.iter().find(|part| part["name"] == name));
    let [steps, slowdown] = [steps, slowdown].map(|part| part.unwrap()["rows"].as_array().unwrap().clone());
    let [alone, met] = [0, 1].map(|at| steps[at]["predicted"].as_f64().unwrap());
    assert_eq!(slowdown.len(), 1, "what failed is left out");
    assert_eq!(slowdown[0]["predicted"], met / alone);
    assert!((slowdown[0]["measured"].as_f64().unwrap() - 0.01805 / 0.014).abs() < 1e-12, "{}", slowdown[0]);
    let [eager, graph] = [0, 1].map(|at| part("step")["rows"][at]["predicted"].as_f64().unwrap());
    assert_eq!(ratio["predicted"], eager / graph);
}

/// A GPU that is made up: a program that answers as the script would. Of pipelines the third fails, which begins the process anew.
#[cfg(unix)]
const MADE_UP: &str = r#"#!/bin/sh
read -r script
echo '{"answer":{"python":"3.11.0","torch":{"present":"2.7.1"},"cuda":{"present":"12.6"},"threads":1,"gpus":[{"name":"NVIDIA H200","capability":90,"sms":132,"memory":150000000000,"cache":62914560}]}}'
while read -r question; do
  case "$question" in
    *identity*) echo '{"answer":{"name":"NVIDIA H200","driver":"NVIDIA 570.0","facts":{"power.limit":"700"}}}' ;;
    *'"stages":[[{"phase":"forward","position":0,"micro_batch":0}'*) echo begun >> asked; [ "$(wc -l < asked)" -eq 3 ] && exit 7
      echo '{"answer":{"figures":{"span_s":[0.1,0.1],"forward_s":[0.001],"backward_input_s":[0.001],"backward_weight_s":[0.001]},"before":{"clock_mhz":1980.0},"after":{}}}' ;;
    *) echo '{"error":{"exhausted":{"what":"the memory of the GPU","remedy":"end other programs"}}}' ;;
  esac
done
"#;

#[cfg(unix)]
#[test]
fn a_gpu_is_asked_row_by_row_and_what_it_did_is_kept_and_judged() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new("workloads-made-up");
    sandbox.write("gpu", MADE_UP);
    std::fs::set_permissions(sandbox.path("gpu"), PermissionsExt::from_mode(0o755)).unwrap();
    let answer = sandbox
        .run("validate --on-device --python ./gpu --quiet pipelines memory --quick --strict --format json");
    assert_eq!(answer.exit, 1, "{}", answer.err);
    let judged = answer.json();
    let of =
        |set: &str| judged["sets"].as_array().unwrap().iter().find(|found| found["name"] == set).unwrap();
    let pipelines = of("pipelines")["parts"][0].clone();
    assert_eq!(
        [&pipelines["rows"], &pipelines["left_out"]].map(|rows| rows.as_array().unwrap().len()),
        [2, 1]
    );
    let dead = pipelines["left_out"][0]["reason"].as_str().unwrap();
    assert!(dead.contains("asking Python") && dead.contains('7'), "{dead}");
    let memory = of("memory")["parts"][0].clone();
    assert!(memory["rows"].as_array().unwrap().is_empty() && memory["passed"] == false);
    assert_eq!(memory["left_out"][0]["reason"], "the memory of the GPU is used up: end other programs");
    let kept = sandbox.read("out/on-device.jsonl");
    assert_eq!(kept.lines().count(), 1 + 3 + 5, "a heading and a line for each row: {kept}");
    let heading: serde_json::Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    assert_eq!([&heading["gpu"], &heading["device"]["facts"]["torch"]], ["h200-sxm5-141gb", "2.7.1"]);
    assert_eq!(sandbox.names("out"), ["on-device.jsonl", "validate"]);
    // The record gives the same anywhere.
    let again = sandbox.run("validate --recorded out/on-device.jsonl --quiet --format json");
    assert_eq!(again.json()["sets"], judged["sets"]);
    // A GPU that the catalogue does not have is one that the user has to say.
    sandbox.write("other", MADE_UP.replace("NVIDIA H200", "NVIDIA H300"));
    std::fs::set_permissions(sandbox.path("other"), PermissionsExt::from_mode(0o755)).unwrap();
    let unknown = sandbox.run("validate --on-device --python ./other --quiet pipelines");
    assert!(unknown.exit == 2 && unknown.err.contains("`NVIDIA H300`: name the one"), "{}", unknown.err);
}

#[test]
fn what_is_wrong_with_a_record_is_told_with_its_line() {
    let sandbox = sandbox("workloads-wrong");
    let heading = RECORD.lines().next().unwrap();
    let broken = [
        ("empty.jsonl", String::new()),
        ("other.jsonl", "{\"form\": 1}\n".to_owned()),
        ("gpu.jsonl", heading.replace("h200-sxm5-141gb", "h200-sxm5") + "\n"),
        ("torn.jsonl", format!("{heading}\n{{\"workload\": \"steps\", \"row\n")),
        ("workload.jsonl", format!("{heading}\n{{\"workload\": \"step\", \"row\": {{}}}}\n")),
        ("row.jsonl", format!("{heading}\n{{\"workload\": \"steps\", \"row\": {{ \"size\": \"1T\" }}}}\n")),
    ];
    let mut commands = vec!["validate --recorded nowhere.jsonl".to_owned()];
    for (name, text) in broken {
        sandbox.write(name, text);
        commands.push(format!("validate --recorded {name}"));
    }
    sandbox.write("hardware.yaml", "a: 1\n");
    commands.extend(
        [
            "validate --recorded on-device.jsonl --calibration hardware.yaml",
            "validate --recorded on-device.jsonl step",
            "validate --calibration hardware.yaml",
            "validate --quick",
        ]
        .map(str::to_owned),
    );
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    assert_session!("workloads_wrong", sandbox.session(&commands));
    assert!(!sandbox.path("out/validate").exists());
}

#[test]
fn without_a_gpu_it_says_what_would_run_and_what_is_missing() {
    let sandbox = Sandbox::new("workloads-dry");
    assert_session!(
        "workloads_dry",
        sandbox.session(&[
            "validate --on-device --dry-run",
            "validate --on-device --dry-run --gpu h200",
            "validate --on-device --dry-run --gpu h200-sxm5-141gb --quick steps fusion",
            "validate --on-device --python ./no-python",
        ])
    );
    let rows = sandbox.run("validate --on-device --dry-run --gpu a100-sxm4-80gb --format json memory").json();
    let fits = |row: &serde_json::Value| row["step_time_s"].as_f64().is_some();
    let rows = rows.as_array().unwrap();
    assert!(rows.iter().any(fits) && rows.iter().any(|row| !fits(row) && row["unpredicted"].is_string()));
}
