//! Lowering of lanes: a stream of the engine for every thread and every stream of a
//! device.
//!
//! A launch counts for its thread, stream and latency when the latency has passed. An activity
//! waits for that, for what its stream waits for, and for the one before it. Launches of activities
//! that have not begun fill the queue of their stream: a thread that launches one more waits. Kernels occupy
//! multiprocessors in waves, as those of other streams do: where a kernel fills them all, the next
//! one waits.

use std::collections::BTreeMap;

use sim_core::fixed::Rate;
use sim_core::id::{CapTableId, CauseId, CounterId, PoolId};
use sim_core::platform::Platform;
use sim_core::program::{Activity, Affine, Body, Call, CapRow, Op, Program, Slot, Units};
use sim_core::time::Time;

use super::{ActivityKind, ActivityRef, DeviceStream, HostItem, HostTime, Lanes, Thread};

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
pub struct Lowered {
    /// Multiprocessors.
    pub platform: Platform,
    /// Streams.
    pub program: Program,
}

/// Lowers lanes; a device has at most `queue` launches waiting, at least 1.
pub fn lower(lanes: &Lanes, queue: u64) -> Lowered {
    let mut lowering = Lowering::new(lanes, queue);
    for (number, thread) in lanes.threads.iter().enumerate() {
        lowering.thread(number, thread);
    }
    lanes.streams.iter().zip(0..).for_each(|(stream, number)| lowering.stream(number, stream));
    let Lowering { platform, program, .. } = lowering;
    Lowered { platform, program }
}

struct Lowering<'a> {
    lanes: &'a Lanes,
    platform: Platform,
    program: Program,
    /// Launches that a stream may have waiting.
    queue: u64,
    /// By stream and number, how many of its activities up to there are launched.
    ranks: Vec<Vec<u32>>,
    /// By stream, counts launched activities that have begun.
    begun: Vec<CounterId>,
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
        let begun = lanes.streams.iter().map(|_| program.counter()).collect();
        let ended = lanes.streams.iter().map(|_| program.counter()).collect();
        let handed = (0..lanes.channels).map(|_| program.counter()).collect();
        let pool = |(&device, &units): (&i64, &u32)| {
            (device, platform.pool(format!("gpu[{device}].multiprocessors"), units))
        };
        let pools = lanes.multiprocessors.iter().map(pool).collect();
        let (arrived, speeds, launches) = Default::default();
        let (queue, ranks) = (queue.max(1), ranks(lanes));
        Self {
            lanes,
            platform,
            program,
            queue,
            ranks,
            begun,
            ended,
            handed,
            pools,
            speeds,
            arrived,
            launches,
        }
    }

    fn thread(&mut self, number: usize, thread: &Thread) {
        let mut lane = LaneOps::new(&mut self.program);
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
                    let rank = self.ranks[activity.stream as usize][activity.number as usize];
                    if let Some(begun) = u64::from(rank).checked_sub(self.queue).filter(|&begun| begun > 0) {
                        lane.wait(self.begun[activity.stream as usize], begun as i32, cause::QUEUE);
                    }
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
        let last = self.ranks[number].last().copied().unwrap_or(0);
        let fills = u64::from(last) > self.queue;
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
            if fills && launch.is_some() {
                lane.add(self.begun[number], None);
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
            lane.last(item.gap, cause::GAP);
        }
        lane.end(name(stream));
    }
}

/// By stream and number, how many activities up to there are launched.
fn ranks(lanes: &Lanes) -> Vec<Vec<u32>> {
    let mut ranks: Vec<Vec<u32>> = lanes.streams.iter().map(|stream| vec![0; stream.items.len()]).collect();
    for item in lanes.threads.iter().flat_map(|thread| &thread.items) {
        if let HostItem::Launch(activity) = item {
            ranks[activity.stream as usize][activity.number as usize] = 1;
        }
    }
    for stream in &mut ranks {
        let mut launched = 0;
        for rank in stream {
            launched += *rank;
            *rank = launched;
        }
    }
    ranks
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
        let costs = self.program.cost_table(self.activities, Vec::new());
        let binding = self.program.binding(self.slots, Some(costs));
        self.program.stream(name, binding, Body::Role(role));
    }
}
