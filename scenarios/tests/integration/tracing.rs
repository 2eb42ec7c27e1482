//! Traces for viewers hold the numbers of the results.

use std::collections::BTreeMap;

use prost::Message;
use reports::summary::RunSummary;
use reports::trace::proto::{EventType, Trace, TrackEvent};
use reports::trace::{Perfetto, Tracer};
use scenarios::run::trace;

use crate::support::{read, run};

/// Four stages of eight data ranks, of which one step is simulated.
const PIPELINE: &str = "
name: test
machine: { cluster: { node: dgx-a100-80g, count: 4 } }
model: { transformer: { layers: 8, hidden: 2048, heads: 16, vocabulary: 1000, max_positions: 1024 } }
training: { global_batch: 64, micro_batch: 2, sequence: 1024, precision: bf16-mixed }
parallelism: { pipeline: 4, schedule: 1f1b }
run: { steps: { warm_up: 0, measured: 1 } }
";

/// Activations leave eight GPUs, two of which share a way to the host.
const SWAPPED: &str = "
name: test
machine: { cluster: { node: dgx-a100-80g, count: 1 } }
model: { transformer: { layers: 8, hidden: 2048, heads: 16, vocabulary: 1000, max_positions: 1024 } }
training: { global_batch: 64, micro_batch: 2, sequence: 1024, precision: bf16-mixed }
techniques: { activation_offload: {} }
run: { steps: { warm_up: 0, measured: 1 } }
";

/// Contents of a track.
#[derive(Debug, Default)]
struct Decoded {
    /// Nanoseconds by category of the innermost slices.
    busy: BTreeMap<String, u64>,
    slices: u64,
    /// True once its first message has come: results count time from there on.
    is_begun: bool,
    /// Value from a time on.
    values: Vec<(u64, f64)>,
    /// Names of arrows that leave it.
    arrows: Vec<String>,
}

