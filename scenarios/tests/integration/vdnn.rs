//! Memory of convolutional networks by vDNN's policies.

use proptest::prelude::*;
use reports::summary::{FailureKind, RunSummary};

use crate::support::{messages, read, run_of};

const VGG: &str = "
name: test
machine: { node: { name: supermicro-4029gp-trt, gpu: titan-x } }
model: { layers: { preset: vgg-16 } }
training: { precision: fp32, optimizer: sgd-momentum, micro_batch: 256, accumulate: 1 }
parallelism: { data: 1, idle: allow }
memory: { allocator: { expandable_segments: true } }
software: { launch: free, image_layers: cudnn }
";

/// Branches, a residual, and a classifier of two products.
const SMALL: &str = "
name: test
machine: { node: { name: supermicro-4029gp-trt, gpu: titan-x } }
model:
  layers:
    input: { channels: 3, height: 64, width: 64 }
    list:
      - conv2d: { channels: 32, kernel: 3, padding: 1 }
      - relu
      - residual: { body: [{ conv2d: { channels: 32, kernel: 3, padding: 1 } }, batch_norm, relu, { conv2d: { channels: 32, kernel: 5, padding: 2 } }] }
      - relu
      - max_pool: { kernel: 2 }
      - concat: { branches: [[{ conv2d: { channels: 16, kernel: 1 } }], [{ conv2d: { channels: 16, kernel: 3, padding: 1 } }, relu]] }
      - average_pool: { kernel: 2 }
      - flatten
      - linear: { outputs: 64 }
      - relu
      - linear: { outputs: 10 }
      - cross_entropy
training: { precision: fp32, optimizer: sgd-momentum, micro_batch: 128, accumulate: 2 }
parallelism: { data: 1, idle: allow }
software: { launch: free }
";

fn ran(text: &str, settings: &[&str]) -> RunSummary {
    run_of(text, settings)
}

fn vdnn(settings: &str) -> String {
    format!("techniques={{ vdnn: {{ {settings} }} }}")
}

fn step(text: &str, settings: &[&str]) -> f64 {
    ran(text, settings).step_time().unwrap_or(f64::INFINITY)
}

const ENOUGH: &str = "machine.node.set.gpu.memory=48 GiB";

/// The abstract's 28 GB, within 10 %: a Titan X of 12 GiB is one of 12 GB there.
#[test]
fn network_wide_allocation_takes_what_was_published() {
    let oracle = ran(VGG, &[ENOUGH, &vdnn("offload: none, algorithms: fastest, library: cudnn-4")]);
    let note = oracle.notes.iter().find(|note| note.contains("network-wide")).expect("a note");
    let figure: f64 = note.rsplit(' ').nth(1).and_then(|figure| figure.parse().ok()).expect("a figure in GB");
    let published = 28.0 * f64::from(1 << 30) / 1e9;
    assert!((figure / published - 1.0).abs() < 0.1, "{note}");
}

/// The static policies in the order of the paper: offloading fewer inputs and taking faster
/// algorithms is faster, and the dynamic policy is the fastest of those that fit.
#[test]
fn the_dynamic_policy_is_the_fastest_that_fits() {
    let by = |offload, algorithms| {
        step(VGG, &[&vdnn(&format!("offload: {offload}, algorithms: {algorithms}, library: cudnn-4"))])
    };
    assert_eq!(by("none", "fastest"), f64::INFINITY);
    let (all, conv) = (by("all", "memory-optimal"), by("conv", "memory-optimal"));
    let fitting = [by("all", "fitting"), by("conv", "fitting")];
    let dynamic = step(VGG, &[&vdnn("library: cudnn-4")]);
    assert!(conv < all && fitting[0] < all && fitting[1] < conv, "{all} {conv} {fitting:?}");
    assert_eq!(dynamic, fitting[0].min(fitting[1]));
    // Where all fits, nothing leaves.
    let enough = step(VGG, &[ENOUGH, &vdnn("library: cudnn-4")]);
    assert_eq!(enough, step(VGG, &[ENOUGH, &vdnn("offload: none, library: cudnn-4")]));
    assert!(enough < dynamic);
}

#[test]
fn without_convolutions_nothing_changes() {
    const PRODUCTS: &str = "model.layers.list=[flatten, { linear: { outputs: 512 } }, relu, { linear: { outputs: 10 } }, cross_entropy]";
    let plain = step(SMALL, &[PRODUCTS]);
    for offload in ["all", "conv", "none", "dynamic"] {
        assert_eq!(step(SMALL, &[PRODUCTS, &vdnn(&format!("offload: {offload}"))]), plain, "{offload}");
    }
}

#[test]
fn other_models_have_no_use_for_it() {
    let transformer = VGG.replace("layers: { preset: vgg-16 }", "transformer: { preset: gpt2-small }");
    let transformer =
        transformer.replace(", optimizer: sgd-momentum", "").replace(", image_layers: cudnn", "");
    let refused = read(&transformer, &[&vdnn("")]).expect_err("it has no convolutions");
    let found = messages(&refused);
    assert!(
        found.iter().any(|it| it.contains("`techniques.vdnn` has no meaning for a transformer")),
        "{found:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever memory there is: a step ends within it, or it is said what is short.
    #[test]
    fn a_policy_ends_or_says_what_is_short(
        mebibytes in 100_u32..2_000,
        offload in prop_oneof![Just("all"), Just("conv"), Just("none")],
        algorithms in prop_oneof![Just("memory-optimal"), Just("fastest"), Just("fitting")],
        library in prop_oneof![Just("cudnn-4"), Just("cudnn-5")],
        image_layers in prop_oneof![Just("pytorch"), Just("cudnn")],
    ) {
        let technique = vdnn(&format!("offload: {offload}, algorithms: {algorithms}, library: {library}"));
        let (limit, layers) = (format!("memory.limit={mebibytes} MiB"), format!("software.image_layers={image_layers}"));
        let found = ran(SMALL, &[&technique, &limit, &layers]);
        match &found.failure {
            None => prop_assert!(found.step_time().is_some()),
            Some(failure) => prop_assert_eq!(failure.kind, FailureKind::OutOfMemory, "{}", failure.message),
        }
    }
}
