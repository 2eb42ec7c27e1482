//! Events of a trace as far as they are understood, in the order of their begins.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

pub use super::names::Names;
pub use crate::lanes::{ActivityKind, NameId};

/// Events that a profiler recorded of one process. Times are nanoseconds since the begin of the
/// first event in the file.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Names of events.
    pub names: Names,
    /// Host threads, in the order of their first events.
    pub threads: Vec<Label>,
    /// Operators and annotations of threads, by begin.
    pub operators: Vec<HostEvent>,
    /// Calls of the device's runtime and driver, by begin.
    pub calls: Vec<HostEvent>,
    /// Activities of devices, by begin.
    pub activities: Vec<DeviceEvent>,
    /// Waits that the profiler recorded with the streams and events they are for.
    pub waits: Vec<RecordedWait>,
    /// Devices, by number.
    pub devices: BTreeMap<i64, DeviceFacts>,
    /// Rank of the process and number of ranks.
    pub rank: Option<(u64, u64)>,
    /// Numbers of events, understood or not.
    pub counts: Counts,
}

/// A number or a word that names a process or a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// A number.
    Number(i64),
    /// A word.
    Word(String),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// Something that a host thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// Index into [`Recording::threads`].
    pub thread: u32,
    /// Its name.
    pub name: NameId,
    /// Begin (ns).
    pub begin: i64,
    /// End (ns).
    pub end: i64,
    /// Number that it shares with what it launched.
    pub correlation: Option<u64>,
}

/// An activity of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    /// Device and stream.
    pub stream: (i64, i64),
    /// Its name.
    pub name: NameId,
    /// Its kind.
    pub kind: ActivityKind,
    /// Begin (ns).
    pub begin: i64,
    /// End (ns).
    pub end: i64,
    /// Number that it shares with the call that launched it.
    pub correlation: Option<u64>,
    /// Bytes that it moves or that a collective sends, where they were recorded.
    pub bytes: Option<u64>,
    /// How a kernel is launched, where that was recorded.
    pub launch: Option<LaunchShape>,
}

/// Blocks of a kernel, and what each needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory of a block.
    pub shared: u32,
}

/// A device, as far as the profiler describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceFacts {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Streaming multiprocessors.
    pub num_sms: u32,
    /// Threads of one of them.
    pub max_threads_per_multiprocessor: u32,
    /// Registers of one of them.
    pub regs_per_multiprocessor: u32,
    /// Bytes of shared memory of one of them.
    pub shared_mem_per_multiprocessor: u32,
}

/// Most blocks that are resident on a multiprocessor of any GPU since Maxwell (CUDA C++ Programming
/// Guide, technical specifications by compute capability).
const BLOCKS_MAX: u32 = 32;

impl DeviceFacts {
    /// Multiprocessors that a kernel occupies, and the waves in which its blocks go there; `None`
    /// where the device is not described.
    pub fn occupied(&self, launch: &LaunchShape) -> Option<(u32, u32)> {
        let of = |all: u32, each: u32| all.checked_div(each).unwrap_or(u32::MAX);
        let warps = launch.threads.div_ceil(32);
        // Registers are given to warps in units of 256.
        let registers = (launch.registers.saturating_mul(32).div_ceil(256) * 256).saturating_mul(warps);
        let resident = BLOCKS_MAX
            .min(of(self.max_threads_per_multiprocessor, warps.saturating_mul(32)))
            .min(of(self.regs_per_multiprocessor, registers))
            .min(of(self.shared_mem_per_multiprocessor, launch.shared))
            .max(1);
        let multiprocessors = (self.num_sms > 0).then_some(self.num_sms)?;
        let (blocks, at_once) = (launch.blocks.max(1), resident.saturating_mul(multiprocessors));
        Some((blocks.div_ceil(resident).min(multiprocessors), blocks.div_ceil(at_once)))
    }
}

/// A wait with what it is for (`cuda_sync` events of PyTorch 2.1 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedWait {
    /// The call that waits, or lets a stream wait.
    pub correlation: u64,
    /// Stream that waits, by device, where a stream does.
    pub waiting: Option<(i64, i64)>,
    /// Stream that is waited for, by device.
    pub stream: Option<(i64, i64)>,
    /// The call that recorded the event.
    pub event: Option<u64>,
}

/// Numbers of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Understood, by what they are.
    pub understood: BTreeMap<&'static str, u64>,
    /// Not understood, by category.
    pub ignored: BTreeMap<String, u64>,
    /// Left out because something is wrong with them, by what.
    pub refused: BTreeMap<&'static str, u64>,
    /// Where the file broke off, if it did.
    pub truncated: Option<String>,
}

impl Recording {
    /// Sorts events by begin, the longer first where two begin together.
    pub(super) fn sort(&mut self) {
        let host = |event: &HostEvent| (event.begin, std::cmp::Reverse(event.end));
        self.operators.sort_by_key(host);
        self.calls.sort_by_key(host);
        self.activities.sort_by_key(|event| (event.begin, std::cmp::Reverse(event.end)));
    }

    /// Positions of host events by thread.
    pub(super) fn by_thread(&self, events: &[HostEvent]) -> Vec<Vec<u32>> {
        let mut threads = vec![Vec::new(); self.threads.len()];
        for (event, position) in events.iter().zip(0..) {
            threads[event.thread as usize].push(position);
        }
        threads
    }

    /// Begin of the first event (ns).
    pub fn begin(&self) -> Option<i64> {
        let host = self.operators.first().into_iter().chain(self.calls.first()).map(|event| event.begin);
        host.chain(self.activities.first().map(|event| event.begin)).min()
    }

    /// End of the last event (ns).
    pub fn end(&self) -> Option<i64> {
        let host = self.operators.iter().chain(&self.calls).map(|event| event.end);
        host.chain(self.activities.iter().map(|event| event.end)).max()
    }
}
