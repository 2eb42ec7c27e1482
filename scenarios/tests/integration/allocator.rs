//! What the framework's allocator takes, and the verdict where it runs out.

use reports::summary::{FailureKind, RunSummary};

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
    assert_eq!(
        held + asked - failure.capacity_bytes.expect("a capacity"),
        failure.short_bytes.expect("a size")
    );
    assert!(fragments > 1 << 30 && failure.short_bytes < Some(fragments));
    assert!(failure.remedies[0].contains("expandable_segments"), "{:?}", failure.remedies);
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
    assert!(device.1 <= host.1 && 2 * host.1 < none.1, "{device:?} {host:?} {none:?}");
    assert!(none.0 > host.0, "{device:?} {host:?} {none:?}");
}

/// Where a host runs out of memory that waits for none to come back, it is told to.
#[test]
fn a_host_that_waits_is_a_remedy() {
    let text = "name: test
machine: { cluster: { node: dgx-a100-80g, count: 2 } }
model: { transformer: { preset: llama-2-13b } }
training: { global_batch: 16, micro_batch: 1, sequence: 4096 }
parallelism: { data: 16, sharding: parameters, overlap_parameter_gather: { limit: none } }
software: { attention: flash }
techniques: { recompute: { mode: full } }
memory: { limit: 40 GiB }
";
    let remedies = ran(text, "base", &[]).failure.expect("it does not fit").remedies;
    let told = "use `parallelism: { overlap_parameter_gather: { limit: host } }`";
    assert!(remedies.iter().any(|remedy| remedy.starts_with(told)), "{remedies:?}");
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
