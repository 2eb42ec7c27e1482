//! What the framework's allocator takes, and the verdict where it runs out.

use reports::summary::{Failure, FailureKind, Ratio, RunSummary};

use crate::support::{messages, read, run};

/// The published 22B with everything recomputed: its tensors leave fragments.
const MEGATRON: &str = "name: test
extends: library:megatron-22b
";

const SMALL: &str = "name: test
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2 } }
training: { global_batch: 32, micro_batch: 4, sequence: 1024 }
parallelism: { tensor: 2, pipeline: 2 }
";

const LAYERS: &str = "name: test
machine: { node: dgx-a100-80g }
model: { layers: { preset: vit-b-16 } }
training: { micro_batch: 4, accumulate: 2, precision: fp32 }
";

fn ran(text: &str, variant: &str, settings: &[&str]) -> RunSummary {
    let summary = run(&read(text, settings).unwrap_or_else(|failure| panic!("{failure}")));
    summary.variants.into_iter().find(|run| run.variant == variant).expect("the variant")
}

#[test]
fn tensors_are_as_many_bytes_as_the_storages_that_stand_for_them() {
    for (text, variants) in [(MEGATRON, ["full", "selective-sp"].as_slice()), (SMALL, &["base"])] {
        for variant in variants {
            let found = ran(text, variant, &[]);
            assert_eq!(found.allocator.len(), found.peak_memory_bytes.len(), "{variant}");
            for (tensors, storages) in found.allocator.iter().zip(&found.peak_memory_bytes) {
                assert_eq!(tensors.device, storages.device);
                assert_eq!(Some(tensors.capacity_bytes), storages.capacity_bytes);
                let bytes = (tensors.outside_bytes + tensors.peak_allocated_bytes) as f64;
                let apart = bytes / storages.peak_bytes as f64 - 1.0;
                // Storages hold the workspace of the most demanding block throughout.
                assert!(apart.abs() < 0.02, "{variant}, {}: {apart}", tensors.device);
                assert!(tensors.peak_reserved_bytes >= tensors.peak_allocated_bytes);
                let kinds: u64 = tensors.by_kind_bytes.values().sum();
                assert_eq!(kinds, tensors.peak_allocated_bytes);
            }
        }
    }
}

/// 55.2 GiB hold the storages (54.8), not 56.5 of segments; those that grow have few fragments.
#[test]
fn fragments_decide_where_memory_is_short() {
    let limit = "memory.limit=55.2 GiB";
    let failure = ran(MEGATRON, "full", &[limit]).failure.expect("it does not fit");
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    let fragments = failure.holders_bytes["fragments of the allocator"];
    let (held, asked) =
        (failure.holders_bytes.values().sum::<u64>(), failure.requested_bytes.expect("a size"));
    // The request that is refused, and those that would follow it.
    let refused = held + asked - failure.capacity_bytes.expect("a capacity");
    assert!(fragments > 1 << 30 && (refused..fragments).contains(&failure.short_bytes.expect("a size")));
    assert!(failure.remedies[0].action.contains("expandable_segments"), "{:?}", failure.remedies);
    assert!(ran(MEGATRON, "full", &[limit, "memory.allocator.expandable_segments=true"]).fits);
    assert!(ran(MEGATRON, "full", &["memory.limit=56.5 GiB"]).fits);
}

/// Evictors are without what they lend, acceptors have buffers for it: tensors are as many bytes as storages on both.
#[test]
fn what_moves_is_not_there() {
    let settings = ["parallelism.tensor=1", "parallelism.pipeline=4", "memory.limit=79 GiB"];
    let bytes = |found: &RunSummary| {
        let of_tensors = found.allocator.iter().map(|of| of.outside_bytes + of.peak_allocated_bytes);
        let of_storages = found.peak_memory_bytes.iter().map(|of| of.peak_bytes);
        of_tensors.zip(of_storages).collect::<Vec<_>>()
    };
    let plain = bytes(&ran(SMALL, "base", &settings));
    let lent = bytes(&ran(SMALL, "base", &[&settings[..], &["techniques.bpipe={}"]].concat()));
    assert!(lent[0].0 < plain[0].0 && lent[3].0 > plain[3].0, "{plain:?} {lent:?}");
    for (tensors, storages) in lent {
        let apart = tensors as f64 / storages as f64 - 1.0;
        assert!(apart.abs() < 0.03, "{tensors}, {storages}");
    }
}

