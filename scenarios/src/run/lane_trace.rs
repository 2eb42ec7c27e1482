//! Traces of threads and streams of devices for viewers: replays and executed programs.

use std::collections::BTreeMap;

use reports::trace::{Arrow, Process, Slice, Tracer, Track};
use sim_core::time::Time;
use workloads::lanes::{LaneEvent, NameId, Simulation};
use workloads::trace::{Traced, replay};

/// Process of threads.
const HOST: &str = "host";

/// Writes the replay of a trace whose streams have at most `queue` launches waiting.
///
/// # Errors
/// A mistake in foretrain, in words.
pub fn trace_replay(traced: &Traced, queue: u64, tracer: &mut dyn Tracer) -> Result<(), String> {
    let replay = replay::simulation(traced, queue, 0);
    write(&replay, traced.lanes.names(), |name| Some(traced.names.name(name)), tracer)
}

/// Writes lanes of these names; `label` gives the words of an activity with a name.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn write<'n>(
    simulation: &Simulation<'_>,
    names: impl Iterator<Item = String>,
    label: impl Fn(NameId) -> Option<&'n str>,
    tracer: &mut dyn Tracer,
) -> Result<(), String> {
    let mut processes: BTreeMap<String, Process> = BTreeMap::new();
    let mut tracks: Vec<(Track, Vec<Arrow>)> = Vec::new();
    for name in names {
        let (device, lane) = name.split_once('.').unwrap_or((HOST, &name));
        let process = *processes.entry(device.to_owned()).or_insert_with(|| tracer.process(device));
        tracks.push((tracer.track(process, lane), Vec::new()));
    }
    let mut until = Time::ZERO;
    let watched = simulation.watch_all([Time::ZERO, Time::LAST], |event| match event {
        LaneEvent::Arrow(arrow) if arrow.from != arrow.to => {
            let is_launch = arrow.from < arrow.to;
            let name = tracer.word(if is_launch { "launch" } else { "end" });
            let begun = tracer.depart(tracks[arrow.from].0, arrow.departure.0, name);
            tracks[arrow.to].1.push(begun);
        }
        LaneEvent::Arrow(_) => {}
        LaneEvent::Span(span) => {
            until = until.max(span.end);
            let category = tracer.word(span.cause);
            let name = span.name.and_then(&label).map_or(category, |name| tracer.word(name));
            let (track, arrows) = &mut tracks[span.lane];
            let slice = Slice { name, category, details: &[], arrows };
            tracer.begin(*track, span.start.0, &slice);
            tracer.end(*track, span.end.0);
            arrows.clear();
        }
    });
    for (track, arrows) in tracks {
        arrows.into_iter().for_each(|arrow| tracer.arrive(track, until.0, arrow));
    }
    watched.map_err(|error| error.to_string())
}
