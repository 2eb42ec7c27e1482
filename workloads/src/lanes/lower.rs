//! Lowering of lanes: a stream of the engine for every thread and every stream of a
//! device.
//!
//! A launch counts for its thread, stream and latency when the latency has passed. An activity
//! waits for that, of each thread that launches it, for what its stream waits for, and for the one
//! before it. Launches of activities that have not begun fill the queue of their stream: a thread
//! that launches one more waits. Kernels occupy multiprocessors in waves, as those of other streams
//! do: where a kernel fills them all, the next one waits.

use std::collections::BTreeMap;

use sim_core::fixed::Rate;
use sim_core::id::{CapTableId, CellId, CounterId, PoolId};
use sim_core::platform::Platform;
use sim_core::program::{Activity, CapRow, Op, Program, Units};
use sim_core::time::Time;

use super::lane_ops::{LaneOps, Object};
use super::launches::{Arrivals, Launches};
use super::{ActivityKind, ActivityRef, DeviceStream, HostItem, HostTime, Lanes, Thread, Why};

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
    /// Graphs are captured and kernels compiled.
    pub const BUILD: &str = "capturing and compiling";
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
    /// A thread waits for a value that another hands over.
    pub const FEED: &str = "waiting for a feed";
    /// A thread waits to be told its path.
    pub const PATH: &str = "waiting for the path";
    /// A thread waits for the next batch.
    pub const BATCH: &str = "waiting for a batch";
    /// Another thread holds the interpreter lock.
    pub const LOCK: &str = "interpreter lock";

    /// All of them: work of threads, work of devices, waits.
    pub const ALL: [&str; 19] = [
        PYTHON, DISPATCH, CALLS, LOADER, BUILD, KERNEL, COLLECTIVE, COPY, GAP, SKEW, LAUNCH, DEVICE, THREAD,
        QUEUE, STREAM, FEED, PATH, BATCH, LOCK,
    ];
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
    (0..).zip(&lanes.threads).for_each(|(number, thread)| lowering.thread(number, thread));
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
    launches: Launches,
    /// By stream, counts launched activities that have begun.
    begun: Vec<CounterId>,
    /// By stream, counts activities that have ended.
    ended: Vec<CounterId>,
    /// By channel, counts handoffs.
    handed: Vec<CounterId>,
    /// By lock, its one unit.
    locks: Vec<PoolId>,
    /// By device, its multiprocessors.
    pools: BTreeMap<i64, PoolId>,
    /// By waves.
    speeds: BTreeMap<u32, CapTableId>,
}

impl<'a> Lowering<'a> {
    fn new(lanes: &'a Lanes, queue: u64) -> Self {
        let (mut platform, mut program) = (Platform::default(), Program::default());
        let launches = Launches::of(lanes, &mut program);
        let begun = lanes.streams.iter().map(|_| program.counter()).collect();
        let ended = lanes.streams.iter().map(|_| program.counter()).collect();
        let handed = (0..lanes.channels).map(|_| program.counter()).collect();
        let locks = (0..lanes.locks).map(|lock| platform.pool(format!("lock[{lock}]"), 1)).collect();
        let pool = |(&device, &units): (&i64, &u32)| {
            (device, platform.pool(format!("gpu[{device}].multiprocessors"), units))
        };
        let pools = lanes.multiprocessors.iter().map(pool).collect();
        let (queue, speeds) = (queue.max(1), BTreeMap::new());
        Self { lanes, platform, program, queue, launches, begun, ended, handed, locks, pools, speeds }
    }

