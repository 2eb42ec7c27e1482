//! Scenarios that random ones found broken, as small as they come: foretrain said of each that it has a bug.

use reports::summary::{FailureKind, Remedy, RunSummary};
use scenarios::run::{Unwatched, plan};
use scenarios::{Experiment, Failure};

use crate::support::{options, read, run};

/// A gather hangs on a collective that runs on a lane of its own: encoders begin a layer with that of their queries.
#[test]
fn gathers_may_hang_on_collectives() {
    for sharding in ["optimizer", "parameters"] {
        fits(&format!(
            "
machine: {{ node: dgx-a100-80g }}
model: {{ transformer: {{ preset: bert-base, layers: 2 }} }}
training: {{ micro_batch: 1, accumulate: 2, sequence: 128 }}
parallelism: {{ data: 2, tensor: 2, sequence_parallel: true, asynchronous_tensor: true, sharding: {sharding}, overlap_parameter_gather: {{}}, idle: allow }}"
        ));
    }
}

/// Words have no gradient: nothing is gathered for that of an embedding, and a root stays for that of the head.
#[test]
fn an_embedding_without_gradient_of_its_input_gathers_once() {
    for accumulate in [1, 2] {
        fits(&format!(
            "
machine: {{ node: dgx-a100-80g }}
model: {{ transformer: {{ preset: gpt2, layers: 2, dropout: false }} }}
training: {{ micro_batch: 1, accumulate: {accumulate}, sequence: 128 }}
parallelism: {{ data: 2, sharding: parameters, schedule: zb-h1, idle: allow }}"
        ));
    }
}

/// Micro-batches leave a stage without gradients of inputs with those of its weights, which wait for what comes back.
#[test]
fn a_stage_may_have_gradients_of_weights_alone() {
    for schedule in ["zb-h1", "zb-h2", "{ zb-auto: { memory_limit: 2 } }"] {
        fits(&format!(
            "
machine: {{ node: dgx-a100-80g }}
model:
  layers:
    input: {{ channels: 3, height: 16, width: 16 }}
    list: [{{ conv2d: {{ channels: 64, kernel: 3 }} }}, flatten, {{ linear: {{ outputs: 10 }} }}, cross_entropy]
training: {{ micro_batch: 1, accumulate: 4 }}
parallelism: {{ pipeline: 2, data: 1, schedule: {schedule}, idle: allow }}"
        ));
    }
}

/// A tensor that is filled by the forward pass, not read there, and recomputed for gradients of weights ends where it is filled.
#[test]
fn recomputed_tensors_may_be_kept_for_gradients_of_weights() {
    fits(
        "
machine: { node: dgx-a100-80g }
model:
  layers:
    input: { tokens: 64 }
    list:
      - embedding: { vocabulary: 500, width: 64 }
      - repeat: { count: 2, layers: [{ residual: { body: [rms_norm, { linear: { outputs: 64 } }] } }] }
      - linear: { outputs: 500 }
      - cross_entropy
training: { micro_batch: 1, accumulate: 2, precision: fp16-mixed }
parallelism: { data: 1, schedule: zb-h1, idle: allow }
techniques: { recompute: { mode: full } }",
    );
}

/// A host that waits for what a router chose waits in every micro-batch, whatever variant of the pass it is in.
#[test]
fn a_host_waits_for_routers_in_every_variant_of_a_pass() {
    fits(
        "
machine: { node: dgx-a100-80g }
model:
  layers:
    input: { tokens: 32 }
    list: [{ embedding: { vocabulary: 100, width: 64 } }, { experts: { count: 2, width: 64 } }, { linear: { outputs: 100 } }, cross_entropy]
training: { micro_batch: 1, accumulate: 2 }
parallelism: { data: 1, schedule: gpipe, idle: allow }",
    );
}

/// BPipe lends what a micro-batch saves, not what its forward pass works in.
#[test]
fn bpipe_lends_no_workspaces() {
    fits(
        "
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2, layers: 4 } }
training: { micro_batch: 1, accumulate: 6, sequence: 128 }
parallelism: { pipeline: 4, data: 1, idle: allow }
memory: { footprint_ratio: 1 }
techniques: { bpipe: {} }",
    );
}

/// Copies and meetings of swapping are among the activities that a plan may have.
#[test]
fn estimates_count_what_swapping_does() {
    let [estimated, simulated] = activities(
        "
machine: { node: dgx-a100-80g }
model: { layers: { preset: resnet-50 } }
training: { micro_batch: 32, accumulate: 3 }
parallelism: { data: 2, schedule: gpipe, idle: allow }
memory: { footprint_ratio: 1.33 }
software: { launch: free }
techniques: { swap: { coordination: synchronised } }",
    );
    assert!(simulated <= estimated && 4 * simulated > estimated, "{simulated} of {estimated}");
}

