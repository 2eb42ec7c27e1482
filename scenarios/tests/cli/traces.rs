//! Scenarios whose model is a trace: run, shown, and refused.

use super::support::{Sandbox, assert_session};

const TRACE: &[u8] =
    include_bytes!("../../../workloads/tests/data/traces/trace_a100_resnet_ddp_2rank_rank0.json.gz");

const GRAPH: &[u8] = include_bytes!("../../../workloads/tests/data/traces/chakra_convolutional_ddp.et.gz");

/// Below a folder, so that the path of the trace must be relative to the scenario.
const SCENARIO: &str = "name: My trace
model: { trace: { file: trace.json.gz } }
variants:
  recorded:  {}
  host-half: { model: { trace: { what_if: { host: 50 % } } } }
expect:
  - { faster: host-half, than: recorded }
";

fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    sandbox.write("mine/trace.json.gz", TRACE);
    sandbox.write("mine/trace.yaml", SCENARIO);
    sandbox
}

#[test]
fn a_trace_is_run_and_shown() {
    let sandbox = sandbox("trace-run");
    assert_session!(
        "trace-run",
        sandbox.session(&[
            "check mine/trace.yaml",
            "show mine/trace.yaml --variant host-half",
            "run mine/trace.yaml --quiet",
        ])
    );
    let page = sandbox.read("out/trace/report.html");
    assert!(page.contains("What was replayed?") && page.contains("thread["), "lanes are drawn");
    assert!(sandbox.read("out/trace/results.csv").starts_with("variant,fits,step_time_s,"));
    // What was kept of it runs from elsewhere, and gives the same again.
    let again = sandbox.run("run out/trace/scenario.yaml --quiet --format json").json();
    let first: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/trace/results.json")).expect("JSON");
    assert_eq!(again["variants"][0]["step_time_s"], first["variants"][0]["step_time_s"]);
}

#[test]
fn a_sweep_of_what_ifs_gives_the_best() {
    let sandbox = sandbox("trace-sweep");
    sandbox.write(
        "mine/sweep.yaml",
        "name: Sweep
model: { trace: { file: trace.json.gz } }
sweep: { model.trace.what_if.host: [100 %, 50 %, 200 %] }
",
    );
    let json = sandbox.run("run mine/sweep.yaml --quiet --format json").json();
    let times: Vec<f64> = json["variants"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["step_time_s"].as_f64().expect("a step time"))
        .collect();
    assert!(times[1] < times[0] && times[0] < times[2], "{times:?}");
    let finding = json["conditions"].as_str().expect("sentences");
    assert!(finding.contains("50 %"), "{finding}");
    let changed =
        sandbox.run("run mine/trace.yaml --quiet --format json --set model.trace.what_if.host=200%");
    let both: Vec<_> = changed.json()["variants"].as_array().expect("runs").clone();
    assert_eq!(both[0]["step_time_s"], both[1]["step_time_s"]);
}

#[test]
fn a_chakra_graph_is_run_and_changed() {
    let sandbox = Sandbox::new("trace-chakra");
    sandbox.write("graph.et.gz", GRAPH);
    sandbox.write(
        "graph.yaml",
        "name: Graph
model: { trace: { file: graph.et.gz } }
variants:
  recorded: {}
  graphs: { model: { trace: { what_if: { launch: graphs } } } }
  merged: { model: { trace: { what_if: { elementwise: chained } } } }
  h100: { model: { trace: { what_if: { gpu: \"a100-sxm4-40gb:h100-sxm5-80gb\" } } } }
",
    );
    let json = sandbox.run("run graph.yaml --quiet --format json").json();
    let runs = json["variants"].as_array().expect("runs");
    let times: Vec<f64> = runs.iter().map(|run| run["step_time_s"].as_f64().expect("a time")).collect();
    assert!(times[1] <= times[0] && times[2] < times[0] && times[3] < 0.9 * times[0], "{times:?}");
    assert!(runs[0]["replay"]["recorded_step_s"].is_null(), "the file has only durations");
    assert!(sandbox.read("out/graph/report.html").contains("What was replayed?"));
}

#[test]
fn wrong_traces_are_told_with_a_remedy() {
    let sandbox = sandbox("trace-wrong");
    let with = |name: &str, text: &str| {
        sandbox.write(&format!("mine/{name}.yaml"), format!("name: Wrong\n{text}"));
    };
    sandbox.write("mine/notes.txt", "not a trace");
    with("missing", "model: { trace: { file: nothing.json } }\n");
    with("folder", "model: { trace: { file: ../mine } }\n");
    with("foreign", "model: { trace: { file: notes.txt } }\n");
    with("library", "model: { trace: { file: library:resnet-50-v100 } }\n");
    with("both", "model: { trace: { file: trace.json.gz }, layers: { preset: resnet-50 } }\n");
    with("range", "model: { trace: { file: trace.json.gz, what_if: { host: 200000 %, kernels: -1 } } }\n");
    with("loader", "model: { trace: { file: trace.json.gz, what_if: { loader: 50 %, gpus: h100 } } }\n");
    with("others", "model: { trace: { file: trace.json.gz, what_if: { gpu: h100, link: nvlink4 } } }\n");
    sandbox.write("mine/graph.et.gz", GRAPH);
    with(
        "unnamed",
        "model: { trace: { file: graph.et.gz, what_if: { gpu: h100-sxm5-80gb, link: pcie5 } } }\n",
    );
    with("queue", "model: { trace: { file: trace.json.gz, launch_queue: 0 } }\n");
    with(
        "given",
        "model: { trace: { file: trace.json.gz } }
machine: { node: dgx-a100-80g }
training: { micro_batches: 8 }
parallelism: { data: 2 }
techniques: { recompute: {} }
software: { attention: flash }
run: { seeds: 3 }
",
    );
    with("untrained", "machine: { node: dgx-a100-80g }\nmodel: { transformer: { preset: llama-2-7b } }\n");
    let names = [
        "missing",
        "folder",
        "foreign",
        "library",
        "both",
        "range",
        "loader",
        "others",
        "unnamed",
        "queue",
        "given",
        "untrained",
    ];
    let commands: Vec<String> = names.iter().map(|name| format!("check mine/{name}.yaml")).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    assert_session!("trace-wrong", sandbox.session(&commands));
}
