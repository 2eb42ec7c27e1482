//! Lowering: a schedule, its cost book and its site become a platform and a program. Tensors, stages and micro-batches end
//! here. The ranks of a stage share everything but a row of slots.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::fixed::Rate;
use sim_core::id::{BlockId, CapTableId, CauseId, FluidId, GroupId, KindId, StoreId, StreamId};
use sim_core::platform::Platform;
use sim_core::program::{Activity, Affine, Body, Call, Op, Program, Shortage, Slot, StartState, Units};
use sim_core::time::Time;

use crate::account::{Task, TaskKind};
use crate::cost::{CollectivePhase, CostBook, Message, OpCost};
use crate::graph::{OpGraph, OpId, Phase, StorageId};
use crate::names::{cause, kind};
use crate::schedule::{Block, IssueId, Item, Lane, LaneKind, Nth, Place, Schedule, SignalId, Why};
use crate::site::Site;

/// What the engine takes, `sim_core::simulate(&lowered.platform, &lowered.program, &lowered.start, ...)`, and what its
/// streams and stores stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lowered {
    /// Resources.
    pub platform: Platform,
    /// Streams.
    pub program: Program,
    /// What is held from the start.
    pub start: StartState,
    /// One per stage: its first rank.
    pub stages: Vec<RankIds>,
    /// All ranks, by stage, then replica.
    pub ranks: Vec<RankIds>,
    /// What each stream does, indexed by [`StreamId`].
    pub streams: Vec<StreamRole>,
    /// The links between partners, one per direction, in which a rate is given.
    pub partner_links: Vec<FluidId>,
    /// By lane, then activity of its cost table, what that does.
    pub tasks: Vec<Vec<Task>>,
    /// By signal, what ends when it counts; none if it tells of a moment. A signal has a counter for each replica.
    pub ends: Vec<Option<Task>>,
}

/// The stream and the stores of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankIds {
    /// The stream of its operators. Its marks come in pairs, one pair a step: the start of its first operator and the
    /// end of its last.
    pub compute: StreamId,
    /// Its memory, in bytes.
    pub memory: StoreId,
    /// Counts what is resident in that memory, in micro-batches of one chunk; its capacity is the bound of a stage that
    /// lends micro-batches.
    pub resident: StoreId,
}

/// What a stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRole {
    /// Its stage.
    pub stage: u32,
    /// Its replica.
    pub replica: u32,
    /// What it does there.
    pub kind: LaneKind,
    /// The lane of the schedule that it executes: index into [`Lowered::tasks`].
    pub lane: u32,
}