/// Ranks that share in parts sum what each part has scattered, too.
#[test]
fn estimates_count_sums_among_parts_of_ranks() {
    let [estimated, simulated] = activities(
        "
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2, layers: 2 } }
training: { micro_batch: 1, accumulate: 2, sequence: 64 }
parallelism: { data: 4, sharding: parameters, sharding_group: 2, idle: allow }
software: { launch: free }
run: { fold: never }",
    );
    assert_eq!(simulated, estimated);
}

/// A host that takes memory for gathers issues a visit in parts, and one that is late nearly every
/// operator by itself.
#[test]
fn estimates_count_gathers_that_hosts_take_memory_for() {
    for limit in ["host", "none"] {
        let [estimated, simulated] = activities(&format!(
            "
machine: {{ node: dgx-a100-80g }}
model: {{ transformer: {{ preset: gpt2, layers: 4 }} }}
training: {{ micro_batch: 1, accumulate: 2, sequence: 64 }}
parallelism: {{ data: 4, sharding: parameters, overlap_parameter_gather: {{ limit: {limit} }}, idle: allow }}
run: {{ fold: never }}"
        ));
        assert!(simulated <= estimated && estimated < 2 * simulated, "{simulated} of {estimated}");
    }
}

/// Nothing is sent back, issued or updated after a forward pass alone.
#[test]
fn estimates_of_forward_passes_count_no_others() {
    let [estimated, simulated] = activities(
        "
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2, layers: 2 } }
training: { micro_batch: 1, accumulate: 2, sequence: 64, step: forward }
parallelism: { data: 1, pipeline: 2, idle: allow }
run: { fold: never }",
    );
    assert_eq!(simulated, estimated);
}

/// Stages of a profile execute their passes, carry their messages if these occupy anything, and lend what BPipe has them lend.
#[test]
fn estimates_of_profiles_are_exact() {
    for (send, schedule) in
        [("latency", "1f1b"), ("eager", "zb-v"), ("blocking", "{ interleaved: { chunks: 2 } }")]
    {
        let [estimated, simulated] = activities(&format!(
            "{PROFILE}
training: {{ micro_batches: 4 }}
parallelism: {{ schedule: {schedule}, send: {send} }}
techniques: {{ recompute: {{ stages: [0, 2] }} }}"
        ));
        assert_eq!(simulated, estimated, "{send} {schedule}");
    }
}

/// What recomputation drops cannot be lent, which is known before anything is built.
#[test]
fn bpipe_lends_only_what_recomputation_keeps() {
    let with = |micro_batches: u64, recompute: &str| {
        let text = format!(
            "name: found{PROFILE}
training: {{ micro_batches: {micro_batches} }}
techniques: {{ bpipe: {{}}, recompute: {recompute} }}"
        );
        read(&text, &[])
    };
    for recompute in ["{}", "{ keeps: 0 MB }", "{ stages: [0] }"] {
        let refused = with(4, recompute).expect_err(recompute).to_string();
        for words in ["`techniques.recompute`", "`bpipe`", "activations of stage 0", "(`keeps`)"] {
            assert!(refused.contains(words), "{refused}");
        }
    }
    for (micro_batches, recompute) in [(4, "{ keeps: 1 MB }"), (4, "{ stages: [1, 2, 3] }"), (3, "{}")] {
        let summary = run(&with(micro_batches, recompute).expect(recompute));
        assert!(summary.variants[0].failure.is_none(), "{micro_batches}, {recompute}");
    }
}

/// A gather may be the first to take in what a stage receives, while others read that, too.
#[test]
fn collectives_may_take_in_what_a_stage_receives() {
    for (preset, micro_batch) in [("mpt-7b", 1), ("bert-base", 2)] {
        fits(&format!(
            "
machine: {{ node: dgx-a100-80g }}
model: {{ transformer: {{ preset: {preset}, layers: 2 }} }}
training: {{ micro_batch: {micro_batch}, accumulate: 1, sequence: 128 }}
parallelism: {{ tensor: 2, pipeline: 2, data: 1, sequence_parallel: true, asynchronous_tensor: true, idle: allow }}
techniques: {{ activation_offload: {{ smallest: 1 KiB, keep: last-layer }} }}"
        ));
    }
}

/// Two layers of GPT-2 on one GPU, with a setting of the software.
fn on_one_gpu(setting: &str, value: &str) -> Result<Experiment, Failure> {
    let text = format!(
        "
name: found
machine: {{ node: dgx-a100-80g }}
model: {{ transformer: {{ preset: gpt2, layers: 2 }} }}
training: {{ micro_batch: 1, accumulate: 2, sequence: 64 }}
parallelism: {{ data: 1, idle: allow }}
software: {{ {setting}: {value} }}"
    );
    read(&text, &[])
}

