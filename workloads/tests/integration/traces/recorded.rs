//! Traces of others, replayed unchanged and changed. Nothing is fitted to their steps.

use std::collections::BTreeMap;

use sim_core::time::Time;
use workloads::lanes::{ActivityKind, DeviceItem};
use workloads::trace::changes::Change;
use workloads::trace::{Traced, kineto, simulation};

use super::{QUEUE, replayed};

pub(super) const DLRM: &[u8] = include_bytes!("../../data/traces/trace_a100_dlrm_8rank_rank3.json.gz");
pub(super) const RESNET: &[u8] = include_bytes!("../../data/traces/trace_v100_resnet50_workers0.json.gz");
pub(super) const DISTRIBUTED: &[u8] =
    include_bytes!("../../data/traces/trace_a100_resnet_ddp_2rank_rank0.json.gz");

fn traced(trace: &[u8]) -> Traced {
    Traced::of(kineto::read(trace).expect("it is a trace"))
}

fn changed(trace: &[u8], changes: &[Change]) -> Traced {
    let mut traced = traced(trace);
    changes.iter().for_each(|change| _ = change.apply(&mut traced));
    traced
}

/// Kernels, copies and gaps of a stream over its steps (s).
fn device_time(traced: &Traced) -> f64 {
    let stream = traced.lanes.streams.iter().max_by_key(|stream| stream.items.len()).expect("there is one");
    let items = stream.items.iter().map(|item| (item.duration + item.gap).as_secs());
    items.sum::<f64>() / traced.recorded_steps.len() as f64
}

#[test]
fn steps_in_which_the_device_decides_are_as_recorded() {
    // Streams wait for each other, for peers and for multiprocessors: within 2 % step by step.
    let replayed = replayed(&traced(DLRM));
    assert_eq!(replayed.steps.len(), 6);
    for step in &replayed.steps {
        let recorded = step.recorded.expect("the trace has steps").as_secs();
        let found = step.replayed.as_secs();
        assert!((found / recorded - 1.0).abs() < 0.02, "{found} s for {recorded} s");
    }
}

#[test]
fn a_host_that_is_twice_as_fast_leaves_the_device() {
    let traced = changed(RESNET, &[Change::Host(0.5)]);
    let expected = device_time(&traced);
    // In the first step the host is not ahead yet.
    let steps = &replayed(&traced).steps[1..];
    let mean = steps.iter().map(|step| step.replayed.as_secs()).sum::<f64>() / steps.len() as f64;
    assert!((mean / expected - 1.0).abs() < 0.02, "{mean} s, the device alone {expected} s");
}

#[test]
fn a_host_that_is_twice_as_slow_decides() {
    let before = replayed(&traced(RESNET)).mean_s();
    let after = replayed(&changed(RESNET, &[Change::Host(2.0)])).mean_s();
    assert!((after / (2.0 * before) - 1.0).abs() < 0.03, "{after} s, it was {before} s");
}

#[test]
fn kernels_decide_where_they_take_longer_than_the_host() {
    let before = replayed(&traced(RESNET)).mean_s();
    for factor in [0.5, 2.0] {
        let traced = changed(RESNET, &[Change::Kernels(factor)]);
        let expected = device_time(&traced).max(before);
        let mean = replayed(&traced).mean_s();
        assert!((mean / expected - 1.0).abs() < 0.03, "{mean} s, the longer chain {expected} s");
    }
}

#[test]
fn streams_keep_their_order_and_their_busy_time() {
    for trace in [DLRM, RESNET, DISTRIBUTED] {
        let recording = kineto::read(trace).expect("it is a trace");
        let traced = Traced::of(recording.clone());
        let replayed = replayed(&traced);
        for stream in &traced.lanes.streams {
            let recorded: Vec<_> =
                recording.activities.iter().filter(|activity| activity.stream == stream.id).collect();
            let names = recorded.iter().map(|activity| activity.name);
            assert!(stream.items.iter().map(|item| item.name).eq(names));
            let nanoseconds: i64 = recorded.iter().map(|activity| activity.end - activity.begin).sum();
            let busy: u64 = stream.items.iter().map(|item| item.duration.0).sum();
            assert_eq!(busy, nanoseconds as u64 * 1_000);
        }
        assert_eq!(replayed.lanes.len(), traced.lanes.threads.len() + traced.lanes.streams.len());
    }
}

#[test]
fn a_faster_part_is_never_slower() {
    for trace in [DLRM, RESNET, DISTRIBUTED] {
        let before = replayed(&traced(trace)).mean_s();
        let changes = [
            Change::Host(0.8),
            Change::NoLoader,
            Change::Kernels(0.8),
            Change::Copies(0.8),
            Change::Collectives(0.8),
        ];
        for change in changes {
            let after = replayed(&changed(trace, &[change])).mean_s();
            assert!(after <= before * 1.0001, "{change:?}: {after} s, it was {before} s");
        }
    }
}

#[test]
fn predictions_that_recordings_will_judge() {
    // ResNet-50 on a V100 whose batches are there when they are asked for: a recording with loader
    // workers exists elsewhere.
    let steps = replayed(&changed(RESNET, &[Change::NoLoader])).steps;
    let ms: Vec<String> = steps.iter().map(|step| format!("{:.1}", step.replayed.as_secs() * 1e3)).collect();
    insta::assert_snapshot!(ms.join(" "), @"107.6 116.7 116.1 125.1 114.2 115.8");
}

#[test]
fn collectives_wait_for_peers_and_move_data() {
    let traced = traced(DISTRIBUTED);
    let collectives = traced.lanes.streams.iter().flat_map(|stream| &stream.items);
    let collectives: Vec<&DeviceItem> =
        collectives.filter(|item| item.kind == ActivityKind::Collective).collect();
    assert_eq!(collectives.len(), 21);
    let moved = |item: &&&DeviceItem| item.skew < item.duration;
    assert_eq!(collectives.iter().filter(moved).count(), 21, "each takes at least what the shortest takes");
}

/// The second look at a replay sees what the first has added up, and names what streams execute.
#[test]
fn watched_lanes_do_what_they_have_spent() {
    let traced = traced(DISTRIBUTED);
    let replay = simulation(&traced, QUEUE, 0);
    let replayed = replay.run().expect("it ends");
    let mut spent: Vec<BTreeMap<&str, Time>> = vec![BTreeMap::new(); replayed.lanes.len()];
    let mut named: BTreeMap<&str, Time> = BTreeMap::new();
    let all = [Time::ZERO, Time::NEVER];
    replay
        .watch(all, |span| {
            *spent[span.lane].entry(span.cause).or_default() += span.end - span.start;
            if let Some(name) = span.name {
                *named.entry(traced.names.name(name)).or_default() += span.end - span.start;
            }
        })
        .expect("it ends");
    for (lane, spent) in replayed.lanes.iter().zip(&spent) {
        let told: BTreeMap<&str, Time> =
            lane.spent.iter().map(|(cause, time)| (cause.as_str(), *time)).collect();
        assert_eq!(*spent, told, "{}", lane.name);
    }
    let mut durations: BTreeMap<&str, Time> = BTreeMap::new();
    for item in traced.lanes.streams.iter().flat_map(|stream| &stream.items) {
        *durations.entry(traced.names.name(item.name)).or_default() += item.duration;
    }
    let longest = durations.iter().max_by_key(|(_, time)| **time).expect("there are kernels");
    let off = named[longest.0].0.abs_diff(longest.1.0) as f64 / longest.1.0 as f64;
    assert!(off < 0.01, "{longest:?} takes {:?}", named[longest.0]);
}
