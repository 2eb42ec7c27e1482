//! `foretrain plan`, and `run` of a file that searches.

use super::support::{Sandbox, assert_session};

#[test]
fn a_planned_file_searches() {
    let sandbox = Sandbox::new("plan");
    assert_session!(
        "plan",
        sandbox.session(&[
            "plan gpt2-medium 2xdgx-a100-40g --global-batch 64",
            "plan llama-3-71b dgx-h100",
            "plan llama-3-70b 8xdgx-h101",
        ])
    );
    let plan = sandbox.run("plan gpt2-medium 2xdgx-a100-40g --global-batch 64");
    sandbox.write("plan.yaml", &plan.out);
    assert_session!(
        "search",
        sandbox.session(&[
            "check plan.yaml",
            "run plan.yaml --set techniques.activation_offload=none --set parallelism.sharding=none",
        ])
    );
    // What is shown, and can be run or exported again, is the best plan.
    let kept = sandbox.run("run out/plan/scenario.yaml --format json").json();
    let found: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/plan/results.json")).expect("JSON");
    assert_eq!(kept["variants"][0]["step_time_s"], found["variants"][0]["step_time_s"]);
    let page = sandbox.read("out/plan/report.html");
    assert!(page.contains("How is that proven?") && page.contains("slower by their bound"));
}

#[test]
fn the_same_is_found_on_any_number_of_workers() {
    let sandbox = Sandbox::new("search");
    let plan = sandbox.run("plan gpt2-medium dgx-a100-40g --global-batch 16 --sequence 512");
    sandbox.write("plan.yaml", &plan.out);
    let few = "--set parallelism.sharding=none --set techniques.activation_offload=none";
    let found = |jobs: u32| sandbox.run(&format!("run plan.yaml --format json {few} --jobs {jobs}")).out;
    let alone = found(1);
    assert!(alone.contains("\"gap\"") && alone.contains("\"alternatives\""));
    assert_eq!(alone, found(2));
    assert_eq!(alone, found(5));
}
