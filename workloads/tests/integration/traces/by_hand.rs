//! Timelines by hand, to the microsecond.

use sim_core::time::Time;
use workloads::lanes::HostItem;
use workloads::trace::{replay, simulation};

use super::{QUEUE, Text, replayed, us};

/// Launches on an idle stream: latency 10, which four of them tell.
fn idle_launches(text: &mut Text, from: u32, begin: f64) {
    for n in 0..4 {
        let at = begin + 100.0 * f64::from(n);
        text.kernel(from + n, 1, [at, 5.0], 7, [at + 10.0, 20.0]);
    }
}

#[test]
fn an_idle_stream_begins_a_latency_after_its_launch() {
    let mut text = Text::default();
    text.step(1, [0.0, 400.0]);
    idle_launches(&mut text, 1, 0.0);
    let found = replayed(&text.traced());
    assert_eq!((us(found.steps[0].replayed), found.steps.len()), (400.0, 1));
    // The host works all the time: the step is its own.
    assert!((found.host_share() - 1.0).abs() < 1e-9, "{}", found.host_share());
}

#[test]
fn a_call_that_blocks_ends_with_what_it_waits_for() {
    let mut text = Text::default();
    text.step(1, [0.0, 600.0]);
    idle_launches(&mut text, 1, 0.0);
    // Launched at 400, runs from 410 to 560; the call returns at 565, the step ends at 600.
    text.kernel(9, 1, [400.0, 5.0], 7, [410.0, 150.0]);
    text.call("cudaDeviceSynchronize", 10, 1, [410.0, 155.0]);
    let mut traced = text.traced();
    assert_eq!(traced.findings.blocking_calls, 1);
    assert_eq!(us(replayed(&traced).steps[0].replayed), 600.0);
    // Kernels of twice the time: the last one ends 150 later, and so does the step.
    workloads::trace::changes::Change::Kernels(2.0).apply(&mut traced);
    assert_eq!(us(replayed(&traced).steps[0].replayed), 750.0);
}

#[test]
fn the_critical_path_goes_over_the_lanes_that_a_step_waited_for() {
    let mut text = Text::default();
    text.step(1, [0.0, 600.0]);
    idle_launches(&mut text, 1, 0.0);
    text.kernel(9, 1, [400.0, 5.0], 7, [410.0, 150.0]);
    text.call("cudaDeviceSynchronize", 10, 1, [410.0, 155.0]);
    let traced = text.traced();
    let replay = simulation(&traced, QUEUE, 0);
    let ran = replay.run().expect("it ends");
    let window = [ran.marks[0], ran.marks[1]];
    let mut spans = Vec::new();
    let path = replay.watch_path(window, ran.stepping, |span| spans.push(span)).expect("it ends");
    // The host up to the launch, the kernel, and the host from the return of the call on.
    let legs: Vec<_> = path.iter().map(|leg| (leg.lane, us(leg.start), us(leg.end))).collect();
    assert_eq!(legs, [(0, 0.0, 400.0), (1, 400.0, 560.0), (0, 560.0, 600.0)]);
    // A leg is time that its lane has.
    for leg in &path {
        let own = spans.iter().filter(|span| span.lane == leg.lane);
        assert!(own.clone().any(|span| span.start < leg.end && span.end > leg.start), "{leg:?}");
    }
    // Half of the time has the part of the path that lies in it.
    let half = [window[0], window[0] + Time((window[1] - window[0]).0 / 2)];
    let path = replay.watch_path(half, ran.stepping, |_| ()).expect("it ends");
    assert_eq!(path.iter().map(|leg| (leg.lane, us(leg.end))).collect::<Vec<_>>(), [(0, 300.0)]);
}

#[test]
fn a_full_queue_stalls_the_host() {
    let mut text = Text::default();
    text.step(1, [0.0, 600.0]);
    idle_launches(&mut text, 1, 0.0);
    // Ten launches in a row, each 5; kernels of 50 behind each other.
    for n in 0..10 {
        let (at, begin) = (400.0 + 5.0 * f64::from(n), 410.0 + 50.0 * f64::from(n));
        text.kernel(10 + n, 1, [at, 5.0], 7, [begin, 50.0]);
    }
    let traced = text.traced();
    assert_eq!(us(replay(&traced, QUEUE).expect("it ends").steps[0].replayed), 600.0);
    // With two waiting, the tenth launch waits until the eighth kernel begins, at 410 + 7 x 50 =
    // 760 less nothing: after it 5 of the call, and 150 to the end of the step.
    let stalled = replay(&traced, 2).expect("it ends");
    assert_eq!(us(stalled.steps[0].replayed), 760.0 + 5.0 + 150.0);
    let host = &stalled.lanes[0].spent;
    assert!(host.iter().any(|(cause, _)| cause == "launch queue full"), "{host:?}");
}

