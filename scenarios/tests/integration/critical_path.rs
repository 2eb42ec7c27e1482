//! The critical path of a run and its time by cause add up to its step, whatever the schedule, noise or number of steps.

use proptest::prelude::*;
use reports::summary::RunSummary;

use crate::support::{read, run};

const SCHEDULES: [&str; 7] = [
    "gpipe",
    "1f1b",
    "{ interleaved: { chunks: 2 } }",
    "zb-h1",
    "zb-h2",
    "zb-v",
    "{ zb-auto: { memory_limit: 2p } }",
];

/// A profiled pipeline.
fn profile(schedule: &str, stages: u32, micro_batches: u32, times: [u32; 4]) -> String {
    let [forward, input, weight, transfer] = times;
    format!(
        "model: {{ profiled_pipeline: {{ stages: {stages}, forward: {forward} us, backward_input: {input} us, \
         backward_weight: {weight} us, transfer: {transfer} us, activation: 1 MB, device: {{ memory: 80 GB }} }} }}\n\
         training: {{ micro_batches: {micro_batches}, micro_batch: 1 }}\n\
         parallelism: {{ schedule: {schedule} }}\n"
    )
}

/// A small transformer on two nodes, as a pipeline of copies that sum gradients.
fn transformer(schedule: &str, data: u32, micro_batches: u32) -> String {
    format!(
        "machine: {{ cluster: {{ node: dgx-a100-80g, count: 2 }} }}\n\
         model: {{ transformer: {{ preset: gpt2, layers: 4 }} }}\n\
         training: {{ micro_batch: 1, accumulate: {micro_batches}, sequence: 256, precision: fp16-mixed }}\n\
         parallelism: {{ pipeline: 2, data: {data}, schedule: {schedule}, idle: allow }}\n"
    )
}

fn off_by(run: &RunSummary) -> Option<f64> {
    let step = run.step_time_s?;
    assert!(run.critical_path_s.values().all(|&time| time >= 0.0), "{:?}", run.critical_path_s);
    Some((run.critical_path_s.values().sum::<f64>() / step - 1.0).abs())
}

/// Checks a scenario with and without folding and segments, which change nothing.
fn check(text: &str, flush: bool) -> Result<(), TestCaseError> {
    let flush = format!("training.flush={flush}");
    let settings = ["run.fold=auto", "run.fold=never", "run.segments=never"];
    let found = settings.map(|setting| {
        let experiment = read(&format!("name: test\n{text}"), &[setting, &flush]);
        let experiment = experiment.unwrap_or_else(|failure| panic!("{failure}\n{text}"));
        run(&experiment).variants.into_iter().next().expect("one variant")
    });
    prop_assert!(found[0].step_time_s.is_some(), "{:?}\n{text}", found[0].failure);
    for run in &found {
        prop_assert!(off_by(run).is_some_and(|off| off < 1e-12), "{:?}\n{text}", off_by(run));
        prop_assert_eq!(&run.critical_path_s, &found[0].critical_path_s);
        let by_cause = run.time_breakdown_s.values().sum::<f64>() / run.step_time_s.unwrap_or_default();
        prop_assert!((by_cause - 1.0).abs() < 1e-9, "{by_cause} of the step by cause\n{text}");
    }
    Ok(())
}

/// Warm-up and measured steps, noise and seeds.
fn running((warm_up, measured): (u32, u32), noise: bool) -> String {
    let noise = if noise { ", noise: { device: 2 %, operation: 10 % }, seeds: 2" } else { "" };
    format!("run: {{ steps: {{ warm_up: {warm_up}, measured: {measured} }}{noise} }}\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_profiled_pipelines(
        schedule in prop::sample::select(&SCHEDULES[..]),
        stages in 2..7_u32,
        rounds in 1..4_u32,
        times in prop::array::uniform4(1..40_u32),
        steps in (0..3_u32, 1..4_u32),
        noise in any::<bool>(),
        flush in prop::bool::weighted(0.8),
    ) {
        let model = profile(schedule, stages, 2 * stages * rounds, times.map(|time| 10 * time));
        check(&(model + &running(steps, noise)), flush)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_transformers(
        schedule in prop::sample::select(&["gpipe", "1f1b"][..]),
        data in 1..6_u32,
        micro_batches in 2..5_u32,
        steps in (0..3_u32, 1..3_u32),
        noise in any::<bool>(),
    ) {
        check(&(transformer(schedule, data, micro_batches) + &running(steps, noise)), true)?;
    }
}