/// Lowers `steps` repetitions of a schedule. Arguments of every block are the micro-batch and the number of its call,
/// counted over all steps.
pub fn lower(schedule: &Schedule, graph: &OpGraph, costs: &CostBook, site: &Site, steps: u32) -> Lowered {
    let mut lowered = Lowered {
        platform: site.platform.clone(),
        partner_links: site.partner_links.clone(),
        ..Lowered::default()
    };
    for name in cause::ALL {
        lowered.program.cause(name);
    }
    lowered.program.caps.clone_from(&costs.speeds);
    stores(&mut lowered, schedule, site);
    for _ in 0..schedule.signals.len() * site.replicas as usize {
        lowered.program.counter();
    }
    let groups = groups(&mut lowered.program, schedule, costs, site);
    // Blocks of the lane before of the same kind: lanes that do the same thing share them.
    let mut before: BTreeMap<u8, Vec<BlockId>> = BTreeMap::new();
    lowered.ends = vec![None; schedule.signals.len()];
    for (index, lane) in (0u32..).zip(&schedule.lanes) {
        let mut lowering = LaneLowering::new(schedule, graph, costs, site, lane, &mut lowered.program);
        let bodies: Vec<Vec<Op>> = lane.blocks.iter().map(|block| lowering.block(block)).collect();
        let LaneLowering { program, slots, activities, sizes, tasks, ends, .. } = lowering;
        lowered.tasks.push(tasks);
        for (signal, task) in ends {
            lowered.ends[signal.0 as usize] = Some(task);
        }
        let costs = program.cost_table(activities, sizes);
        let shared = before.entry(class(lane.kind)).or_default();
        let blocks = share(program, lane, bodies, shared);
        let role = program.role(calls(lane, &blocks, schedule.micro_batches, steps));
        *shared = blocks;
        for replica in 0..site.replicas {
            let objects = Objects { site, ranks: &lowered.ranks, groups: &groups };
            let row: Vec<u32> = slots.iter().map(|&object| objects.id(object, lane.stage, replica)).collect();
            let binding = program.binding(row, Some(costs));
            let name = format!("{}.{}", rank_name(site, lane.stage, replica), lane.kind.name());
            let stream = program.stream(name, binding, Body::Role(role));
            program.streams[stream.index()].device = site.rank(lane.stage, replica) as u32;
            let role = StreamRole { stage: lane.stage, replica, kind: lane.kind, lane: index };
            lowered.streams.push(role);
            if lane.kind == LaneKind::Compute {
                lowered.ranks[site.rank(lane.stage, replica)].compute = stream;
            }
        }
    }
    lowered.stages = lowered.ranks.iter().step_by(site.replicas as usize).copied().collect();
    lowered
}

fn class(kind: LaneKind) -> u8 {
    match kind {
        LaneKind::Compute => 0,
        LaneKind::Link { .. } => 1,
        LaneKind::Evict => 2,
        LaneKind::Load => 3,
        LaneKind::Collective => 4,
        LaneKind::Gather => 5,
        LaneKind::Reduce => 6,
        LaneKind::Host => 7,
        LaneKind::Offload => 8,
        LaneKind::Reload => 9,
    }
}

fn rank_name(site: &Site, stage: u32, replica: u32) -> String {
    let rank = &site.ranks[site.rank(stage, replica)];
    rank.name.clone().unwrap_or_else(|| format!("stage[{stage}]"))
}

/// The stores of every rank, with what is held throughout.
fn stores(lowered: &mut Lowered, schedule: &Schedule, site: &Site) {
    for (stage, memory) in (0u32..).zip(&schedule.stages) {
        for replica in 0..site.replicas {
            let name = rank_name(site, stage, replica);
            let platform = &mut lowered.platform;
            let bound = memory.resident_bound.map_or(u64::MAX, u64::from);
            let ids = RankIds {
                compute: StreamId(0),
                memory: site.ranks[site.rank(stage, replica)]
                    .memory
                    .unwrap_or_else(|| platform.store(format!("{name}.memory"), memory.capacity)),
                resident: platform.store(format!("{name}.resident"), bound),
            };
            for &(kind, bytes) in memory.persistent.iter().filter(|&&(_, bytes)| bytes > 0) {
                let kind = lowered.program.kind(kind);
                lowered.start.stores.push((ids.memory, kind, bytes));
            }
            lowered.ranks.push(ids);
        }
    }
}

/// The engine's group of each group of a channel that somebody joins, by the class of the lanes that do: a rank may be in
/// one of each at the same time, and must not meet another lane of its peers.
type Groups = BTreeMap<(u32, u8, u32), GroupId>;

fn groups(program: &mut Program, schedule: &Schedule, costs: &CostBook, site: &Site) -> Groups {
    let mut joined: BTreeSet<(u32, u8, u32)> = BTreeSet::new();
    for lane in &schedule.lanes {
        let class = class(lane.kind);
        for item in lane.blocks.iter().flat_map(|block| &block.items) {
            let Item::Execute(op) = item else { continue };
            let OpCost::Collective(phases) = &costs.ops[op.0 as usize] else { continue };
            for &CollectivePhase { channel, .. } in phases {
                let of_rank = &site.channels[channel as usize].of_rank;
                let ranks = (0..site.replicas).map(|replica| site.rank(lane.stage, replica));
                joined.extend(ranks.filter_map(|rank| Some((channel, class, of_rank[rank]?))));
            }
        }
    }
    let group = |(channel, class, group): (u32, u8, u32)| {
        let (members, route) = site.channels[channel as usize].groups[group as usize];
        ((channel, class, group), program.group(members, Some(route)))
    };
    joined.into_iter().map(group).collect()
}