/// What ranks share they hold less of; lists of layers are replayed as well.
#[test]
fn sharing_leaves_room() {
    let reserved = |text: &str, sharding: &str| {
        let settings =
            ["parallelism.tensor=1", "parallelism.pipeline=1", &format!("parallelism.sharding={sharding}")];
        let found = ran(text, "base", if text == SMALL { &settings } else { &settings[2..] });
        found.allocator[0].peak_reserved_bytes
    };
    for text in [SMALL, LAYERS] {
        let all = ["none", "optimizer", "gradients", "parameters"].map(|sharding| reserved(text, sharding));
        assert!(all.windows(2).all(|pair| pair[1] < pair[0]), "{all:?}");
    }
}

const FSDP: [&str; 3] = ["parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.sharding=parameters"];

/// Without a limit the host takes memory long before the device is done with what it gathered before.
#[test]
fn a_host_without_a_limit_needs_more_segments() {
    let run = |limit: &str| {
        let limit = format!("parallelism.overlap_parameter_gather.limit={limit}");
        let found = ran(SMALL, "base", &[&FSDP[..], &[&limit]].concat());
        (
            found.allocator[0].peak_reserved_bytes,
            found.peak_memory_bytes[0].by_kind_bytes["gathered parameters"],
        )
    };
    let [device, host, none] = ["device", "host", "none"].map(run);
    assert!(device.1 <= host.1 && 3 * host.1 < 2 * none.1, "{device:?} {host:?} {none:?}");
    assert!(none.0 > host.0, "{device:?} {host:?} {none:?}");
}

/// Parameters are gathered ahead without a limit, in too little memory for all.
const RETRYING: &str = "name: test
machine: { cluster: { node: dgx-a100-80g, count: 2 } }
model: { transformer: { preset: llama-2-13b } }
training: { global_batch: 16, micro_batch: 1, sequence: 4096 }
parallelism: { data: 16, sharding: parameters, overlap_parameter_gather: { limit: none } }
software: { attention: flash }
techniques: { recompute: { mode: full } }
memory: { limit: 40 GiB }
";

/// Where a host runs out of memory that waits for none to come back, it is told to.
#[test]
fn a_host_that_waits_spares_retries() {
    let limited = |limit: &str| {
        let found = ran(RETRYING, "base", &[&format!("parallelism.overlap_parameter_gather.limit={limit}")]);
        (found.fits, found.allocator[0].retries)
    };
    // What the host took ahead comes back when the device is waited for (`synchronize_and_free_events`).
    let (fits, retries) = limited("none");
    assert!(fits && retries > 0, "{retries} retries");
    assert_eq!(limited("host"), (true, 0));
}

/// A step in which memory is returned is longer, by what that takes of the host, than with enough.
#[test]
fn what_retries_cost_is_in_the_step() {
    let limited = |limit: &str| ran(RETRYING, "base", &[&format!("memory.limit={limit}")]);
    let runs = ["40 GiB", "42 GiB", "70 GiB"].map(limited);
    let times = runs.each_ref().map(|run| run.step_time_s.expect("it fits"));
    assert!(times[0] > times[2] && times[1] > times[2], "{times:?}");
    let [tight, .., roomy] = &runs;
    assert_eq!((roomy.retries_s, roomy.allocator[0].retries), (None, 0));
    let price = tight.retries_s.expect("it is simulated");
    assert!(price > 0.0 && (times[0] - times[2] - price).abs() < 1e-9, "{times:?}, {price}");
    for by_cause in [&tight.time_breakdown_s, &tight.critical_path_s] {
        let all: f64 = by_cause.values().sum();
        assert!((all - times[0]).abs() < 1e-9, "{all}, not {}", times[0]);
    }
    // Waiting for the host is what grows: the GPU has the same work.
    let waited = |run: &RunSummary| run.time_breakdown_s.get("launch-bound").copied().unwrap_or(0.0);
    assert!(waited(tight) - waited(roomy) > 0.9 * price, "{:?}", tight.time_breakdown_s);
}

#[test]
fn who_limits_gathers_must_issue_them() {
    let limit = "parallelism.overlap_parameter_gather.limit=host";
    let settings = [&FSDP[..2], &[limit, "parallelism.sharding=optimizer", "software.launch=graph"]].concat();
    let failure = read(SMALL, &settings).expect_err("two mistakes");
    let [sharding, launch] = messages(&failure)[..] else { panic!("{failure}") };
    assert!(launch.contains("operator by operator") && sharding.contains("copies share"), "{failure}");
}

#[test]
fn placeholders_of_gradients_take_memory() {
    let peak = |kind| {
        ran(SMALL, "base", &[&format!("memory.gradient_placeholders={kind}")]).allocator[0]
            .peak_allocated_bytes
    };
    assert!(peak("kept") > peak("none"));
}

#[test]
fn settings_that_the_allocator_refuses() {
    let settings = ["memory.allocator.max_split_size=20 MiB", "memory.allocator.roundup_power2_divisions=3"];
    let failure = read(SMALL, &settings).expect_err("two mistakes");
    let [split, divisions] = messages(&failure)[..] else { panic!("{failure}") };
    assert!(split.contains("max_split_size") && divisions.contains("roundup_power2_divisions"), "{failure}");
}

