//! Scenarios whose model is a program: executed, shown, kept.

use super::support::{Sandbox, assert_session};

/// Six iterations of a small model, of which co-execution traces the first ones.
const SCENARIO: &str = "name: My program
machine: { node: dgx-1v-32g }
model:
  program:
    base: { layers: { input: { channels: 8, height: 16, width: 16 }, list: [{ conv2d: { channels: 8, kernel: 3, padding: 1 } }, flatten, { linear: { outputs: 10 } }, cross_entropy] } }
    fragments: { clip: { operators: 4, bytes: 1 MB } }
    iteration:
      - run: forward
      - branch: { name: large, by: host, probability: 50 %, then: [ { run: clip } ] }
      - run: [ backward, update ]
      - fetch: { tensor: loss, when: every 2 }
training: { micro_batch: 4, global_batch: 4, precision: fp32 }
variants:
  eager: {}
  terra: { software: { execution: { co-execution: { depth: 2 } } } }
run: { iterations: 6, seeds: 2 }
";

#[test]
fn a_program_is_run_and_shown() {
    let sandbox = Sandbox::new("program-run");
    sandbox.write("program.yaml", SCENARIO);
    assert_session!("program-run", sandbox.session(&["run program.yaml --quiet"]));
    let page = sandbox.read("out/program/report.html");
    assert!(
        page.contains("How was the program executed?") && page.contains("thread[graph]"),
        "lanes are drawn"
    );
    let json = sandbox.run("run program.yaml --quiet --format json").json();
    let programs: Vec<&serde_json::Value> =
        json["variants"].as_array().expect("runs").iter().map(|run| &run["program"]).collect();
    assert_eq!(programs[0]["execution"], "eager");
    assert_eq!(programs[1]["execution"], "co-execution: { depth: 2 }");
    for program in programs {
        assert_eq!(program["iteration_s"].as_array().map(Vec::len), Some(6));
        let ran = program["ran"].as_object().expect("counts");
        assert_eq!(ran.values().filter_map(serde_json::Value::as_u64).sum::<u64>(), 6);
        let [least, most] = [0, 1].map(|at| program["mean_iteration_spread_s"][at].as_f64());
        let mean = program["mean_iteration_s"].as_f64();
        assert!(least <= mean && mean <= most, "{program}");
        assert_eq!(program["lanes"][0]["name"], "thread[python]");
    }
}
