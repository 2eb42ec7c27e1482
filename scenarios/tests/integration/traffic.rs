//! What ranks communicate, and what their time rests on.

use std::collections::BTreeMap;

use reports::summary::RunSummary;

use crate::support::{read, run};

/// A GPT on eight GPUs: two stages of two layers, each on two tensor ranks, twice; four micro-batches a step.
const SMALL: &str = "name: small
machine: { node: dgx-a100-80g }
model: { transformer: { layers: 4, hidden: 1024, heads: 16, vocabulary: 51200, max_positions: 1024 } }
training: { global_batch: 16, micro_batch: 2, sequence: 1024, precision: bf16-mixed }
parallelism: { tensor: 2, pipeline: 2, data: 2 }
memory: { bytes_per_parameter: 18 }
";

fn runs(settings: &[&str]) -> Vec<RunSummary> {
    run(&read(SMALL, settings).unwrap_or_else(|failure| panic!("{failure}"))).variants
}

/// Times and bytes by kind.
fn traffic(run: &RunSummary) -> BTreeMap<&str, (u64, u64)> {
    run.communication.iter().map(|one| (one.kind.as_str(), (one.count, one.bytes))).collect()
}

#[test]
fn bytes_are_those_counted_by_hand() {
    let runs = runs(&[]);
    let found = traffic(&runs[0]);
    // Activations of a micro-batch: 2 x 1024 tokens of 1024 numbers of 2 bytes. An all-reduce of two ranks sends each its size.
    let activations = 2 * 1024 * 1024 * 2;
    // Per micro-batch two layers forward and backward with two sums each, and that of the embedding (stage 0) or of the
    // gradient of the logits' input (stage 1), which also sums three numbers of 4 bytes for each token.
    let sums = 4 * (2 * 4 + 1);
    let loss = (4 * 3, 4 * 3 * 2 * 1024 * 4);
    assert_eq!(found["tensor all-reduce"], (sums + loss.0 / 2, sums * activations + loss.1 / 2));
    // Forward from stage 0, backward from stage 1; each tensor rank sends its half and gathers what it receives.
    assert_eq!(found["pipeline message"], (4, 4 * activations / 2));
    assert_eq!(found["tensor all-gather"], (4, 4 * activations / 2));
    // Gradients in fp32 of half the matrices and column biases; norms and row biases are whole.
    let (h, words, positions) = (1024, 51_200 * 1024 / 2, 1024 * 1024);
    let layer = 12 * h * h / 2 + (3 * h + 4 * h) / 2 + 2 * h + 4 * h;
    let first = 2 * layer + words + positions;
    let last = 2 * layer + 2 * h + words;
    assert_eq!(found["data all-reduce"], (1, 4 * (first + last) / 2));
    assert_eq!(found["embedding all-reduce"], (1, 4 * words));
}

#[test]
fn sequence_parallelism_halves_each_collective_and_doubles_their_number() {
    let (plain, parallel) = (runs(&[]), runs(&["parallelism.sequence_parallel=true"]));
    let (plain, parallel) = (traffic(&plain[0]), traffic(&parallel[0]));
    let each = |(count, bytes): (u64, u64)| bytes / count;
    assert_eq!(each(parallel["tensor reduce-scatter"]), each(plain["pipeline message"]));
    assert_eq!(each(parallel["tensor all-gather"]), each(plain["pipeline message"]));
    // A sum of a layer becomes a scatter and a gather, and two inputs are gathered again for gradients of weights.
    assert_eq!(parallel["tensor reduce-scatter"].0, 4 * 2 * 4 + 4 / 2);
    assert!(parallel["tensor all-gather"].0 >= 4 * 2 * 6, "{parallel:?}");
}

/// Whatever is done where: exposed communication is that of the breakdown, and shares are of a whole.
#[test]
fn exposed_communication_adds_up_to_the_breakdown() {
    let settings: [&[&str]; 10] = [
        &[],
        &["parallelism.send=blocking"],
        &["parallelism.send=eager"],
        &["parallelism.send=rendezvous"],
        &["parallelism.sequence_parallel=true", "run.steps.warm_up=0"],
        &["parallelism.sequence_parallel=true", "run.fold=never"],
        &["parallelism.schedule=zb-h1", "run.steps.measured=2"],
        &["parallelism.distributed_optimizer=true", "techniques.recompute={mode: full}"],
        &["parallelism.tensor=1", "parallelism.pipeline=4", "techniques.bpipe={}", "run.steps.warm_up=0"],
        &["run.noise={device: 2 %, operation: 3 %}"],
    ];
    for settings in settings {
        let run = &runs(settings)[0];
        let step = run.step_time().unwrap_or_else(|| panic!("{settings:?}: {:?}", run.failure));
        let exposed: f64 = run.communication.iter().map(|one| one.exposed_s).sum();
        let told = ["communication", "waiting for a transfer"];
        let told: f64 = told.iter().filter_map(|word| run.time_breakdown_s.get(*word)).sum();
        assert!((exposed - told).abs() < 1e-9 * step, "{settings:?}: {exposed} is not {told}");
        let shares: f64 = run.provenance.values().sum();
        assert!((shares - 1.0).abs() < 1e-12, "{settings:?}: {:?}", run.provenance);
    }
}

#[test]
fn what_leaves_for_the_partner_comes_back() {
    let settings =
        ["parallelism.tensor=1", "parallelism.pipeline=8", "parallelism.data=1", "techniques.bpipe={}"];
    let settings: Vec<&str> = settings.into_iter().chain(["model.transformer.layers=8"]).collect();
    let runs = runs(&settings);
    let found = traffic(&runs[0]);
    assert!(found["eviction to the partner stage"].1 > 0, "{found:?}");
    assert_eq!(found["eviction to the partner stage"], found["load from the partner stage"]);
}

/// Only a pipeline has bubbles: with one stage what ranks wait for is communication.
#[test]
fn without_stages_there_is_no_bubble() {
    assert!(runs(&[])[0].bubble_fraction.is_some_and(|share| (0.1..0.7).contains(&share)));
    assert_eq!(runs(&["parallelism.pipeline=1", "parallelism.data=4"])[0].bubble_fraction, None);
}

#[test]
fn the_drawing_says_who_is_on_which_gpu() {
    let text = SMALL.to_owned()
        + "variants: { a: {}, b: { parallelism: { placement: pair-adjacent } }, c: { parallelism: { tensor: 4, data: 1 } } }\n";
    let summary = run(&read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}")));
    let machine = summary.machine.expect("there is one");
    assert_eq!(machine.placement["gpu[0]"], "stage 0, tensor 0, copy 0");
    assert_eq!(machine.placement["gpu[3]"], "stage 0, tensor 1, copy 1");
    assert_eq!(machine.placement["gpu[4]"], "stage 1, tensor 0, copy 0");
    assert_eq!(machine.placement_of.as_deref(), Some("a"));
}
