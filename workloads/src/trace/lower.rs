//! Lowering of recorded lanes: a stream of the engine for every thread and every stream of a
//! device.
//!
//! A launch counts for its thread, stream and latency when the latency has passed. An activity
//! waits for that, for what its stream waits for, and for the one before it. Launches of activities
//! that have not begun fill the queue of their stream, on which threads wait. Kernels occupy
//! multiprocessors in waves, as those of other streams do: where a kernel fills them all, the next
//! one waits.

use std::collections::BTreeMap;

use sim_core::fixed::Rate;
use sim_core::id::{CapTableId, CauseId, CounterId, KindId, PoolId, StoreId};
use sim_core::platform::Platform;
use sim_core::program::{Activity, Affine, Body, Call, CapRow, Op, Program, Shortage, Slot, Units};
use sim_core::time::Time;

use super::lanes::{ActivityRef, DeviceStream, HostItem, HostTime, Lanes, Thread};
use super::recording::{ActivityKind, DeviceFacts};

/// Causes of the time of threads and streams.
pub mod cause {
    /// The interpreter works.
    pub const PYTHON: &str = "python";
    /// Operators of the framework work.
    pub const DISPATCH: &str = "dispatch";
    /// Calls of the device's runtime.
    pub const CALLS: &str = "runtime calls";
    /// The next batch is made or awaited.
    pub const LOADER: &str = "loader";
    /// A call waits for the device.
    pub const DEVICE: &str = "waiting for the device";
    /// A thread waits for another.
    pub const THREAD: &str = "waiting for a thread";
    /// The queue of launches is full.
    pub const QUEUE: &str = "launch queue full";
    /// A kernel.
    pub const KERNEL: &str = "kernels";
    /// A collective moves data.
    pub const COLLECTIVE: &str = "collectives";
    /// A collective waits for its peers.
    pub const SKEW: &str = "skew";
    /// A copy or a fill.
    pub const COPY: &str = "copies";
    /// From an activity to the next in its stream.
    pub const GAP: &str = "gaps";
    /// Nothing has been launched.
    pub const LAUNCH: &str = "launch-bound";
    /// A stream waits for another.
    pub const STREAM: &str = "waiting for a stream";
}

/// A unit of work a picosecond: the work of a kernel is its duration.
const PICOSECONDS: Rate = Rate(1 << 40);

/// Launches that a stream may have waiting by default: an estimate of where CUDA's driver blocks.
pub const QUEUE: u64 = 1_024;

/// Lanes for the engine: threads first, then streams of devices.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The queue of launches.
    pub platform: Platform,
    /// Streams.
    pub program: Program,
}

/// Lowers lanes; a device has at most `queue` launches waiting, at least 1.
pub fn lower(lanes: &Lanes, queue: u64) -> Replay {
    let mut lowering = Lowering::new(lanes, queue);
    for (number, thread) in lanes.threads.iter().enumerate() {
        lowering.thread(number, thread);
    }
    lanes.streams.iter().zip(0..).for_each(|(stream, number)| lowering.stream(number, stream));
    let Lowering { platform, program, .. } = lowering;
    Replay { platform, program }
}

struct Lowering<'a> {
    lanes: &'a Lanes,
    platform: Platform,
    program: Program,
    /// By stream, its queue of launches.
    queues: Vec<StoreId>,
    kind: KindId,
    /// By stream, counts activities that have ended.
    ended: Vec<CounterId>,
    /// By channel, counts handoffs.
    handed: Vec<CounterId>,
    /// By thread, stream and latency, counts launches that have arrived; and how many there are.
    arrived: BTreeMap<(usize, u32, Time), (CounterId, i32)>,
    /// By device, its multiprocessors.
    pools: BTreeMap<i64, PoolId>,
    /// By waves.
    speeds: BTreeMap<u32, CapTableId>,
    /// By activity, the count that its launch makes.
    launches: BTreeMap<ActivityRef, (CounterId, i32)>,
}