/// An object of the engine that a slot stands for, as seen from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Signal(u32),
    /// The memory, and what counts residents, of the same replica of a stage.
    Memory(u32),
    Resident(u32),
    Hbm,
    Sms,
    /// The way from one stage to another.
    Way(u32, u32),
    /// The memory of the host beside a rank, and the ways there and back.
    HostMemory,
    ToHost,
    FromHost,
    /// A channel, and the class of the lane that joins.
    Channel(u32, u8),
}

/// Finds the objects of a rank.
struct Objects<'a> {
    site: &'a Site,
    ranks: &'a [RankIds],
    groups: &'a Groups,
}

impl Objects<'_> {
    fn id(&self, object: Object, stage: u32, replica: u32) -> u32 {
        let rank = |stage| self.site.rank(stage, replica);
        let own = &self.site.ranks[rank(stage)];
        let host = || own.host.expect("a rank that offloads has a host");
        match object {
            Object::HostMemory => host().memory.0,
            Object::ToHost => host().out.0,
            Object::FromHost => host().back.0,
            Object::Signal(signal) => signal * self.site.replicas + replica,
            Object::Memory(stage) => self.ranks[rank(stage)].memory.0,
            Object::Resident(stage) => self.ranks[rank(stage)].resident.0,
            Object::Hbm => own.hbm.expect("a rank with kernels has HBM").0,
            Object::Sms => own.sms.expect("a rank with kernels has SMs").0,
            Object::Way(from, to) => self.site.ranks[rank(from)].to[&to].0,
            Object::Channel(channel, class) => {
                let group = self.site.channels[channel as usize].of_rank[rank(stage)];
                self.groups[&(channel, class, group.expect("it is in the channel"))].0
            }
        }
    }
}

/// The lowering of one lane: slots, activities and sizes are numbered as they appear, so that lanes that do the same
/// thing get the same blocks.
struct LaneLowering<'a> {
    schedule: &'a Schedule,
    graph: &'a OpGraph,
    costs: &'a CostBook,
    site: &'a Site,
    lane: &'a Lane,
    program: &'a mut Program,
    slots: Vec<Object>,
    by_object: BTreeMap<Object, Slot>,
    activities: Vec<Activity>,
    sizes: Vec<u64>,
    /// What each activity does.
    tasks: Vec<Task>,
    /// How many of them are of earlier blocks.
    begun: usize,
    /// The signals that count when a task has ended.
    ends: Vec<(SignalId, Task)>,
}

impl<'a> LaneLowering<'a> {
    fn new(
        schedule: &'a Schedule,
        graph: &'a OpGraph,
        costs: &'a CostBook,
        site: &'a Site,
        lane: &'a Lane,
        program: &'a mut Program,
    ) -> Self {
        let (slots, by_object, activities, sizes) = Default::default();
        let (tasks, begun, ends) = Default::default();
        Self {
            schedule,
            graph,
            costs,
            site,
            lane,
            program,
            slots,
            by_object,
            activities,
            sizes,
            tasks,
            begun,
            ends,
        }
    }

    fn block(&mut self, block: &Block) -> Vec<Op> {
        let mut ops = Vec::with_capacity(block.items.len());
        self.begun = self.tasks.len();
        for &item in &block.items {
            self.item(item, &mut ops);
        }
        ops
    }