/// One A100 that is 543 MB too small for GPT-2 XL, fragments included (issue: "no-op techniques").
const TIGHT: &str = "name: test
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2-xl } }
training: { micro_batch: 4, accumulate: 1, sequence: 1024, precision: bf16-mixed }
parallelism: { data: 1, idle: allow }
software: { attention: materialised }
memory: { limit: 68 GB }
variants:
  plain:   {}
  swap:    { techniques: { swap: {} } }
  offload: { techniques: { activation_offload: { smallest: 1 TiB } } }
";

/// Whether a plan fits does not hang on a technique that finds nothing to move; with enough memory nothing else does.
#[test]
fn a_technique_that_moves_nothing_changes_no_verdict() {
    let all = |settings: &[&str]| run(&read(TIGHT, settings).expect("a scenario")).variants;
    let tight = all(&[]);
    let failure = |run: &RunSummary| run.failure.clone().expect("it does not fit");
    let short = failure(&tight[0]);
    assert!(short.message.contains("in the allocator") && short.short_bytes.is_some(), "{short:?}");
    for run in &tight {
        let Failure { message, short_bytes, holders_bytes, .. } = failure(run);
        assert_eq!(
            (message, short_bytes, holders_bytes),
            (short.message.clone(), short.short_bytes, short.holders_bytes.clone())
        );
    }
    let enough = all(&["memory.limit=72 GB"]);
    for run in &enough {
        // Of one plan and itself nothing is uncertain.
        let relative_to_first = (run.variant != enough[0].variant).then_some(Ratio {
            ratio: 1.0,
            interval: [1.0; 2],
            certainty: 1.0,
        });
        let (variant, swap) = (run.variant.clone(), run.swap.clone());
        let plain = RunSummary { variant, swap, relative_to_first, ..enough[0].clone() };
        assert!(run.fits && *run == plain, "{}", run.variant);
    }
}

/// Where tensors move the allocator replays the order that the run took: its tensors are those that the run has counted, but for what
/// is freed while it is copied out, the workspace of products, and what sizes are rounded to. With what fragments take they fit.
#[test]
fn what_moves_is_judged_by_the_allocator() {
    let text = TIGHT.replace("1 TiB", "1 MiB");
    for limit in ["60 GB", "50 GB", "45 GB"] {
        let experiment = read(&text, &[&format!("memory.limit={limit}")]).expect("a scenario");
        let runs = run(&experiment).variants;
        let [plain, swap, offload] = &runs[..] else { panic!("three variants") };
        assert!(!plain.fits && swap.swap.iter().any(|plan| plan.away > 0));
        for run in [swap, offload] {
            assert!(
                run.fits && run.allocator_unknown.is_none(),
                "{limit}, {}: {:?}",
                run.variant,
                run.failure
            );
            let (allocator, counted) = (&run.allocator[0], run.peak_memory_bytes[0].peak_bytes as f64);
            let asked = (allocator.outside_bytes + allocator.peak_allocated_bytes) as f64;
            let share = asked / counted;
            assert!((0.9..1.006).contains(&share), "{limit}, {}: {asked}, {counted}", run.variant);
            let taken = allocator.outside_bytes + allocator.peak_reserved_bytes;
            assert!(taken <= allocator.capacity_bytes, "{limit}, {}: {allocator:?}", run.variant);
        }
    }
}

/// A plan that fills a GPU to the last byte leaves fragments no room: in the next round it leaves as much as they lacked.
#[test]
fn a_plan_that_fills_memory_leaves_room_for_fragments() {
    let text = "name: test
machine: { node: { name: supermicro-4029gp-trt, gpu: p100-pcie-16gb } }
model: { layers: { preset: resnet-50 } }
training: { precision: fp32, micro_batch: 256, accumulate: 1, optimizer: sgd-momentum }
parallelism: { data: 1, idle: allow }
memory: { allocator: { expandable_segments: true } }
software: { launch: free }
techniques: { swap: { engine: online, prefetch: 16 } }
";
    let run = ran(text, "base", &[]);
    assert!(run.fits, "{:?}", run.failure);
    let (peak, allocator) = (&run.peak_memory_bytes[0], &run.allocator[0]);
    let left = peak.capacity_bytes.expect("a GPU") - peak.peak_bytes;
    assert!(left >= allocator.peak_reserved_bytes - allocator.peak_allocated_bytes, "{left}: {allocator:?}");
    assert!(allocator.outside_bytes + allocator.peak_reserved_bytes <= allocator.capacity_bytes);
}