/// A host that issues for longer than a run may last is refused.
#[test]
fn hosts_issue_a_step_in_time() {
    let with = |overhead: &str| on_one_gpu("host_overhead", overhead);
    for absurd in ["18446744073709551615 ps", "2562 h", "100 h"] {
        let refused = with(absurd).expect_err(absurd).to_string();
        assert!(refused.contains("`software.host_overhead`"), "{refused}");
    }
    assert!(run(&with("1 h").expect("10 days")).variants[0].step_time_s > Some(864_000.0));
}

/// What takes longer than a run may last reaches its limit: it waits for nothing but its end.
#[test]
fn drives_that_take_for_ever_are_no_deadlock() {
    let experiment = settings(
        "
machine: { node: { name: dgx-a100-80g, set: { ssd: { model: generic-gen3-nvme-tlc, count: 4 } } } }
model: { transformer: { preset: bert-base, layers: 3 } }
training: { micro_batch: 4, accumulate: 1, sequence: 128 }
parallelism: { data: 1, idle: allow }
techniques: { zero_infinity: { parameters: gpu } }
storage: { nvme: { issue: 2562 h } }",
    );
    let run = run(&experiment).variants.swap_remove(0);
    let failure = run.failure.expect("it takes years");
    assert_eq!(failure.kind, FailureKind::Limit);
    assert_eq!(failure.remedies, [Remedy::untried("give shorter times: a step ends before that")]);
}

/// A drive that writes to its cache is faster than it can sustain, but not than it can be.
#[test]
fn a_write_cache_is_part_of_what_a_link_can_carry() {
    let experiment = settings(
        "
machine: { node: { name: dgx-a100-80g, set: { ssd: { model: generic-gen3-nvme-tlc, count: 4 } } } }
model: { transformer: { preset: bert-base, layers: 3 } }
training: { micro_batch: 4, accumulate: 1, sequence: 128 }
parallelism: { data: 1, idle: allow }
techniques: { zero_infinity: { parameters: gpu } }
storage: { nvme: {} }",
    );
    let run = &run(&experiment).variants[0];
    let busiest = run.links.iter().map(|link| link.utilisation).fold(0.0, f64::max);
    assert!(busiest > 0.3 && busiest <= 1.0, "{busiest}");
}

/// A pass that waits for memory which copies out do not give back in time is short of memory, however that is noticed; with more
/// the step ends, and with even more it is not longer.
#[test]
fn memory_that_nobody_gives_back_has_run_out() {
    let experiment = settings(
        "
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2-xl, layers: 6 } }
training: { micro_batch: 4, accumulate: 1, sequence: 1024 }
parallelism: { data: 1, idle: allow }
software: { attention: flash }
techniques: { activation_offload: {} }
sweep: { memory.limit: [7 GB, 7800 MB, 8 GB, 8200 MB, 8500 MB, 9 GB, 20 GB] }",
    );
    let summary = run(&experiment);
    let short = summary.variants.iter().filter_map(|run| run.failure.as_ref());
    let short: Vec<(FailureKind, u64)> =
        short.map(|failure| (failure.kind, failure.short_bytes.unwrap_or(0))).collect();
    assert!(
        short.len() >= 3 && short.iter().all(|&(kind, short)| kind == FailureKind::OutOfMemory && short > 0)
    );
    let times: Vec<Option<f64>> = summary.variants.iter().map(RunSummary::step_time).collect();
    assert!(times[..short.len()].iter().all(Option::is_none), "{times:?}");
    assert!(times[short.len()..].is_sorted_by(|less, more| less >= more), "{times:?}");
}

/// Products that hold nothing of the peak, or more than it, are refused.
#[test]
fn products_hold_some_of_the_peak() {
    let with = |share: &str| on_one_gpu("sustained_products", share);
    for absurd in ["0.0", "0 %", "101 %"] {
        let refused = with(absurd).expect_err(absurd).to_string();
        assert!(refused.contains("`software.sustained_products`"), "{refused}");
    }
    assert!(run(&with("0.000001 %").expect("very little")).variants[0].step_time_s.is_some());
    assert!(with("100 %").is_ok());
}

/// Four stages of a profile.
const PROFILE: &str = "
model: { profiled_pipeline: { stages: 4, forward: 1 ms, backward_input: 1 ms, backward_weight: 1 ms, transfer: 1 ms, activation: 1 GB } }";

/// Activities of a scenario, as estimated and as simulated.
fn activities(text: &str) -> [u64; 2] {
    let experiment = settings(text);
    let estimated = plan(&experiment, &options(), &Unwatched).expect("it is small").activities;
    let simulated = run(&experiment).variants[0].activities.expect("it has been simulated");
    [estimated, simulated]
}

fn settings(settings: &str) -> scenarios::Experiment {
    read(&format!("name: found{settings}\n"), &[]).unwrap_or_else(|failure| panic!("{failure}"))
}

fn fits(text: &str) {
    let summary = run(&settings(text));
    let failures: Vec<_> = summary.variants.iter().filter_map(|run| run.failure.as_ref()).collect();
    assert!(failures.is_empty(), "{text}: {failures:?}");
}
