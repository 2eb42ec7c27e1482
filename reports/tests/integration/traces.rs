//! Traces for viewers: what is written can be read again.

use prost::Message;
use reports::trace::proto::{EventType, Trace, TrackEvent, Value};
use reports::trace::{Chrome, Detail, Perfetto, Slice, Tracer, Unit};
use serde_json::Value as Json;

/// Two ranks: the first works within a visit and sends to the second; then the memory of the first
/// shrinks.
fn write(tracer: &mut dyn Tracer) {
    let [visit, work, sent, bytes] =
        ["visit", "work", "send", "bytes \"<of>\""].map(|text| tracer.word(text));
    let [first, second] = ["rank 0", "rank 1"].map(|name| tracer.process(name));
    let [here, there] = [first, second].map(|process| tracer.track(process, "compute"));
    let memory = tracer.counter(first, "memory", Unit::Bytes);
    let slice = |name, details| Slice { name, category: work, details, arrows: &[] };
    tracer.begin(here, 1_499, &slice(visit, &[]));
    let (whole, number) =
        ([(bytes, Detail::Whole(7)), (work, Detail::Text(sent))], [(bytes, Detail::Number(0.5))]);
    tracer.begin(here, 1_500, &slice(work, &whole));
    tracer.value(memory, 2_000, 3e9);
    tracer.end(here, 10_000);
    let arrow = tracer.depart(here, 10_000, sent);
    tracer.end(here, 12_000);
    tracer.begin(there, 15_000, &Slice { arrows: &[arrow], ..slice(work, &number) });
    tracer.end(there, 16_000);
    let lost = tracer.depart(there, 16_000, sent);
    tracer.arrive(here, 17_000, lost);
    tracer.value(memory, 18_000, 1.5);
    tracer.finish().expect("a vector takes every byte");
}

#[test]
fn protobuf_has_slices_within_slices_arrows_and_counters() {
    let mut out = Vec::new();
    write(&mut Perfetto::new(&mut out));
    let trace = Trace::decode(&out[..]).expect("a trace");
    assert!(trace.packet.iter().all(|packet| packet.trusted_packet_sequence_id == Some(1)));
    let flags: Vec<_> = trace.packet.iter().map(|packet| packet.sequence_flags.unwrap_or(0)).collect();
    assert_eq!((flags[0], flags[1..].iter().max()), (3, Some(&2)), "texts start anew once");
    let tracks: Vec<_> = trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref()).collect();
    assert_eq!(tracks.len(), 5);
    assert_eq!(tracks[2].parent_uuid, tracks[0].uuid);
    let texts =
        |packet: &reports::trace::proto::TracePacket| packet.interned_data.clone().unwrap_or_default();
    let names: Vec<_> = trace.packet.iter().flat_map(|packet| texts(packet).event_names).collect();
    assert_eq!(names.len(), 3, "each is told once");
    let events: Vec<(u64, &TrackEvent)> = trace
        .packet
        .iter()
        .filter_map(|packet| Some((packet.timestamp?, packet.track_event.as_ref()?)))
        .collect();
    let kinds: Vec<_> = events.iter().map(|(at, event)| (*at, event.r#type())).collect();
    let expected = [
        (1, EventType::SliceBegin),
        (2, EventType::SliceBegin),
        (2, EventType::Counter),
        (10, EventType::SliceEnd),
        (10, EventType::Instant),
        (12, EventType::SliceEnd),
        (15, EventType::SliceBegin),
        (16, EventType::SliceEnd),
        (16, EventType::Instant),
        (17, EventType::Instant),
        (18, EventType::Counter),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(events[4].1.flow_ids, events[6].1.terminating_flow_ids);
    assert_eq!(events[8].1.flow_ids, events[9].1.terminating_flow_ids);
    assert_eq!(events[2].1.counter_value, Some(3_000_000_000));
    assert_eq!(events[10].1.double_counter_value, Some(1.5));
    let values: Vec<_> = events[1].1.debug_annotations.iter().map(|it| it.value.clone()).collect();
    assert_eq!(values, [Some(Value::UintValue(7)), Some(Value::StringValueIid(3))]);
}

#[test]
fn json_has_the_same() {
    let mut out = Vec::new();
    write(&mut Chrome::new(&mut out));
    let events: Vec<Json> = serde_json::from_slice(&out).expect("JSON");
    let phase = |wanted: &str| events.iter().filter(|event| event["ph"] == wanted).collect::<Vec<_>>();
    assert_eq!((phase("M").len(), phase("B").len(), phase("E").len()), (4, 3, 3));
    assert_eq!(phase("B")[1]["args"]["bytes \"<of>\""], 7);
    assert_eq!(phase("B")[1]["ts"], 0.0015);
    let ids = |phase: &[&Json]| phase.iter().map(|event| event["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&phase("s")), ids(&phase("f")));
    assert_eq!(phase("C")[0]["args"]["value"], 3e9);
    let mut empty = Vec::new();
    Chrome::new(&mut empty).finish().expect("a vector takes every byte");
    assert_eq!(serde_json::from_slice::<Vec<Json>>(&empty).expect("JSON"), Vec::<Json>::new());
}

/// The first error of the writer is told at the end.
#[test]
fn a_full_disk_is_told() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for tracer in [&mut Perfetto::new(Full) as &mut dyn Tracer, &mut Chrome::new(Full)] {
        tracer.process("rank 0");
        let error = tracer.finish().expect_err("there is no room");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }
}