    fn item(&mut self, item: Item, ops: &mut Vec<Op>) {
        match item {
            Item::Execute(op) => self.execute(op, ops),
            Item::Allocate(storage, place) => {
                let (store, bytes, kind) = self.memory(storage, place);
                // A host's pages are locked beforehand: there are no more of them.
                let outside = matches!(place, Place::Host(_));
                let waits = self.schedule.stages[place.stage() as usize].waits && !outside;
                let shortage = if waits { Shortage::Wait } else { Shortage::Fail };
                // What runs next comes before what runs ahead.
                let priority = u8::from(waits && self.lane.kind != LaneKind::Compute);
                let cause = self.program.cause(cause::MEMORY);
                ops.push(Op::Acquire { store, bytes, kind, shortage, priority, cause });
            }
            Item::Free(storage, place) => {
                let (store, bytes, kind) = self.memory(storage, place);
                ops.push(Op::Release { store, bytes, kind });
            }
            Item::Copy { storage, from, to } => {
                let bytes = self.graph.stored(storage).bytes;
                let activity = match (from, to) {
                    (Place::Host(_), _) => self.host_copy(bytes, TaskKind::Reload),
                    (_, Place::Host(_)) => self.host_copy(bytes, TaskKind::Offload),
                    _ => {
                        let out = matches!(to, Place::Partner(_));
                        let kind = if out { TaskKind::Eviction } else { TaskKind::Load };
                        let ends = (from.stage(), to.stage());
                        let cap = self.costs.copies[from.stage() as usize];
                        let cause = self.program.cause(cause::TRANSFER);
                        self.moving(Message { latency: Time::ZERO, bytes, cap }, ends, cause, kind)
                    }
                };
                ops.push(Op::Run { activity });
            }
            Item::Enter(place) => {
                let (store, bytes, kind) = self.resident(place);
                let bounded = self.schedule.stages[place.stage() as usize].resident_bound.is_some();
                let shortage = if bounded { Shortage::Wait } else { Shortage::Fail };
                // A visit that runs next comes before a copy that runs ahead.
                let priority = u8::from(self.lane.kind != LaneKind::Compute);
                let cause = self.program.cause(cause::MEMORY);
                ops.push(Op::Acquire { store, bytes, kind, shortage, priority, cause });
            }
            Item::Leave(place) => {
                let (store, bytes, kind) = self.resident(place);
                ops.push(Op::Release { store, bytes, kind });
            }
            Item::Signal(signal) | Item::SignalStep(signal) => {
                let done = self.tasks[self.begun..].last();
                self.ends.extend(done.map(|&task| (signal, task)));
                let counter = self.slot(Object::Signal(signal.0));
                let all = matches!(item, Item::SignalStep(_));
                let amount = if all { self.schedule.micro_batches } else { 1 };
                ops.push(Op::Add { counter, amount, after: None });
            }
            Item::Lead(list) => self.issue(list, |(lead, _)| lead, ops),
            Item::Follow(list) => self.issue(list, |(_, rest)| rest, ops),
            Item::Send(signal, hop) => {
                let counter = self.slot(Object::Signal(signal.0));
                let cause = self.program.cause(cause::COMMUNICATION);
                let message = self.costs.message(hop);
                let task = Task { kind: TaskKind::Message(hop), bytes: message.bytes };
                let flight = self.activity(Activity::lasting(message.alone(), cause), task);
                self.ends.push((signal, task));
                ops.push(Op::Add { counter, amount: 1, after: Some(flight) });
            }
            Item::Carry(signal, hop) => {
                let counter = self.slot(Object::Signal(signal.0));
                let cause = self.program.cause(cause::COMMUNICATION);
                let message = self.costs.message(hop);
                let kind = TaskKind::Message(hop);
                let activity = self.moving(message, (hop.from, hop.to), cause, kind);
                self.ends.push((signal, Task { kind, bytes: message.bytes }));
                ops.extend([Op::Run { activity }, Op::Add { counter, amount: 1, after: None }]);
            }
            Item::Await { signal, nth, why } => {
                let cause = self.program.cause(match why {
                    Why::Bubble => cause::BUBBLE,
                    Why::Skew => cause::SKEW,
                    Why::Communication => cause::COMMUNICATION,
                    Why::Transfer => cause::TRANSFER,
                    Why::Launch => cause::LAUNCH,
                    Why::Memory => cause::MEMORY,
                });
                let at_least = match nth {
                    Nth::MicroBatch => Affine::offset(1, 0),
                    Nth::Number(before) => Affine::offset(1 - before as i32, 1),
                };
                ops.push(Op::Wait { counter: self.slot(Object::Signal(signal.0)), at_least, cause });
            }
            Item::Mark => ops.push(Op::Mark),
        }
    }