    fn thread(&mut self, number: u32, thread: &Thread) {
        let mut lane = LaneOps::new(&mut self.program);
        let mut taken: BTreeMap<u32, i32> = BTreeMap::new();
        for &item in &thread.items {
            match item {
                HostItem::Work(HostTime { python, dispatch, calls, loader, build }) => {
                    let parts = [
                        (python, cause::PYTHON),
                        (dispatch, cause::DISPATCH),
                        (loader, cause::LOADER),
                        (calls, cause::CALLS),
                        (build, cause::BUILD),
                    ];
                    parts.into_iter().for_each(|(time, cause)| lane.last(Time(time), cause));
                }
                HostItem::Launch(activity) => {
                    let stream = activity.stream as usize;
                    let Some(launch) = self.launches.get(activity, number) else { continue };
                    let room = u64::from(launch.rank).checked_sub(self.queue).filter(|&begun| begun > 0);
                    if let Some(begun) = room {
                        lane.wait(self.begun[stream], begun as i32, cause::QUEUE);
                    }
                    if let Some(made) = launch.made {
                        let cell = lane.cell(made);
                        lane.ops.push(Op::Set { cell, state: MADE });
                    }
                    let latency = self.lanes.streams[stream].items[activity.number as usize].latency;
                    lane.add_after(launch.counter, 1, latency, cause::LAUNCH);
                }
                HostItem::Block(activity) => {
                    let counter = self.ended[activity.stream as usize];
                    lane.wait(counter, activity.number as i32 + 1, cause::DEVICE);
                }
                HostItem::Give(channel) => lane.add(self.handed[channel as usize]),
                HostItem::Take(channel, why) => {
                    let count = taken.entry(channel).or_default();
                    *count += 1;
                    let cause = match why {
                        Why::Thread | Why::Depth => cause::THREAD,
                        Why::Feed => cause::FEED,
                        Why::Path => cause::PATH,
                        Why::Loader => cause::BATCH,
                    };
                    lane.wait(self.handed[channel as usize], *count, cause);
                }
                HostItem::Lock(lock) => {
                    let pool = lane.slot(Object::Pool(self.locks[lock as usize]));
                    let cause = lane.cause(cause::LOCK);
                    lane.ops.push(Op::Hold { pool, units: 1, priority: 0, cause });
                }
                HostItem::Unlock(lock) => {
                    let pool = lane.slot(Object::Pool(self.locks[lock as usize]));
                    lane.ops.push(Op::Drop { pool, units: 1 });
                }
                HostItem::Section => lane.section(),
                HostItem::Stop(section) => {
                    let stream = lane.slot(Object::Stream(section.thread));
                    lane.ops.push(Op::Halt { stream, call: section.section + 1 });
                    // No launch that was made arrives after this; the others never do.
                    for arrivals in self.launches.stopped(section) {
                        let &Arrivals { counter, latency, count } = arrivals;
                        lane.add_after(counter, count, latency, cause::LAUNCH);
                    }
                }
                HostItem::Mark => lane.ops.push(Op::Mark),
            }
        }
        lane.end(format!("thread[{}]", thread.name));
    }

    fn stream(&mut self, number: usize, stream: &DeviceStream) {
        let fills = u64::from(self.launches.all_of(number)) > self.queue;
        let mut lane = LaneOps::new(&mut self.program);
        let pool = self.pools.get(&stream.id.0).map(|&pool| lane.slot(Object::Pool(pool)));
        // One without a launch of its own is part of a graph, launched with the one before it.
        let mut made: Vec<CellId> = Vec::new();
        for (item, place) in stream.items.iter().zip(0..) {
            let place = ActivityRef { stream: number as u32, number: place };
            let launches = self.launches.of_activity(place);
            let is_launched = !launches.is_empty();
            if is_launched {
                made.clear();
            }
            for launch in launches {
                made.extend(launch.made);
                lane.wait(launch.counter, launch.count, cause::LAUNCH);
            }
            for target in &item.after {
                lane.wait(self.ended[target.stream as usize], target.number as i32 + 1, cause::STREAM);
            }
            if fills && is_launched {
                lane.add(self.begun[number]);
            }
            let first_branch = lane.ops.len();
            for &made in &made {
                // Its targets are known behind what it leaves out.
                let (cell, at) = (lane.cell(made), lane.ops.len());
                let targets = lane.program.branch([0, at as u32 + 1]);
                lane.ops.push(Op::Branch { cell, targets });
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
            for at in first_branch..first_branch + made.len() {
                let Op::Branch { targets, .. } = lane.ops[at] else { continue };
                lane.program.branches[targets.index()][0] = lane.ops.len() as u32;
            }
            lane.add(self.ended[number]);
            lane.last(item.gap, cause::GAP);
        }
        lane.end(stream.label());
    }
}

/// State of a launch that has been made.
const MADE: u8 = 1;
