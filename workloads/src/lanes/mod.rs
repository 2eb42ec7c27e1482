//! Lanes: host threads that work, launch and wait, and streams of devices that execute in order.
//!
//! A lane says how long each of its items takes and what it waits for, never when it begins: that
//! is what a run finds. Recorded traces ([`crate::trace`]) and programs that are issued operator by
//! operator become lanes; [`lower`] makes a program of the engine of them.

mod lane_ops;
mod launches;
mod lower;
mod run;
mod watch;

use std::collections::BTreeMap;

use sim_core::time::Time;

pub use lower::{Lowered, QUEUE, cause, lower};
pub use run::{LaneLeg, LaneUse, LanesError, Ran, Simulation};
pub use watch::{LaneArrow, LaneEvent, LaneSpan};

/// Lanes of the threads and streams of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// Host threads.
    pub threads: Vec<Thread>,
    /// Streams of devices, by device and number.
    pub streams: Vec<DeviceStream>,
    /// Multiprocessors of the devices whose kernels say how many they occupy.
    pub multiprocessors: BTreeMap<i64, u32>,
    /// Number of channels over which threads let each other go on.
    pub channels: u32,
    /// Number of locks, each held by one thread at a time.
    pub locks: u32,
}

impl Lanes {
    /// Names of lanes: threads, then streams.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let threads = self.threads.iter().map(|thread| format!("thread[{}]", thread.name));
        threads.chain(self.streams.iter().map(DeviceStream::label))
    }
}

/// A host thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its label.
    pub name: String,
    /// Its items, in order.
    pub items: Vec<HostItem>,
}

/// Something that a host thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostItem {
    /// Works.
    Work(HostTime),
    /// Launches an activity, which begins when every thread that launches it has.
    Launch(ActivityRef),
    /// Waits until an activity has ended.
    Block(ActivityRef),
    /// Lets another thread go on, over a channel.
    Give(u32),
    /// Waits for another thread to let it go on.
    Take(u32, Why),
    /// Takes a lock.
    Lock(u32),
    /// Gives it back.
    Unlock(u32),
    /// Begins a section: where the thread goes on when the one before is stopped.
    Section,
    /// Stops another thread in a section. Launches that it has made take effect.
    Stop(SectionRef),
    /// Begins a step, or ends the last one.
    Mark,
}

/// A section of a thread; the first one begins without a [`HostItem::Section`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectionRef {
    /// Index into [`Lanes::threads`].
    pub thread: u32,
    /// Number of the section.
    pub section: u32,
}

/// Reason for which a thread waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It lets the other work.
    Thread,
    /// It needs a value that the other hands over.
    Feed,
    /// It has to be told which way to go.
    Path,
    /// It needs the next batch.
    Loader,
    /// It is as far ahead as it may be.
    Depth,
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
    /// Capturing and compiling.
    pub build: u64,
}

impl HostTime {
    /// All of it.
    pub const fn total(self) -> u64 {
        self.python + self.dispatch + self.calls + self.loader + self.build
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStream {
    /// Device and stream.
    pub id: (i64, i64),
    /// Its activities, in order.
    pub items: Vec<DeviceItem>,
}

impl DeviceStream {
    /// `gpu[0].stream[7]`.
    pub fn label(&self) -> String {
        let (device, stream) = self.id;
        format!("gpu[{device}].stream[{stream}]")
    }
}

/// An activity of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceItem {
    /// Its name, in a table of whoever made the lanes.
    pub name: NameId,
    /// Its kind.
    pub kind: ActivityKind,
    /// How long it takes.
    pub duration: Time,
    /// The part of a collective's time in which it waits for its peers.
    pub skew: Time,
    /// From the begin of the call that launches it to the earliest begin.
    pub latency: Time,
    /// From its end to the begin of one that waits behind it.
    pub gap: Time,
    /// Multiprocessors that a kernel occupies, and its waves there.
    pub occupied: Option<(u32, u32)>,
    /// Activities of other streams that have ended when it begins.
    pub after: Vec<ActivityRef>,
}

/// Name of an activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// Kinds of activities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActivityKind {
    /// A kernel.
    Kernel,
    /// A collective kernel of NCCL or RCCL.
    Collective,
    /// A copy.
    Copy,
    /// A fill of memory.
    Fill,
}