/// What a part of a step has no use for is not there: states without an update, gradients without a backward pass.
#[test]
fn a_part_of_a_step_holds_what_it_uses() {
    for text in [SMALL, LAYERS] {
        let held = |step: &str| {
            let run = ran(text, "base", &[&format!("training.step={step}"), "training.micro_batch=4"]);
            let stage = run.allocator.into_iter().next().expect("the allocator is asked");
            let has = |kind: &str| stage.by_kind_bytes.contains_key(kind);
            (has("optimizer states"), has("gradients"), has("parameters"), stage.peak_allocated_bytes)
        };
        let [full, gradients, forward] = ["full", "gradients", "forward"].map(held);
        assert_eq!([full.0, gradients.0, forward.0], [true, false, false], "{text}");
        assert_eq!([full.1, gradients.1, forward.1], [true, true, false], "{text}");
        assert!(full.2 && gradients.2 && forward.2, "{text}");
        assert!(full.3 > gradients.3 && gradients.3 > forward.3, "{full:?} {gradients:?} {forward:?}");
    }
}

/// MPT-125M as it was trained on A100 of 40 GB (llm-foundry, row of 26 sequences): storages of blocks are more than it has.
const MPT: &str = "name: test
machine: { node: dgx-a100-40g }
model: { transformer: { layers: 12, hidden: 768, heads: 12, vocabulary: 50368, max_positions: 2048, dropout: false } }
training: { micro_batch: 26, accumulate: 3, sequence: 2048, precision: bf16-mixed }
parallelism: { sharding: parameters, overlap_parameter_gather: { limit: host } }
memory: { bytes_per_parameter: 16 }
software: { attention: flash-triton, optimizer: operators, cross_entropy: fused, loss_metrics: 2 }
";

/// The allocator's verdict is the plan's, whatever storages of blocks hold: more than there is, they have no share of it.
#[test]
fn what_ran_is_not_refused_by_storages_of_blocks() {
    let found = ran(MPT, "base", &[]);
    let stage = &found.allocator[0];
    assert!(found.fits && stage.needed_bytes() <= stage.capacity_bytes, "{stage:?}");
    let storages = &found.peak_memory_bytes[0];
    assert!(storages.capacity_bytes.is_none_or(|capacity| capacity >= storages.peak_bytes), "{storages:?}");
    // One sequence more than the largest micro-batch that was published needs more; twice as many do not fit.
    assert!(!ran(MPT, "base", &["training.micro_batch=52"]).fits);
}

/// Metrics of the loss follow the backward pass one after the other: activations of the layers are gone, one copy of the logits and
/// its log-softmax are there.
#[test]
fn metrics_find_the_activations_gone() {
    let peak = |metrics: &str| {
        let found = ran(MPT, "base", &[&format!("software.loss_metrics={metrics}")]);
        found.allocator[0].clone()
    };
    let [none, one, two] = ["0", "1", "2"].map(peak);
    let again = two.peak_allocated_bytes as f64 / one.peak_allocated_bytes as f64 - 1.0;
    assert!(again.abs() < 0.01, "{again}");
    let logits = 26 * 2048 * 50368;
    // The gradient of the logits has memory of its own (2 bytes), less than the two copies in fp32 that metrics have (8 bytes).
    let more = one.peak_allocated_bytes - none.peak_allocated_bytes;
    assert!(more >= 2 * logits && more < 8 * logits, "{more}");
}

/// What is short is what the whole step needs beyond what there is, so that as much more is enough.
#[test]
fn as_much_memory_as_is_short_is_enough() {
    let limited = |gigabytes: f64| ran(TIGHT, "plain", &[&format!("memory.limit={gigabytes} GB")]);
    for limit in [40.0, 55.0, 66.0] {
        let short = limited(limit).failure.and_then(|failure| failure.short_bytes).expect("it does not fit");
        assert!(limited(limit + short as f64 * 1e-9 + 0.001).fits, "{limit} GB and {short} bytes");
    }
}

/// A forward pass completes no gradients that ranks could share.
#[test]
fn shared_gradients_change_nothing_without_a_backward_pass() {
    let of = |sharding: &str| {
        let found = ran(
            &format!(
                "name: test
machine: {{ node: dgx-h100 }}
model: {{ transformer: {{ preset: gpt2, layers: 4 }} }}
training: {{ micro_batch: 1, accumulate: 1, sequence: 256, step: forward }}
parallelism: {{ data: 8, sharding: {sharding} }}
memory: {{ allocator: {{}} }}
"
            ),
            "base",
            &[],
        );
        (found.step_time_s, found.allocator)
    };
    let whole = of("none");
    assert_eq!(of("optimizer"), whole);
    assert_eq!(of("gradients"), whole);
}
