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

#[test]
fn the_last_value_that_fits_is_told_with_what_the_next_one_lacks() {
    let sandbox = Sandbox::new("fit");
    let few = "--set training.precision=fp32 --set software.attention=materialised";
    assert_session!(
        "fit",
        sandbox.session(&[
            "fit gpt2-medium 2xdgx-a100-40g --fewest gpus --global-batch 64 --print",
            "fit gpt2-medium dgx-1v-16g --largest global-batch",
            "fit gpt2-medium dgx-1v-16g --fewest gpus",
            "fit gpt2-medium dgx-1v-17g",
        ])
    );
    let file = "
name: Longest sequence
machine: { node: { name: dgx-1v-16g } }
model: { transformer: { layers: 24, hidden: 1024, heads: 16, vocabulary: 50257, max_positions: 32768 } }
training: { micro_batch: 1, accumulate: 1, precision: fp16-mixed }
search:
  largest: { training.sequence: [1024, 2048, 4096, 8192, 16384, 32768, 65536] }
  over: { parallelism.tensor: [1, 2], techniques: [recompute] }
";
    sandbox.write("fit.yaml", file);
    assert_session!(
        "fit-run",
        sandbox.session(&[
            "check fit.yaml",
            "run fit.yaml",
            "run fit.yaml --shard 1/2",
            "run fit.yaml --set training.sequence=2048",
        ])
    );
    let page = sandbox.read("out/fit/report.html");
    assert!(
        page.contains("Which value is the last that fits?") && page.contains("What do techniques change?")
    );
    let fit = |jobs: u32| {
        let words = format!("fit gpt2-medium dgx-1v-16g --largest batch --sequence 512 {few} --format json");
        sandbox
            .run(&format!(
                "{words} --set parallelism.sharding=none --set techniques.zero_infinity=none --jobs {jobs}"
            ))
            .out
    };
    let alone = fit(1);
    assert!(alone.contains("\"extreme\"") && alone == fit(3));
}
