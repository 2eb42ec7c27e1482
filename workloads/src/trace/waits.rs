//! Waits of streams for each other.
//!
//! Where a trace has the events of `cudaStreamWaitEvent` the wait is known. Elsewhere it is
//! inferred from the order of calls: the stream of the next launch of that thread waits, for
//! another stream's last activity that was launched before and had ended by then.

use std::collections::BTreeMap;

use super::constants::Constants;
use super::launches::{CallKind, Launches};
use super::recording::{RecordedWait, Recording};
use super::traced::{Findings, time};
use crate::lanes::DeviceStream;

/// Tolerance of times that are whole microseconds, each rounded by itself (ns).
pub(super) const ROUNDING: i64 = 1_000;

/// Delay of an activity that is more than scatter of its launch (ns).
const LATE: i64 = 20_000;

/// Adds what activities wait for to the `streams` of a recording.
pub(super) fn add(
    recording: &Recording,
    launches: &Launches,
    constants: &Constants,
    streams: &mut [DeviceStream],
    findings: &mut Findings,
) {
    let mut earliest = earliest(recording, launches, constants);
    let mut next: BTreeMap<u32, u32> = BTreeMap::new();
    // From the last call to the first: what each thread launches next.
    let mut waits = Vec::new();
    for (call, event) in recording.calls.iter().enumerate().rev() {
        let call = call as u32;
        if let Some(&first) = launches.of_call(call).first() {
            next.insert(event.thread, first);
        } else if CallKind::of(recording, event) == CallKind::LetStreamWait {
            waits.push((call, next.get(&event.thread).copied()));
        }
    }
    let mut awaited: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (call, waiting) in waits.into_iter().rev() {
        let event = &recording.calls[call as usize];
        let known = launches.recorded_wait(recording, event);
        let waiting = match known.and_then(|wait| wait.waiting) {
            Some(stream) => first_after(recording, launches, stream, event.begin),
            None => waiting,
        };
        let Some(waiting) = waiting else { continue };
        let place = launches.places[waiting as usize];
        let begin = recording.activities[waiting as usize].begin;
        let found = match known {
            Some(wait) => target(recording, launches, wait, begin),
            None => {
                let is_late = begin - earliest[waiting as usize] > LATE;
                let others = (0..launches.streams.len()).filter(|&stream| stream != place.stream as usize);
                let candidates = others.filter_map(|stream| {
                    let last = launches.last_before(
                        recording,
                        stream,
                        event.begin,
                        begin.saturating_add(ROUNDING),
                    )?;
                    let number = launches.places[last as usize].number;
                    let before = awaited.get(&(place.stream, stream as u32));
                    before.is_none_or(|&before| before < number).then_some(last)
                });
                candidates.max_by_key(|&id| match is_late {
                    true => recording.activities[id as usize].end,
                    false => launches.call_of(id).map_or(0, |call| recording.calls[call as usize].begin),
                })
            }
        };
        let Some(found) = found else { continue };
        match known {
            Some(_) => findings.recorded_waits += 1,
            None => findings.inferred_waits += 1,
        }
        let target = launches.places[found as usize];
        awaited.insert((place.stream, target.stream), target.number);
        streams[place.stream as usize].items[place.number as usize].after.push(target);
        let moment = &mut earliest[waiting as usize];
        *moment = (*moment).max(recording.activities[found as usize].end);
    }
    for (activity, earliest) in recording.activities.iter().zip(earliest) {
        let late = activity.begin - earliest;
        if late > LATE {
            let (count, total) = &mut findings.unexplained;
            *count += 1;
            *total += time(late);
        }
    }
}

/// When each activity might have begun by its stream and its launch (ns).
fn earliest(recording: &Recording, launches: &Launches, constants: &Constants) -> Vec<i64> {
    let mut earliest = vec![i64::MIN; recording.activities.len()];
    for (ids, gap) in launches.by_stream.iter().zip(&constants.gaps) {
        let mut free = i64::MIN;
        for &id in ids {
            let activity = &recording.activities[id as usize];
            let launch = launches.call_of(id).map_or(activity.begin, |call| {
                recording.calls[call as usize].begin.saturating_add(constants.latency(activity))
            });
            earliest[id as usize] = free.max(launch);
            free = activity.end.saturating_add(*gap);
        }
    }
    earliest
}

/// The first activity that was launched on a stream after a moment.
fn first_after(recording: &Recording, launches: &Launches, stream: (i64, i64), moment: i64) -> Option<u32> {
    let stream = launches.streams.binary_search(&stream).ok()?;
    let launched = |id: &&u32| {
        let call = launches.call_of(**id);
        call.is_some_and(|call| recording.calls[call as usize].begin >= moment)
    };
    let ids = &launches.by_stream[stream];
    let from = ids.partition_point(|&id| recording.activities[id as usize].begin < moment);
    ids[from..].iter().find(launched).copied()
}

/// The activity that a recorded wait is for, if it had ended by a moment.
pub(super) fn target(
    recording: &Recording,
    launches: &Launches,
    wait: &RecordedWait,
    ended: i64,
) -> Option<u32> {
    let stream = launches.streams.binary_search(&wait.stream?).ok()?;
    let record = launches.correlated(wait.event.unwrap_or(wait.correlation))?;
    let launched = recording.calls[record as usize].begin;
    launches.last_before(recording, stream, launched, ended.saturating_add(ROUNDING))
}