impl<'a> Lowering<'a> {
    fn new(lanes: &'a Lanes, queue: u64) -> Self {
        let (mut platform, mut program) = (Platform::default(), Program::default());
        let queues =
            lanes.streams.iter().map(|stream| platform.store(format!("{}.queue", name(stream)), queue));
        let queues = queues.collect();
        let kind = program.kind("launches");
        let ended = lanes.streams.iter().map(|_| program.counter()).collect();
        let handed = (0..lanes.channels).map(|_| program.counter()).collect();
        let described = lanes.devices.values().filter(|device| device.num_sms > 0);
        let pool = |device: &DeviceFacts| {
            (device.id, platform.pool(format!("gpu[{}].multiprocessors", device.id), device.num_sms))
        };
        let pools = described.map(pool).collect();
        let (arrived, speeds, launches) = Default::default();
        Self { lanes, platform, program, queues, kind, ended, handed, pools, speeds, arrived, launches }
    }

    fn thread(&mut self, number: usize, thread: &Thread) {
        let mut lane = LaneOps::new(&mut self.program);
        let queues: Vec<Slot> = self.queues.iter().map(|queue| lane.slot(queue.0)).collect();
        let mut taken: BTreeMap<u32, i32> = BTreeMap::new();
        for &item in &thread.items {
            match item {
                HostItem::Work(HostTime { python, dispatch, calls, loader }) => {
                    let parts = [
                        (python, cause::PYTHON),
                        (dispatch, cause::DISPATCH),
                        (loader, cause::LOADER),
                        (calls, cause::CALLS),
                    ];
                    parts.into_iter().for_each(|(time, cause)| lane.last(Time(time), cause));
                }
                HostItem::Launch(activity) => {
                    let stream = &self.lanes.streams[activity.stream as usize];
                    let latency = stream.items[activity.number as usize].latency;
                    let cause = lane.cause(cause::QUEUE);
                    let (bytes, priority) = (Affine::constant(0), 0);
                    let kind = self.kind;
                    lane.ops.push(Op::Acquire {
                        store: queues[activity.stream as usize],
                        bytes,
                        kind,
                        shortage: Shortage::Wait,
                        priority,
                        cause,
                    });
                    let arrived = self.arrived.entry((number, activity.stream, latency));
                    let (counter, count) = arrived.or_insert_with(|| (lane.program.counter(), 0));
                    *count += 1;
                    self.launches.insert(activity, (*counter, *count));
                    let counter = *counter;
                    let after = lane.activity(latency, cause::LAUNCH);
                    lane.add(counter, Some(after));
                }
                HostItem::Block(activity) => {
                    let counter = self.ended[activity.stream as usize];
                    lane.wait(counter, activity.number as i32 + 1, cause::DEVICE);
                }
                HostItem::Give(channel) => lane.add(self.handed[channel as usize], None),
                HostItem::Take(channel) => {
                    let count = taken.entry(channel).or_default();
                    *count += 1;
                    lane.wait(self.handed[channel as usize], *count, cause::THREAD);
                }
                HostItem::Mark => lane.ops.push(Op::Mark),
            }
        }
        lane.end(format!("thread[{}]", thread.name));
    }

