//! Memory of hosts that is page-locked, or not.

use reports::summary::{FailureKind, RunSummary};

use crate::support::{messages, read, run_of};

/// A GPT on each of eight GPUs, all of whose activations leave but those of the head.
const OFFLOADED: &str = "name: offloaded
machine: { node: dgx-a100-80g }
model: { transformer: { layers: 4, hidden: 4096, heads: 32, vocabulary: 51200, max_positions: 2048 } }
training: { global_batch: 16, micro_batch: 1, sequence: 2048, precision: bf16-mixed }
software: { attention: flash }
techniques: { activation_offload: { smallest: 1 MiB, keep: { layers: 0 }, forwarding: false } }
";

fn ran(settings: &[&str]) -> RunSummary {
    run_of(OFFLOADED, settings)
}

/// Which store is short, when, and by how many bytes; with as many more a step takes what it takes without a limit.
#[test]
fn a_job_without_buffers_for_what_must_leave_is_refused() {
    let refused = ran(&["memory.pinned.size=256 MiB"]).failure.expect("it is refused");
    assert_eq!(refused.kind, FailureKind::OutOfMemory);
    assert_eq!(refused.store.as_deref(), Some("page-locked memory beside stage 0"));
    assert_eq!(refused.operation.as_deref(), Some("backward of micro-batch 0"));
    let (short, has) = (refused.short_bytes.unwrap(), refused.capacity_bytes.unwrap());
    assert_eq!((has, refused.requested_bytes), (256 << 20, Some(short + has)));
    let enough = format!("memory.pinned.size={} B", short + has);
    assert_eq!(ran(&[&enough]).step_time_s, ran(&[]).step_time_s);
    let few = format!("memory.pinned.size={} B", short + has - 1);
    assert_eq!(ran(&[&few]).failure.and_then(|failure| failure.short_bytes), Some(1));
    assert!(refused.remedies[0].action.contains("memory: { pinned: { size"), "{:?}", refused.remedies);
}

/// What finds no room leaves all the same, over a thread that copies 6 GB/s: with no buffers at all as if nothing were page-locked.
#[test]
fn what_is_not_page_locked_takes_as_long_as_a_thread_copies() {
    let [locked, paged] = [&[][..], &["techniques.activation_offload.pinned=false"]].map(|settings| {
        let run = ran(settings);
        let bytes = |kind: &str| run.communication.iter().find(|one| one.kind == kind).unwrap().bytes;
        let moved = [bytes("offload to host memory"), bytes("load from host memory")];
        (run.step_time_s.unwrap(), moved)
    });
    assert_eq!(locked.1, paged.1);
    let [out, back] = paged.1.map(|bytes| bytes as f64 / 6e9);
    assert!(
        paged.0 > out + back && paged.0 < 1.5 * (out + back),
        "{} s, {out} s out, {back} s back",
        paged.0
    );
    assert!(paged.0 > 1.8 * locked.0, "{} and {} s", paged.0, locked.0);
    let overflowing = |size: &str| {
        let setting = format!("memory.pinned={{ size: {size}, when_full: pageable }}");
        ran(&[&setting]).step_time_s.unwrap()
    };
    let [none, some, all] = ["0 B", "256 MiB", "64 GiB"].map(overflowing);
    assert_eq!((none, all), (paged.0, locked.0));
    assert!(all < some && some < none, "{all} {some} {none}");
}

#[test]
fn what_goes_to_drives_needs_no_buffers_that_stay() {
    for setting in ["memory.pinned.size=1 GiB", "techniques.activation_offload.pinned=false"] {
        let failure = read(OFFLOADED, &[setting, "techniques.activation_offload.to=drives"]).unwrap_err();
        assert_eq!(messages(&failure), ["activations on drives need no page-locked memory"]);
    }
}