#[test]
fn a_thread_that_works_in_the_gaps_of_another_is_let_and_awaited() {
    let mut text = Text::default();
    text.step(1, [0.0, 1_000.0]);
    idle_launches(&mut text, 1, 0.0);
    // Thread 2 works from 420 to 700, thread 1 again from 720 on.
    for n in 0..3 {
        let at = 420.0 + 100.0 * f64::from(n);
        text.kernel(20 + n, 2, [at, 80.0], 7, [at + 10.0, 20.0]);
    }
    text.kernel(30, 1, [720.0, 5.0], 7, [730.0, 20.0]);
    let mut traced = text.traced();
    assert_eq!(traced.findings.handoffs, 1);
    let takes = |items: &[HostItem]| items.iter().filter(|item| matches!(item, HostItem::Take(..))).count();
    assert_eq!(traced.lanes.threads.iter().map(|thread| takes(&thread.items)).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(us(replayed(&traced).steps[0].replayed), 1_000.0);
    // Hosts of half the time: all of it is theirs.
    workloads::trace::changes::Change::Host(0.5).apply(&mut traced);
    assert_eq!(us(replayed(&traced).steps[0].replayed), 500.0);
}

#[test]
fn waits_of_streams_come_from_their_events_where_the_trace_has_them() {
    let mut text = Text::default();
    text.step(1, [0.0, 800.0]);
    idle_launches(&mut text, 1, 0.0);
    text.kernel(10, 1, [400.0, 5.0], 7, [410.0, 200.0]);
    text.call("cudaEventRecord", 11, 1, [406.0, 1.0]);
    text.call("cudaStreamWaitEvent", 12, 1, [408.0, 1.0]);
    text.kernel(13, 1, [410.0, 5.0], 9, [612.0, 30.0]);
    let inferred = text.traced();
    assert_eq!((inferred.findings.inferred_waits, inferred.findings.recorded_waits), (1, 0));
    let args =
        r#""correlation":12,"device":0,"stream":9,"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":11"#;
    text.event("cuda_sync", "Stream Wait Event", (0, 9), [612.0, 0.0], args);
    let recorded = text.traced();
    assert_eq!((recorded.findings.inferred_waits, recorded.findings.recorded_waits), (0, 1));
    assert_eq!(inferred.lanes.streams[1].items[0].after, recorded.lanes.streams[1].items[0].after);
    assert_eq!(recorded.lanes.streams[1].items[0].after[0].number, 4);
}

#[test]
fn a_kernel_that_fills_the_device_is_in_the_way_of_other_streams() {
    let device = r#""deviceProperties":[{"id":0,"name":"a","numSms":10,"maxThreadsPerMultiprocessor":1024,
        "regsPerMultiprocessor":65536,"sharedMemPerMultiprocessor":65536}],"#;
    let shape = |blocks: u32| {
        format!(r#","grid":[{blocks},1,1],"block":[256,1,1],"registers per thread":32,"shared memory":0"#)
    };
    let mut text = Text::default();
    text.step(1, [0.0, 2_000.0]);
    idle_launches(&mut text, 1, 0.0);
    // 400 blocks, of which 40 are resident: 10 waves. The other is launched 5 later, and begins
    // when the first ends.
    for (number, at, stream, kernel, blocks) in
        [(10, 500.0, 7, [510.0, 600.0], 400), (11, 505.0, 9, [1_110.0, 100.0], 4)]
    {
        text.call("cudaLaunchKernel", number, 1, [at, 5.0]);
        let args = format!(r#""correlation":{number},"device":0,"stream":{stream}{}"#, shape(blocks));
        text.event("kernel", "k", (0, stream), kernel, &args);
    }
    text.call("cudaDeviceSynchronize", 12, 1, [510.0, 705.0]);
    let traced = |device: &str| {
        let json = text.json().replacen('{', &format!("{{{device}"), 1);
        workloads::trace::Traced::of(workloads::trace::kineto::read(json.as_bytes()).expect("a trace"))
    };
    assert_eq!(us(replayed(&traced(device)).steps[0].replayed), 2_000.0);
    // A device that is not described has room for both: the step ends when the first kernel has.
    assert_eq!(us(replayed(&traced("")).steps[0].replayed), 1_900.0);
}
