//! Hosts of several ranks differ, and so do their GPUs: a step is as slow as the slowest.

use crate::support::{read, run};

/// Time of a forward pass (s) that hosts decide.
fn step_s(gpus: u32) -> f64 {
    let text = format!(
        "name: hosts\nmachine: {{ node: dgx-a100-80g }}\n\
         model: {{ transformer: {{ hidden: 256, heads: 4, layers: 4, vocabulary: 1024, max_positions: 128 }} }}\n\
         training: {{ step: forward, micro_batch: 1, sequence: 128, accumulate: 1, precision: fp16-mixed }}\n\
         parallelism: {{ data: {gpus}, idle: allow }}\n"
    );
    let experiment = read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    let found = run(&experiment).variants.remove(0);
    let launch_bound = found.critical_path_s["launch-bound"] / found.critical_path_s.values().sum::<f64>();
    assert!(launch_bound > 0.8, "{launch_bound} of the path is the hosts'");
    found.step_time_s.expect("it fits")
}

#[test]
fn the_slowest_of_eight_hosts_is_waited_for() {
    // 3.1 % from step to step, and 1.4236 standard deviations to the largest of eight.
    let all = 0.031 * 1.423_6;
    let more = step_s(8) / step_s(1) - 1.0;
    // Kernels that nobody waits for are as long as before.
    assert!((0.8 * all..=all).contains(&more), "{more} of {all}");
}

/// Gathered weights and activations that come back are waited for in other parts of a visit from one
/// micro-batch to the next, where a chunk is one layer: each part is counted for all micro-batches.
#[test]
fn visits_that_wait_in_unlike_parts_are_all_issued() {
    let step = |launch: &str| {
        let text = format!(
            "name: parts\nmachine: {{ node: dgx-h100 }}\n\
             model: {{ transformer: {{ hidden: 1024, heads: 8, layers: 4, vocabulary: 1024, max_positions: 1024 }} }}\n\
             training: {{ micro_batch: 1, sequence: 1024, accumulate: 4, precision: bf16-mixed }}\n\
             parallelism: {{ pipeline: 2, data: 4, sharding: parameters, schedule: {{ interleaved: {{ chunks: 2 }} }} }}\n\
             software: {{ launch: {launch} }}\ntechniques: {{ activation_offload: {{}} }}\n"
        );
        let experiment = read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
        run(&experiment).variants.remove(0).step_time_s.expect("it runs")
    };
    let [free, eager] = ["free", "eager"].map(step);
    assert!(eager > free, "{eager} s with hosts, {free} s without");
}

/// 1.48 % between GPUs of a kind, and 1.4236 standard deviations to the slowest of eight. Passes
/// over memory are as long as before.
#[test]
fn the_slowest_of_eight_gpus_is_waited_for() {
    let step = |gpus: u32, noise: &str| {
        let text = format!(
            "name: cards\nmachine: {{ node: dgx-a100-80g }}\n\
             model: {{ transformer: {{ hidden: 8192, heads: 64, layers: 1, vocabulary: 1024, max_positions: 2048 }} }}\n\
             training: {{ step: forward, micro_batch: 8, sequence: 2048, accumulate: 1, precision: bf16-mixed }}\n\
             parallelism: {{ data: {gpus}, idle: allow }}\n\
             software: {{ launch: free, attention: flash }}\nrun: {{ noise: {noise} }}\n"
        );
        let experiment = read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
        run(&experiment).variants.remove(0).step_time_s.expect("it fits")
    };
    let [one, slowest] = [1, 8].map(|gpus| step(gpus, "none"));
    let (all, more) = (0.0148 * 1.423_6, slowest / one - 1.0);
    assert!((0.8 * all..=all).contains(&more), "{more} of {all}");
    // Speeds that are drawn take the place of the expectation.
    assert!((step(8, "{ device: 0 % }") - one).abs() < 1e-9 * one);
    assert!(step(8, "{ device: 2 % }") > one);
}
