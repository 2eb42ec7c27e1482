//! Large-model support of PyTorch: what is reclaimed follows from the order of operators and a
//! soft limit.

use proptest::prelude::*;
use reports::summary::{FailureKind, RunSummary};

use crate::support::run_of;

const SMALL: &str = "
name: test
machine: { node: { name: supermicro-4029gp-trt, gpu: p100-pcie-16gb } }
model:
  layers:
    input: { channels: 3, height: 64, width: 64 }
    list:
      - conv2d: { channels: 64, kernel: 3, padding: 1 }
      - batch_norm
      - relu
      - repeat: { count: 4, layers: [{ residual: { body: [{ conv2d: { channels: 64, kernel: 3, padding: 1 } }, batch_norm, relu] } }, relu] }
      - global_average_pool
      - linear: { outputs: 10 }
      - cross_entropy
training: { precision: fp32, optimizer: sgd-momentum, micro_batch: 32, accumulate: 3 }
parallelism: { data: 1, idle: allow }
software: { launch: free }
";

fn ran(settings: &[&str]) -> RunSummary {
    run_of(SMALL, settings)
}

fn step(technique: &str) -> f64 {
    ran(&[&format!("techniques={technique}")]).step_time().expect("all fits")
}

/// The default reclaims where all would fit; the larger the limit the less, and nothing where the
/// pool never reaches it.
#[test]
fn a_larger_limit_reclaims_less_and_a_large_one_nothing() {
    let plain = step("{}");
    let times = ["0 B", "300 MiB", "500 MiB", "14 GiB"]
        .map(|limit| step(&format!("{{ lms: {{ limit: {limit} }} }}")));
    assert!(times.is_sorted_by(|less, more| less >= more), "{times:?}");
    assert!(times[0] > 1.2 * plain && times[0] == step("{ lms: {} }"), "{times:?}, {plain}");
    assert_eq!(times[3], plain);
}

#[test]
fn tensors_smaller_than_the_threshold_stay() {
    // Every tensor is smaller.
    assert_eq!(step("{ lms: { smallest: 1 GiB } }"), step("{}"));
}

/// What is reclaimed makes room: the peak is smaller than without, and smaller than the memory of
/// a GPU that it fits.
#[test]
fn reclaimed_memory_is_used_again() {
    let peak = |technique: &str| {
        let run = ran(&[&format!("techniques={technique}")]);
        run.peak_memory_bytes.iter().map(|device| device.peak_bytes).max().expect("a device")
    };
    assert!(2 * (peak("{}") - peak("{ lms: {} }")) > peak("{}") - 700_000_000, "less than half is gone");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever memory and limit there is: a step ends within it, or it is said what is short.
    #[test]
    fn a_step_ends_or_says_what_is_short(
        mebibytes in 750_u32..1_600, limit in 0_u32..1_000, smallest in 0_u32..40, micro_batches in 1_u32..4,
    ) {
        let technique = format!("techniques={{ lms: {{ limit: {limit} MiB, smallest: {smallest} MiB }} }}");
        let (memory, accumulate) = (format!("memory.limit={mebibytes} MiB"), format!("training.accumulate={micro_batches}"));
        let found = ran(&[&technique, &memory, &accumulate]);
        match &found.failure {
            None => prop_assert!(found.step_time().is_some()),
            Some(failure) => prop_assert_eq!(failure.kind, FailureKind::OutOfMemory, "{}", failure.message),
        }
    }
}
