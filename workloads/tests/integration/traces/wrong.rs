//! Files that are no traces, or not whole, or lie.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use workloads::lanes::LanesError;
use workloads::trace::kineto::{self, KinetoError};
use workloads::trace::{Traced, replay};

use super::{QUEUE, Text};

fn trace() -> Text {
    let mut text = Text::default();
    text.step(1, [0.0, 400.0]);
    for n in 0..4 {
        let at = 100.0 * f64::from(n);
        text.kernel(n + 1, 1, [at, 5.0], 7, [at + 10.0, 20.0]);
    }
    text
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

#[test]
fn packed_files_are_the_same_trace() {
    let json = trace().json();
    let plain = kineto::read(json.as_bytes()).expect("a trace");
    let zstd = compress_to_vec(json.as_bytes(), CompressionLevel::Fastest);
    for packed in [gzip(json.as_bytes()), zstd] {
        let found = kineto::read(&packed[..]).expect("a trace");
        assert_eq!((found.activities, found.calls), (plain.activities.clone(), plain.calls.clone()));
    }
}

#[test]
fn dialects_say_the_same() {
    let new = trace().json();
    let old = new
        .replace("cuda_runtime", "Runtime")
        .replace("\"kernel\"", "\"Kernel\"")
        .replace("user_annotation", "Operator")
        .replace("\"tid\":7", "\"tid\":\"stream 7\"");
    let [new, old] = [new, old].map(|json| Traced::of(kineto::read(json.as_bytes()).expect("a trace")));
    assert_eq!(new.recorded_steps, old.recorded_steps);
    assert_eq!(new.lanes.streams[0].items, old.lanes.streams[0].items);
    assert_eq!(new.lanes.threads[0].items, old.lanes.threads[0].items);
}

#[test]
fn what_breaks_off_is_read_as_far_as_it_goes() {
    let json = trace().json();
    let cut = kineto::read(&json.as_bytes()[..json.len() * 3 / 4]).expect("a part of a trace");
    assert!(cut.counts.truncated.is_some_and(|why| why.contains("line")));
    assert!((1..4).contains(&cut.activities.len()));
    let packed = gzip(json.repeat(50).as_bytes());
    assert!(kineto::read(&packed[..packed.len() / 8]).is_err() || packed.len() < 100);
}

#[test]
fn foreign_files_are_refused() {
    let nothing = |text: &str| matches!(kineto::read(text.as_bytes()), Err(KinetoError::Nothing));
    assert!(nothing("[]") && nothing("{}") && nothing(r#"{"traceEvents":[]}"#));
    assert!(nothing(r#"[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]"#));
    for text in ["", "hello", "12", "null", "\u{1f}", "{\"traceEvents\":7}", &"[".repeat(100_000)] {
        assert!(matches!(kineto::read(text.as_bytes()), Err(KinetoError::Syntax(_))), "{text:.20}");
    }
    let deep = format!(r#"{{"a":{}}}"#, "[".repeat(100_000));
    assert!(matches!(kineto::read(deep.as_bytes()), Err(KinetoError::Syntax(_))));
}

#[test]
fn events_that_lie_are_counted() {
    let mut text = trace();
    let kernel = |number: u32| format!(r#""correlation":{number},"device":0,"stream":7"#);
    text.event("kernel", "negative", (0, 7), [10.0, -5.0], &kernel(50));
    text.event("kernel", "far", (0, 7), [1e12, 5.0], &kernel(51));
    text.event("kernel", "nobody launched it", (0, 7), [390.0, 5.0], &kernel(52));
    text.event("kernel", "long before its launch", (0, 7), [1.0, 1.0], &kernel(3));
    text.call("cudaLaunchKernel", 60, 1, [395.0, 1.0]);
    text.call("cudaLaunchKernel", 1, 1, [397.0, 1.0]);
    text.events += r#",{"ph":"X","cat":"kernel","name":"no times","pid":0,"tid":7}"#;
    text.events +=
        r#",{"ph":"X","cat":"kernel","name":"odd","pid":{},"tid":[],"ts":"x","dur":null,"args":3}"#;
    text.events += r#",{"ph":7,"cat":[1],"name":{},"args":null},{}"#;
    let recording = text.recording();
    let refused: u64 = recording.counts.refused.values().sum();
    assert_eq!(refused, 4, "{:?}", recording.counts.refused);
    let traced = Traced::of(recording);
    let found = &traced.findings;
    assert_eq!((found.not_launched, found.duplicates, found.launches_without_activity), (2, 1, 2));
    replay(&traced, QUEUE).expect("what is left can be replayed");
}

#[test]
fn more_lanes_than_a_program_has_are_left_out() {
    let mut text = trace();
    for stream in 0..5_000 {
        text.kernel(100 + stream, 1, [500.0, 1.0], 100 + stream, [510.0, 1.0]);
    }
    let recording = text.recording();
    assert_eq!(recording.counts.refused.get("more streams than a program has"), Some(&905));
    Traced::of(recording);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Changed bytes cause no panic: what is read can be replayed or is refused.
    #[test]
    fn changed_bytes_are_no_harm(changes in prop::collection::vec((0usize..2_000, any::<u8>()), 1..8)) {
        let mut bytes = trace().json().into_bytes();
        let count = bytes.len();
        for (at, byte) in changes {
            bytes[at % count] = byte;
        }
        if let Ok(recording) = kineto::read(&bytes[..]) {
            let _ = replay(&Traced::of(recording), QUEUE);
        }
    }

    /// Random calls and kernels of two threads and three streams end, or are said to contradict
    /// each other.
    #[test]
    fn any_events_end(
        events in prop::collection::vec(
            (0u32..3, 0u32..6, 0u32..40, 1u32..3, 0.0..1_000.0f64, 0.0..100.0f64), 1..60,
        ),
    ) {
        let mut text = Text::default();
        text.step(1, [0.0, 500.0]);
        for (stream, kind, correlation, thread, begin, duration) in events {
            let times = [begin, duration];
            match kind {
                0 | 1 => text.kernel(correlation, thread, times, stream, [begin + 10.0, duration]),
                2 => text.call("cudaStreamWaitEvent", correlation, thread, times),
                3 => text.call("cudaStreamSynchronize", correlation, thread, times),
                4 => text.call("cudaDeviceSynchronize", correlation, thread, times),
                _ => text.event("cpu_op", "op", (100, thread), times, ""),
            }
        }
        if let Ok(recording) = kineto::read(text.json().as_bytes()) {
            let traced = Traced::of(recording);
            let found = replay(&traced, QUEUE);
            prop_assert!(!matches!(found, Err(LanesError::Broken(_))), "{found:?}");
        }
    }
}
