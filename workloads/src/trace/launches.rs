//! Launches: activities by stream, and by the call that has their correlation.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::recording::{HostEvent, RecordedWait, Recording};
use super::traced::Findings;
use crate::lanes::ActivityRef;

/// Calls and activities of a recording, each by the other.
#[derive(Debug)]
pub(super) struct Launches {
    /// Device and number of each stream, ascending.
    pub(super) streams: Vec<(i64, i64)>,
    /// Activities by stream, in order.
    pub(super) by_stream: Vec<Vec<u32>>,
    /// By activity, where it stands.
    pub(super) places: Vec<ActivityRef>,
    /// By activity, the call that launched it.
    calls: Vec<Option<u32>>,
    /// By call, the activities that it launched, by begin.
    launched: BTreeMap<u32, Vec<u32>>,
    /// By correlation, the call.
    by_correlation: BTreeMap<u64, u32>,
    /// By correlation of the call, a recorded wait: index into [`Recording::waits`].
    waits: BTreeMap<u64, u32>,
}

impl Launches {
    pub(super) fn of(recording: &Recording, findings: &mut Findings) -> Self {
        let mut by_correlation = BTreeMap::new();
        for (call, event) in (0u32..).zip(&recording.calls) {
            let Some(correlation) = event.correlation else { continue };
            match by_correlation.entry(correlation) {
                Entry::Occupied(_) => findings.duplicates += 1,
                Entry::Vacant(free) => _ = free.insert(call),
            }
        }
        let mut numbers: BTreeMap<(i64, i64), Vec<u32>> = BTreeMap::new();
        let mut calls = Vec::with_capacity(recording.activities.len());
        let mut launched: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (id, activity) in (0u32..).zip(&recording.activities) {
            numbers.entry(activity.stream).or_default().push(id);
            let call = activity.correlation.and_then(|it| by_correlation.get(&it).copied());
            // What begins before the call that is said to have launched it has another one's
            // correlation.
            let call = call.filter(|&call| recording.calls[call as usize].begin <= activity.begin);
            calls.push(call);
            match call {
                Some(call) => launched.entry(call).or_default().push(id),
                None => findings.not_launched += 1,
            }
        }
        let lost = recording.calls.iter().zip(0u32..).filter(|(event, call)| {
            !launched.contains_key(call) && recording.names.name(event.name).contains("LaunchKernel")
        });
        findings.launches_without_activity = lost.count() as u64;
        let mut places = vec![ActivityRef { stream: 0, number: 0 }; recording.activities.len()];
        for (stream, ids) in (0u32..).zip(numbers.values()) {
            for (number, &id) in (0u32..).zip(ids) {
                places[id as usize] = ActivityRef { stream, number };
            }
        }
        let (streams, by_stream) = numbers.into_iter().unzip();
        let waits = recording.waits.iter().zip(0..).map(|(wait, number)| (wait.correlation, number));
        Self { streams, by_stream, places, calls, launched, by_correlation, waits: waits.collect() }
    }

    /// The call that launched an activity.
    pub(super) fn call_of(&self, activity: u32) -> Option<u32> {
        self.calls[activity as usize]
    }

    /// The activities that a call launched, by begin.
    pub(super) fn of_call(&self, call: u32) -> &[u32] {
        self.launched.get(&call).map_or(&[], Vec::as_slice)
    }

    /// The call with a correlation.
    pub(super) fn correlated(&self, correlation: u64) -> Option<u32> {
        self.by_correlation.get(&correlation).copied()
    }

    /// The recorded wait of a call.
    pub(super) fn recorded_wait<'a>(
        &self,
        recording: &'a Recording,
        call: &HostEvent,
    ) -> Option<&'a RecordedWait> {
        let number = self.waits.get(&call.correlation?)?;
        Some(&recording.waits[*number as usize])
    }

    /// The last activity of a stream that was launched before a moment and had ended by another
    /// (ns).
    pub(super) fn last_before(
        &self,
        recording: &Recording,
        stream: usize,
        launched: i64,
        ended: i64,
    ) -> Option<u32> {
        let ids = &self.by_stream[stream];
        let upper = ids.partition_point(|&id| recording.activities[id as usize].begin < ended);
        let before = |id: &&u32| {
            let activity = &recording.activities[**id as usize];
            let call = self.call_of(**id).map(|call| recording.calls[call as usize].begin);
            activity.end <= ended && call.unwrap_or(activity.begin) < launched
        };
        ids[..upper].iter().rev().find(before).copied()
    }
}

/// A kind of calls of the runtime, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Waits for all that a device does.
    WaitForDevice,
    /// Waits for a stream or an event.
    WaitForStream,
    /// Lets a stream wait for an event.
    LetStreamWait,
    /// Anything else: it takes its time, and launches what has its correlation.
    Other,
}

impl CallKind {
    pub(super) fn of(recording: &Recording, call: &HostEvent) -> Self {
        match recording.names.name(call.name) {
            "cudaDeviceSynchronize"
            | "cuCtxSynchronize"
            | "hipDeviceSynchronize"
            | "cudaFree"
            | "hipFree" => Self::WaitForDevice,
            "cudaStreamSynchronize"
            | "cuStreamSynchronize"
            | "hipStreamSynchronize"
            | "cudaEventSynchronize"
            | "cuEventSynchronize"
            | "hipEventSynchronize" => Self::WaitForStream,
            "cudaStreamWaitEvent" | "cuStreamWaitEvent" | "hipStreamWaitEvent" => Self::LetStreamWait,
            _ => Self::Other,
        }
    }
}
