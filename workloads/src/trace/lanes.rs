//! Lanes of a recording: host threads that work, launch and wait, and streams of devices that
//! execute in order.
//!
//! A lane keeps how long each of its items took and what it waits for. When a device activity began
//! is used to tell what it may have waited for, and for the medians of latencies and gaps; it is
//! not kept.

use std::collections::BTreeMap;

use sim_core::time::Time;

use super::constants::Constants;
use super::host;
use super::launches::Launches;
use super::recording::{ActivityKind, Counts, DeviceFacts, NameId, Names, Recording};
use super::waits;

/// Lanes of the threads and streams of one process.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// Names of activities.
    pub names: Names,
    /// Threads that launch, wait or begin steps.
    pub threads: Vec<Thread>,
    /// Streams of devices, by device and number.
    pub streams: Vec<DeviceStream>,
    /// Devices that are described.
    pub devices: BTreeMap<i64, DeviceFacts>,
    /// Rank of the process and number of ranks.
    pub rank: Option<(u64, u64)>,
    /// Number of channels over which threads hand over to each other.
    pub channels: u32,
    /// Recorded durations of steps; none where the trace has no steps.
    pub recorded_steps: Vec<Time>,
    /// Recorded time from the first begin to the last end.
    pub recorded: Time,
    /// Findings on the way.
    pub findings: Findings,
}

/// A host thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its label in the trace.
    pub name: String,
    /// Its items, in order.
    pub items: Vec<HostItem>,
}

/// Something that a host thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostItem {
    /// Works.
    Work(HostTime),
    /// Launches an activity.
    Launch(ActivityRef),
    /// Waits until an activity has ended.
    Block(ActivityRef),
    /// Lets another thread go on, over a channel.
    Give(u32),
    /// Waits for another thread to let it go on.
    Take(u32),
    /// Begins a step, or ends the last one.
    Mark,
}

/// Time of a host by what it does (ps).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTime {
    /// Outside of operators: the interpreter.
    pub python: u64,
    /// In operators of the framework: dispatch, allocation, autograd.
    pub dispatch: u64,
    /// In calls of the device's runtime.
    pub calls: u64,
    /// Waiting for, or preparing, the next batch.
    pub loader: u64,
}

impl HostTime {
    /// All of it.
    pub const fn total(self) -> u64 {
        self.python + self.dispatch + self.calls + self.loader
    }
}

/// An activity of a device: which stream, which number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActivityRef {
    /// Index into [`Lanes::streams`].
    pub stream: u32,
    /// Index into [`DeviceStream::items`].
    pub number: u32,
}

/// A stream of a device.
#[derive(Clone, Debug)]
pub struct DeviceStream {
    /// Device and stream in the trace.
    pub id: (i64, i64),
    /// Its activities, in order.
    pub items: Vec<DeviceItem>,
    /// From the end of an activity to the begin of one that waits behind it.
    pub gap: Time,
}

/// An activity of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceItem {
    /// Its name.
    pub name: NameId,
    /// Its kind.
    pub kind: ActivityKind,
    /// How long it takes.
    pub duration: Time,
    /// The part of a collective's time in which it waits for its peers.
    pub skew: Time,
    /// From the begin of the call that launches it to the earliest begin.
    pub latency: Time,
    /// Multiprocessors that a kernel occupies, and its waves there.
    pub occupied: Option<(u32, u32)>,
    /// Activities of other streams that have ended when it begins.
    pub after: Vec<ActivityRef>,
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
    /// Handoffs between threads.
    pub handoffs: u64,
    /// Activities without a call.
    pub not_launched: u64,
    /// Calls whose activities are missing.
    pub launches_without_activity: u64,
    /// Correlations that several calls have.
    pub duplicates: u64,
    /// Activities that began later than anything that was found explains, and by how much in all.
    pub unexplained: (u64, Time),
}

impl Lanes {
    /// The lanes of a recording.
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
        Self {
            names: recording.names.clone(),
            threads,
            streams,
            devices: recording.devices.clone(),
            rank: recording.rank,
            channels,
            recorded_steps: host::steps(&marks),
            recorded: time(recording.end().unwrap_or(0) - recording.begin().unwrap_or(0)),
            findings,
        }
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
                occupied: activity
                    .launch
                    .and_then(|launch| recording.devices.get(&activity.stream.0)?.occupied(&launch)),
                after: Vec::new(),
            }
        };
        DeviceStream {
            id: launches.streams[stream],
            items: ids.iter().map(item).collect(),
            gap: time(constants.gaps[stream]),
        }
    };
    launches.by_stream.iter().enumerate().map(of_stream).collect()
}

/// Nanoseconds of the trace as a time; nothing is negative.
pub(super) fn time(nanoseconds: i64) -> Time {
    Time(nanoseconds.max(0) as u64 * 1_000)
}
