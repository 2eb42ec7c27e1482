//! A recorded program: its lanes, and what was found on the way to them.
//!
//! When a device activity began is used to tell what it may have waited for, and for the medians of
//! latencies and gaps; it is not kept.

use std::collections::BTreeMap;

use sim_core::time::Time;

use super::constants::Constants;
use super::host;
use super::launches::Launches;
use super::recording::{Counts, DeviceFacts, Names, Recording};
use super::waits;
use crate::lanes::{DeviceItem, DeviceStream, Lanes};

/// A recorded program of one process.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// Its threads that launch, wait or begin steps, and its streams.
    pub lanes: Lanes,
    /// Names of activities.
    pub names: Names,
    /// Devices that are described.
    pub devices: BTreeMap<i64, DeviceFacts>,
    /// Rank of the process and number of ranks.
    pub rank: Option<(u64, u64)>,
    /// Recorded durations of steps; none where the trace has no steps.
    pub recorded_steps: Vec<Time>,
    /// Recorded time from the first begin to the last end. `None`: the file has no begins.
    pub recorded: Option<Time>,
    /// Findings on the way.
    pub findings: Findings,
}

/// Inferences from a recording, and what remains unexplained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Events of the file.
    pub counts: Counts,
    /// Waits of streams with the events that were recorded.
    pub recorded_waits: u64,
    /// Waits of streams inferred from the order of calls.
    pub inferred_waits: u64,
    /// Calls that block.
    pub blocking_calls: u64,
    /// Handoffs between threads, inferred from the gaps in which they work.
    pub handoffs: u64,
    /// Handoffs between threads by recorded dependencies.
    pub recorded_handoffs: u64,
    /// Dependencies of a graph on nodes that it does not have.
    pub missing_dependencies: u64,
    /// Dependencies of a graph that are circular, and are left out.
    pub circular_dependencies: u64,
    /// Nodes of a graph without a duration, which say their operations or bytes.
    pub untimed: u64,
    /// Nodes of a graph that do not say on which thread or stream they are.
    pub placed: u64,
    /// Activities without a call.
    pub not_launched: u64,
    /// Calls whose activities are missing.
    pub launches_without_activity: u64,
    /// Correlations that several calls have.
    pub duplicates: u64,
    /// Activities that began later than anything that was found explains, and by how much in all.
    pub unexplained: (u64, Time),
}

impl Findings {
    /// Findings beside the events, in words.
    pub fn words(&self) -> [(&'static str, u64); 13] {
        [
            ("calls that block", self.blocking_calls),
            ("handoffs between threads (recorded)", self.recorded_handoffs),
            ("handoffs between threads (inferred)", self.handoffs),
            ("waits of streams (recorded)", self.recorded_waits),
            ("waits of streams (inferred from the order of calls)", self.inferred_waits),
            ("activities without a launch", self.not_launched),
            ("launches without an activity", self.launches_without_activity),
            ("duplicate correlations", self.duplicates),
            ("dependencies on nodes that the file does not have", self.missing_dependencies),
            ("circular dependencies, left out", self.circular_dependencies),
            ("nodes without a duration, replayed in no time", self.untimed),
            ("nodes whose thread or stream is inferred from their kind", self.placed),
            ("activities that begin later than anything explains", self.unexplained.0),
        ]
    }
}

impl Traced {
    /// The program of a recording.
    pub fn of(mut recording: Recording) -> Self {
        let counts = std::mem::take(&mut recording.counts);
        let mut findings = Findings { counts, ..Findings::default() };
        let recording = &recording;
        let launches = Launches::of(recording, &mut findings);
        let constants = Constants::of(recording, &launches);
        let mut streams = streams(recording, &launches, &constants);
        waits::add(recording, &launches, &constants, &mut streams, &mut findings);
        let marks = host::marks(recording);
        let (threads, channels) = host::threads(recording, &launches, &marks, &mut findings);
        let described = recording.devices.values().filter(|device| device.num_sms > 0);
        let multiprocessors = described.map(|device| (device.id, device.num_sms)).collect();
        Self {
            lanes: Lanes { threads, streams, multiprocessors, channels, locks: 0 },
            names: recording.names.clone(),
            devices: recording.devices.clone(),
            rank: recording.rank,
            recorded_steps: host::steps(&marks),
            recorded: recording.begin().zip(recording.end()).map(|(begin, end)| time(end - begin)),
            findings,
        }
    }
}

impl Traced {
    /// Names of the devices, each once.
    pub fn device_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.devices.values().map(|device| device.name.clone()).collect();
        names.dedup();
        names
    }
}

fn streams(recording: &Recording, launches: &Launches, constants: &Constants) -> Vec<DeviceStream> {
    let of_stream = |(stream, ids): (usize, &Vec<u32>)| {
        let item = |&id: &u32| {
            let activity = &recording.activities[id as usize];
            DeviceItem {
                name: activity.name,
                kind: activity.kind,
                duration: time(activity.end - activity.begin),
                skew: time(constants.skew(activity)),
                latency: time(constants.latency(activity)),
                gap: time(constants.gaps[stream]),
                occupied: activity
                    .launch
                    .and_then(|launch| recording.devices.get(&activity.stream.0)?.occupied(&launch)),
                after: Vec::new(),
            }
        };
        DeviceStream { id: launches.streams[stream], items: ids.iter().map(item).collect() }
    };
    launches.by_stream.iter().enumerate().map(of_stream).collect()
}

/// Nanoseconds of the trace as a time; nothing is negative.
pub(super) fn time(nanoseconds: i64) -> Time {
    Time(nanoseconds.max(0) as u64 * 1_000)
}