/// Reads a trace, by process and track; checks that slices nest and arrows have both ends.
fn decoded(bytes: &[u8]) -> BTreeMap<(String, String), Decoded> {
    let trace = Trace::decode(bytes).expect("a trace");
    let (mut texts, mut categories) = (BTreeMap::new(), BTreeMap::new());
    let (mut processes, mut tracks) = (BTreeMap::new(), BTreeMap::new());
    let mut all: BTreeMap<(String, String), Decoded> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<(u64, String, bool)>> = BTreeMap::new();
    let mut arrows: BTreeMap<u64, [Option<u64>; 2]> = BTreeMap::new();
    for packet in trace.packet {
        let news = packet.interned_data.unwrap_or_default();
        texts.extend(news.event_names.into_iter().map(|text| (text.iid, text.name.unwrap_or_default())));
        categories
            .extend(news.event_categories.into_iter().map(|text| (text.iid, text.name.unwrap_or_default())));
        if let Some(track) = packet.track_descriptor {
            match track.process {
                Some(process) => processes.insert(track.uuid, process.process_name.unwrap_or_default()),
                None => tracks
                    .insert(
                        track.uuid,
                        (processes[&track.parent_uuid].clone(), track.name.unwrap_or_default()),
                    )
                    .map(|(process, _)| process),
            };
        }
        let (Some(event), at) = (packet.track_event, packet.timestamp.unwrap_or(0)) else { continue };
        let uuid = event.track_uuid.unwrap_or(0);
        let track = all.entry(tracks[&event.track_uuid].clone()).or_default();
        let open = open.entry(uuid).or_default();
        match event.r#type() {
            EventType::SliceBegin => {
                if let Some((begun, _, has_inner)) = open.last_mut() {
                    assert!(*begun <= at);
                    *has_inner = true;
                }
                open.push((at, categories[&Some(event.category_iids[0])].clone(), false));
                assert!(open.len() <= 2, "operators within visits");
                track.slices += 1;
                let begins = ["visit", "launch-bound"];
                track.is_begun |= open.last().is_some_and(|slice| begins.contains(&slice.1.as_str()));
            }
            EventType::SliceEnd => {
                let (begun, category, has_inner) = open.pop().expect("a slice");
                assert!(begun <= at);
                if !has_inner && track.is_begun {
                    *track.busy.entry(category).or_default() += at - begun;
                }
            }
            EventType::Counter => track.values.push((at, value(&event))),
            EventType::Instant => {
                track.arrows.extend(event.flow_ids.iter().map(|_| texts[&event.name_iid].clone()));
            }
            EventType::Unspecified => panic!("an event of no kind"),
        }
        for (ids, end) in [(&event.flow_ids, 0), (&event.terminating_flow_ids, 1)] {
            for id in ids {
                let known = arrows.entry(*id).or_default()[end].replace(at);
                assert_eq!(known, None, "an arrow has one begin and one end");
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    for [from, to] in arrows.values() {
        assert!(from.zip(*to).is_some_and(|(from, to)| from <= to), "{from:?} to {to:?}");
    }
    all
}

fn value(event: &TrackEvent) -> f64 {
    event.double_counter_value.unwrap_or(event.counter_value.unwrap_or(0) as f64)
}

fn traced(text: &str, settings: &[&str]) -> (RunSummary, BTreeMap<(String, String), Decoded>) {
    let experiment = read(text, settings).unwrap_or_else(|failure| panic!("{failure}"));
    let found = run(&experiment).variants.remove(0);
    let mut out = Vec::new();
    let mut tracer = Perfetto::new(&mut out);
    assert!(trace(&experiment, 1, &found, &mut tracer).expect("it is traced"), "it fits");
    tracer.finish().expect("a vector takes every byte");
    (found, decoded(&out))
}

/// The tracks of a name, by process without the number of ranks that it stands for.
fn named<'t>(tracks: &'t BTreeMap<(String, String), Decoded>, name: &str) -> BTreeMap<&'t str, &'t Decoded> {
    let named = tracks.iter().filter(|((_, track), _)| track == name);
    named.map(|((process, _), track)| (process.split(" (").next().unwrap_or(process), track)).collect()
}

/// Checks busy times and memory of every rank that results tell of.
fn check(found: &RunSummary, tracks: &BTreeMap<(String, String), Decoded>) {
    let computing = named(tracks, "compute");
    let all: Vec<(&str, &indexmap::IndexMap<String, f64>)> = match &found.ranks[..] {
        [] => vec![("stage 0", &found.time_breakdown_s)],
        ranks => ranks.iter().map(|rank| (rank.name.as_str(), &rank.time_breakdown_s)).collect(),
    };
    for (rank, breakdown) in all {
        let track = computing[rank];
        for (cause, &time) in breakdown.iter().filter(|(cause, _)| *cause != "idle at the end") {
            let busy = track.busy.get(cause).copied().unwrap_or(0) as f64 * 1e-9;
            // Begins and ends are rounded to nanoseconds.
            let rounding = track.slices as f64 * 1e-9;
            assert!((busy - time).abs() <= rounding, "{rank}: {cause} {busy} against {time}");
        }
    }
    let memory = named(tracks, "memory");
    for device in &found.peak_memory_bytes {
        let peak = memory[device.device.as_str()].values.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        assert_eq!(peak, device.peak_bytes as f64, "{}", device.device);
    }
}

#[test]
fn a_trace_has_the_times_and_the_peaks_of_the_results() {
    let (folded, tracks) = traced(PIPELINE, &[]);
    check(&folded, &tracks);
    assert!(tracks.keys().any(|(process, _)| process == "stage 3 (one of 8 ranks)"));
    let arrows = |track: &str| named(&tracks, track).values().map(|it| it.arrows.len()).sum::<usize>();
    assert!(arrows("host") > 8, "operators are launched");
    assert!(arrows("link[1]") >= 8, "each of eight micro-batches is sent");
    let (whole, tracks) = traced(PIPELINE, &["run.fold=never"]);
    check(&whole, &tracks);
    assert_eq!(named(&tracks, "compute").len(), 32);
}

#[test]
fn a_trace_counts_the_bytes_of_links() {
    let (found, tracks) = traced(PIPELINE, &["run.fold=never"]);
    let mut compared = 0;
    for link in &found.links {
        let Some(counter) = named(&tracks, &link.name).values().next().copied() else { continue };
        let carried: f64 =
            counter.values.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) as f64 * 1e-9).sum();
        let error = (carried - link.bytes as f64).abs() / link.bytes as f64;
        assert!(error < 1e-3, "{}: {carried} against {}", link.name, link.bytes);
        compared += 1;
    }
    assert!(compared >= 8, "{compared} links");
}

#[test]
fn a_trace_shows_copies_that_leave_and_return() {
    let (found, tracks) = traced(SWAPPED, &[]);
    check(&found, &tracks);
    for lane in ["offload", "reload"] {
        let lanes = named(&tracks, lane);
        let copied = lanes.values().filter_map(|track| track.busy.get("waiting for a transfer")).sum::<u64>();
        assert!(copied > 0, "{lane}: {lanes:?}");
    }
}
