//! Constants of the device that recorded a trace: how soon a launch takes effect, and how soon an
//! activity follows another. They are medians over activities that waited for nothing else.

use std::collections::BTreeMap;

use super::launches::Launches;
use super::recording::{ActivityKind, DeviceEvent, NameId, Recording};
use super::skew::Shortest;

/// Time by which a launch has to come before the end of the activity before it to be sure that it
/// waited behind that (ns).
const EARLY: i64 = 20_000;

/// Least samples of a median.
const SAMPLES_MIN: usize = 4;

/// Latency of a launch where the trace shows no idle stream: the least of the A100 trace in
/// `tests/data/traces` (ns).
const USUAL_LATENCY: i64 = 6_000;

/// Gap between kernels where the trace shows no kernel that waits behind another: the least of the
/// A100 traces in `tests/data/traces` (ns).
const USUAL_GAP: i64 = 1_000;

/// Activities that are launched alike: their kind, and the name of a copy.
type LaunchClass = (ActivityKind, Option<NameId>);

#[derive(Debug)]
pub(super) struct Constants {
    /// By stream, from the end of an activity to the begin of one behind it (ns).
    pub(super) gaps: Vec<i64>,
    /// By class, from the begin of a call to that of what it launches on a stream that is idle
    /// (ns).
    latencies: BTreeMap<LaunchClass, i64>,
    usual_latency: i64,
    shortest: Shortest,
}

impl Constants {
    pub(super) fn of(recording: &Recording, launches: &Launches) -> Self {
        let mut latencies: BTreeMap<LaunchClass, Vec<i64>> = BTreeMap::new();
        let mut gaps: Vec<Vec<i64>> = vec![Vec::new(); launches.streams.len()];
        for (stream, ids) in launches.by_stream.iter().enumerate() {
            let mut free = i64::MIN;
            for &id in ids {
                let activity = &recording.activities[id as usize];
                let call = launches.call_of(id).filter(|&call| launches.of_call(call).len() == 1);
                if let Some(call) = call.map(|call| recording.calls[call as usize]) {
                    if call.begin > free {
                        latencies.entry(class(activity)).or_default().push(activity.begin - call.begin);
                    } else if call.end.saturating_add(EARLY) < free {
                        gaps[stream].push(activity.begin - free);
                    }
                }
                free = free.max(activity.end);
            }
        }
        let kernels: Vec<i64> = latencies
            .iter()
            .filter(|((kind, _), _)| *kind == ActivityKind::Kernel)
            .flat_map(|(_, all)| all.iter().copied())
            .collect();
        let all_gaps: Vec<i64> = gaps.iter().flatten().copied().collect();
        let usual_gap = middle(all_gaps).unwrap_or(USUAL_GAP);
        let mut shortest = Shortest::default();
        for activity in recording.activities.iter().filter(|it| it.kind == ActivityKind::Collective) {
            shortest.add((activity.name, activity.bytes), duration(activity));
        }
        Self {
            gaps: gaps.into_iter().map(|gaps| middle(gaps).unwrap_or(usual_gap)).collect(),
            latencies: latencies.into_iter().filter_map(|(class, all)| Some((class, median(all)?))).collect(),
            usual_latency: median(kernels).unwrap_or(USUAL_LATENCY),
            shortest,
        }
    }

    /// From the begin of the call that launches an activity to its earliest begin (ns).
    pub(super) fn latency(&self, activity: &DeviceEvent) -> i64 {
        self.latencies.get(&class(activity)).copied().unwrap_or(self.usual_latency)
    }

    /// The part of a collective's time in which it waits for its peers (ns): what others of its
    /// kind and size do not take.
    pub(super) fn skew(&self, activity: &DeviceEvent) -> i64 {
        match activity.kind {
            ActivityKind::Collective => {
                self.shortest.beyond((activity.name, activity.bytes), duration(activity)) as i64
            }
            _ => 0,
        }
    }
}

fn duration(activity: &DeviceEvent) -> u64 {
    activity.end.saturating_sub(activity.begin).max(0) as u64
}

/// Copies are launched alike if they go the same way between memories of the same kinds, as their
/// names say.
fn class(activity: &DeviceEvent) -> LaunchClass {
    (activity.kind, (activity.kind == ActivityKind::Copy).then_some(activity.name))
}

fn median(mut samples: Vec<i64>) -> Option<i64> {
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    let half = samples.len() / 2;
    Some(*samples.select_nth_unstable(half).1)
}

/// The mean of the middle half: times of many traces are whole microseconds, so that a median would
/// be one too.
fn middle(mut samples: Vec<i64>) -> Option<i64> {
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    samples.sort_unstable();
    let half = &samples[samples.len() / 4..samples.len() - samples.len() / 4];
    Some(half.iter().sum::<i64>() / half.len() as i64)
}