    fn issue(&mut self, list: IssueId, part: impl Fn((Time, Time)) -> Time, ops: &mut Vec<Op>) {
        let cause = self.program.cause(cause::LAUNCH);
        let time = part(self.costs.issue(&self.schedule.issues[list.0 as usize]));
        let activity =
            self.activity(Activity::lasting(time, cause), Task { kind: TaskKind::Issue, bytes: 0 });
        ops.push(Op::Run { activity });
    }

    fn execute(&mut self, op: OpId, ops: &mut Vec<Op>) {
        let again = self.graph.get(op).phase == Phase::Recompute;
        let own = self.program.cause(if again { cause::RECOMPUTE } else { cause::COMPUTE });
        let costs = self.costs;
        let task = |bytes| Task { kind: TaskKind::Operator(op), bytes };
        match &costs.ops[op.0 as usize] {
            OpCost::Lasting(time) => {
                let activity = self.activity(Activity::lasting(*time, own), task(0));
                ops.push(Op::Run { activity });
            }
            &OpCost::Kernel { fixed, bytes, speed, sms } => {
                let route = Some(self.slot(Object::Hbm));
                let pool = self.slot(Object::Sms);
                let units = Some(Units { pool, want: sms, priority: 1, table: CapTableId(speed) });
                let (latency, cap) = (fixed, Rate::UNLIMITED);
                let kernel = Activity { latency, work: bytes, cap, route, units, cause: own };
                let activity = self.activity(kernel, task(0));
                ops.push(Op::Run { activity });
            }
            OpCost::Collective(phases) => {
                let (communication, skew) =
                    (self.program.cause(cause::COMMUNICATION), self.program.cause(cause::SKEW));
                for phase in phases {
                    let group = self.slot(Object::Channel(phase.channel, class(self.lane.kind)));
                    // The route is the group's.
                    let joined = Activity {
                        latency: phase.latency,
                        work: phase.bytes,
                        cap: phase.cap,
                        route: None,
                        units: None,
                        cause: communication,
                    };
                    let activity = self.activity(joined, task(phase.bytes));
                    let sms = self.site.channels[phase.channel as usize].sms;
                    let pool = (self.lane.kind.is_beside() && sms > 0).then(|| self.slot(Object::Sms));
                    ops.extend(pool.map(|pool| Op::Hold {
                        pool,
                        units: sms,
                        priority: 0,
                        cause: communication,
                    }));
                    ops.push(Op::Join { group, activity, cause: skew });
                    ops.extend(pool.map(|pool| Op::Drop { pool, units: sms }));
                }
            }
        }
    }

    /// A copy between a GPU and its host.
    fn host_copy(&mut self, bytes: u64, kind: TaskKind) -> Affine {
        let [out, back] = self.costs.host_copies.expect("who offloads knows what copies cost");
        let (way, cost) = match kind {
            TaskKind::Reload => (Object::FromHost, back),
            _ => (Object::ToHost, out),
        };
        let (route, cause) = (self.slot(way), self.program.cause(cause::TRANSFER));
        let cap = cost.at_most.map_or(Rate::UNLIMITED, Rate::per_second);
        let copy = Activity { latency: cost.latency, cap, ..Activity::moving(bytes, route, cause) };
        self.activity(copy, Task { kind, bytes })
    }