    fn stream(&mut self, number: usize, stream: &DeviceStream) {
        let mut lane = LaneOps::new(&mut self.program);
        let queue = lane.slot(self.queues[number].0);
        let pool = self.pools.get(&stream.id.0).map(|pool| lane.slot(pool.0));
        for (item, place) in stream.items.iter().zip(0..) {
            let place = ActivityRef { stream: number as u32, number: place };
            let launch = self.launches.get(&place);
            if let Some(&(counter, count)) = launch {
                lane.wait(counter, count, cause::LAUNCH);
            }
            for target in &item.after {
                lane.wait(self.ended[target.stream as usize], target.number as i32 + 1, cause::STREAM);
            }
            if launch.is_some() {
                lane.ops.push(Op::Release { store: queue, bytes: Affine::constant(0), kind: self.kind });
            }
            let cause = match item.kind {
                ActivityKind::Kernel => cause::KERNEL,
                ActivityKind::Collective => cause::COLLECTIVE,
                ActivityKind::Copy | ActivityKind::Fill => cause::COPY,
            };
            lane.last(item.skew, cause::SKEW);
            match (item.occupied, pool) {
                (Some((units, waves)), Some(pool)) => {
                    let table = *self.speeds.entry(waves).or_insert_with(|| {
                        lane.program.cap_table([CapRow { units: 1, cap: PICOSECONDS, waves }])
                    });
                    let priority = u8::from(item.kind != ActivityKind::Collective);
                    let units = Some(Units { pool, want: units, priority, table });
                    let work = (item.duration - item.skew).0;
                    let cause = lane.cause(cause);
                    lane.run(Activity {
                        work,
                        units,
                        cap: PICOSECONDS,
                        ..Activity::lasting(Time::ZERO, cause)
                    });
                }
                _ => lane.last(item.duration - item.skew, cause),
            }
            lane.add(self.ended[number], None);
            lane.last(stream.gap, cause::GAP);
        }
        lane.end(name(stream));
    }
}

fn name(stream: &DeviceStream) -> String {
    let (device, id) = stream.id;
    format!("gpu[{device}].stream[{id}]")
}

/// The operations of one lane.
struct LaneOps<'a> {
    program: &'a mut Program,
    ops: Vec<Op>,
    slots: Vec<u32>,
    by_object: BTreeMap<u32, Slot>,
    activities: Vec<Activity>,
    by_activity: BTreeMap<(Time, CauseId), i32>,
}

impl<'a> LaneOps<'a> {
    fn new(program: &'a mut Program) -> Self {
        let (ops, slots, by_object, activities, by_activity) = Default::default();
        Self { program, ops, slots, by_object, activities, by_activity }
    }

    /// A new slot.
    fn slot(&mut self, object: u32) -> Slot {
        self.slots.push(object);
        (self.slots.len() - 1) as Slot
    }

    fn counter(&mut self, counter: CounterId) -> Slot {
        if let Some(&slot) = self.by_object.get(&counter.0) {
            return slot;
        }
        let slot = self.slot(counter.0);
        self.by_object.insert(counter.0, slot);
        slot
    }

    fn cause(&mut self, name: &str) -> CauseId {
        self.program.cause(name)
    }

    /// The position of an activity of a duration.
    fn activity(&mut self, time: Time, cause: &str) -> Affine {
        let cause = self.cause(cause);
        let position = *self.by_activity.entry((time, cause)).or_insert_with(|| {
            self.activities.push(Activity::lasting(time, cause));
            self.activities.len() as i32 - 1
        });
        Affine::constant(position)
    }

    /// Takes a time, if there is any.
    fn last(&mut self, time: Time, cause: &str) {
        if time > Time::ZERO {
            let activity = self.activity(time, cause);
            self.ops.push(Op::Run { activity });
        }
    }

    fn run(&mut self, activity: Activity) {
        self.activities.push(activity);
        let activity = Affine::constant(self.activities.len() as i32 - 1);
        self.ops.push(Op::Run { activity });
    }

    fn add(&mut self, counter: CounterId, after: Option<Affine>) {
        let counter = self.counter(counter);
        self.ops.push(Op::Add { counter, amount: 1, after });
    }

    fn wait(&mut self, counter: CounterId, at_least: i32, cause: &str) {
        let (counter, cause) = (self.counter(counter), self.cause(cause));
        self.ops.push(Op::Wait { counter, at_least: Affine::constant(at_least), cause });
    }

    /// Adds the stream to the program.
    fn end(self, name: String) {
        let block = self.program.block("trace", self.ops);
        let role = self.program.role([Call::once(block)]);
        let costs = self.program.cost_table(self.activities, vec![1]);
        let binding = self.program.binding(self.slots, Some(costs));
        self.program.stream(name, binding, Body::Role(role));
    }
}