    fn memory(&mut self, storage: StorageId, place: Place) -> (Slot, Affine, KindId) {
        let name = match place {
            Place::Partner(_) => kind::HELD_FOR_PARTNER,
            Place::Home(_) => self.graph.kind(storage),
            Place::Host(_) => kind::OFFLOADED,
        };
        let store = self.slot(match place {
            Place::Host(_) => Object::HostMemory,
            _ => Object::Memory(place.stage()),
        });
        (store, self.size(self.graph.stored(storage).bytes), self.program.kind(name))
    }

    fn resident(&mut self, place: Place) -> (Slot, Affine, KindId) {
        let name = match place {
            Place::Home(_) | Place::Host(_) => kind::RESIDENT,
            Place::Partner(_) => kind::RESIDENT_FOR_PARTNER,
        };
        let store = self.slot(Object::Resident(place.stage()));
        (store, self.size(1), self.program.kind(name))
    }

    fn slot(&mut self, object: Object) -> Slot {
        let slots = &mut self.slots;
        *self.by_object.entry(object).or_insert_with(|| {
            slots.push(object);
            (slots.len() - 1) as Slot
        })
    }

    /// Bytes on the way between two stages, where there is one that takes time.
    fn moving(
        &mut self,
        Message { latency, bytes, cap }: Message,
        (from, to): (u32, u32),
        cause: CauseId,
        kind: TaskKind,
    ) -> Affine {
        let task = Task { kind, bytes };
        if bytes == 0 || !self.site.ranks[self.site.rank(from, 0)].to.contains_key(&to) {
            return self.activity(Activity::lasting(latency, cause), task);
        }
        let route = self.slot(Object::Way(from, to));
        self.activity(Activity { latency, cap, ..Activity::moving(bytes, route, cause) }, task)
    }

    fn activity(&mut self, activity: Activity, task: Task) -> Affine {
        self.activities.push(activity);
        self.tasks.push(task);
        Affine::constant(self.activities.len() as i32 - 1)
    }

    fn size(&mut self, bytes: u64) -> Affine {
        self.sizes.push(bytes);
        Affine::constant(self.sizes.len() as i32 - 1)
    }
}

/// The blocks of a lane, those of the lane before where they are the same.
fn share(program: &mut Program, lane: &Lane, bodies: Vec<Vec<Op>>, before: &[BlockId]) -> Vec<BlockId> {
    let mut blocks = Vec::with_capacity(bodies.len());
    for (index, (block, ops)) in lane.blocks.iter().zip(bodies).enumerate() {
        let same = before.get(index).copied().filter(|id| {
            let other = &program.blocks[id.index()];
            other.name == block.name && other.ops == ops
        });
        blocks.push(same.unwrap_or_else(|| program.block(block.name.as_str(), ops)));
    }
    blocks
}

/// The calls of a lane over all steps; a run of calls of one block whose arguments grow evenly becomes one.
fn calls(lane: &Lane, blocks: &[BlockId], micro_batches: u32, steps: u32) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for step in 0..steps {
        for call in &lane.calls {
            let block = blocks[call.block as usize];
            let micro_batch = call.micro_batch + step * micro_batches;
            let number = call.number + step * lane.numbers;
            let args = [micro_batch as i32, number as i32];
            let Some(last) = calls.last_mut().filter(|last| last.block == block) else {
                calls.push(Call { block, args, step: [0; 2], repeat: 1 });
                continue;
            };
            if last.repeat == 1 {
                last.step = [args[0] - last.args[0], args[1] - last.args[1]];
            }
            let next = |n: usize| i64::from(last.args[n]) + i64::from(last.step[n]) * i64::from(last.repeat);
            if [next(0), next(1)] == args.map(i64::from) {
                last.repeat += 1;
            } else {
                calls.push(Call { block, args, step: [0; 2], repeat: 1 });
            }
        }
    }
    calls
}
