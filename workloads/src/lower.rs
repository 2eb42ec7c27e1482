//! Lowering: a schedule and its cost book become a platform and a program. Tensors, stages and micro-batches end here.

use std::collections::BTreeMap;

use sim_core::id::{BlockId, CauseId, CounterId, FluidId, KindId, RouteId, StoreId, StreamId};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, Op, Program, Shortage, Slot, StartState};
use sim_core::time::Time;

use crate::cost::{CostBook, PartnerLink};
use crate::graph::{OpGraph, Phase, Purpose, StorageId};
use crate::names::{cause, kind};
use crate::schedule::{Block, Item, Lane, LaneKind, Nth, Place, Schedule, Why};

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
    /// One per stage.
    pub stages: Vec<StageIds>,
    /// What each stream does, indexed by [`StreamId`].
    pub streams: Vec<StreamRole>,
    /// The links between partners, one per direction, in which a rate is given.
    pub partner_links: Vec<FluidId>,
}

/// The stream and the stores of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageIds {
    /// The stream of its operators. Its marks come in pairs, one pair a step: the start of the stage's first operator
    /// and the end of its last.
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
    /// What it does there.
    pub kind: LaneKind,
}

/// Lowers `steps` repetitions of a schedule. Arguments of every block are the micro-batch and the number of its call,
/// counted over all steps.
pub fn lower(schedule: &Schedule, graph: &OpGraph, costs: &CostBook, steps: u32) -> Lowered {
    let mut lowered = Lowered::default();
    for name in cause::ALL {
        lowered.program.cause(name);
    }
    stores(&mut lowered, schedule);
    for _ in &schedule.signals {
        lowered.program.counter();
    }
    // Blocks of the lane before of the same kind: lanes that do the same thing share them.
    let mut before: BTreeMap<u8, Vec<BlockId>> = BTreeMap::new();
    for lane in &schedule.lanes {
        let route = route(&mut lowered.platform, lane, schedule, costs);
        lowered.partner_links.extend(route.map(|(_, fluid)| fluid));
        let program = &mut lowered.program;
        let mut lowering = LaneLowering {
            schedule,
            graph,
            costs,
            stages: &lowered.stages,
            // A visit that runs next comes before a copy that runs ahead.
            priority: u8::from(lane.kind != LaneKind::Compute),
            program,
            route: route.map(|(route, _)| route),
            slots: Vec::new(),
            by_object: BTreeMap::new(),
            activities: Vec::new(),
            sizes: Vec::new(),
        };
        let bodies: Vec<Vec<Op>> = lane.blocks.iter().map(|block| lowering.block(block)).collect();
        let LaneLowering { slots, activities, sizes, .. } = lowering;
        let costs = program.cost_table(activities, sizes);
        let binding = program.binding(slots, Some(costs));
        let shared = before.entry(class(lane.kind)).or_default();
        let blocks = share(program, lane, bodies, shared);
        let role = program.role(calls(lane, &blocks, schedule.micro_batches, steps));
        *shared = blocks;
        let stream = program.stream(lane.name(), binding, Body::Role(role));
        program.streams[stream.index()].device = lane.stage;
        lowered.streams.push(StreamRole { stage: lane.stage, kind: lane.kind });
        if lane.kind == LaneKind::Compute {
            lowered.stages[lane.stage as usize].compute = stream;
        }
    }
    lowered
}

fn class(kind: LaneKind) -> u8 {
    match kind {
        LaneKind::Compute => 0,
        LaneKind::Link { .. } => 1,
        LaneKind::Evict => 2,
        LaneKind::Load => 3,
    }
}

/// The stores of every stage, with what is held throughout.
fn stores(lowered: &mut Lowered, schedule: &Schedule) {
    let weights = lowered.program.kind(kind::WEIGHTS);
    for (stage, memory) in schedule.stages.iter().enumerate() {
        let platform = &mut lowered.platform;
        let bound = memory.resident_bound.map_or(u64::MAX, u64::from);
        let ids = StageIds {
            compute: StreamId(0),
            memory: platform.store(format!("stage[{stage}].memory"), memory.capacity),
            resident: platform.store(format!("stage[{stage}].resident"), bound),
        };
        if memory.persistent > 0 {
            lowered.start.stores.push((ids.memory, weights, memory.persistent));
        }
        lowered.stages.push(ids);
    }
}

/// The route of a copy lane, where copies take time.
fn route(
    platform: &mut Platform,
    lane: &Lane,
    schedule: &Schedule,
    costs: &CostBook,
) -> Option<(RouteId, FluidId)> {
    let PartnerLink::Rate(rate) = costs.partner_link else { return None };
    let partner = lane.blocks.iter().flat_map(|block| &block.items).find_map(|item| match *item {
        Item::Enter(Place::Partner(stage)) | Item::Leave(Place::Partner(stage)) => Some(stage),
        _ => None,
    })?;
    debug_assert!((partner as usize) < schedule.stages.len(), "a partner is a stage");
    let (from, to) = match lane.kind {
        LaneKind::Load => (partner, lane.stage),
        _ => (lane.stage, partner),
    };
    let transfer = cause::ALL.iter().position(|&name| name == cause::TRANSFER)?;
    let fluid = platform.fluid(format!("stage[{from}].to[{to}]"), rate, CauseId::from(transfer));
    Some((platform.route([Demand::on(fluid)]), fluid))
}

/// An object of the engine that a slot stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Counter(CounterId),
    Store(StoreId),
    Route(RouteId),
}

/// The lowering of one lane: slots, activities and sizes are numbered as they appear, so that lanes that do the same
/// thing get the same blocks.
struct LaneLowering<'a> {
    schedule: &'a Schedule,
    graph: &'a OpGraph,
    costs: &'a CostBook,
    stages: &'a [StageIds],
    priority: u8,
    program: &'a mut Program,
    route: Option<RouteId>,
    slots: Vec<u32>,
    by_object: BTreeMap<Object, Slot>,
    activities: Vec<Activity>,
    sizes: Vec<u64>,
}

impl LaneLowering<'_> {
    fn block(&mut self, block: &Block) -> Vec<Op> {
        let mut ops = Vec::with_capacity(block.items.len());
        for &item in &block.items {
            self.item(item, &mut ops);
        }
        ops
    }

    fn item(&mut self, item: Item, ops: &mut Vec<Op>) {
        match item {
            Item::Execute(op) => {
                let again = self.graph.get(op).phase == Phase::Recompute;
                let cause = self.program.cause(if again { cause::RECOMPUTE } else { cause::COMPUTE });
                let activity = self.lasting(self.costs.op(op), cause);
                ops.push(Op::Run { activity });
            }
            Item::Allocate(storage, place) => {
                let (store, bytes, kind) = self.memory(storage, place);
                let (shortage, cause) = (Shortage::Fail, self.program.cause(cause::MEMORY));
                ops.push(Op::Acquire { store, bytes, kind, shortage, priority: 0, cause });
            }
            Item::Free(storage, place) => {
                let (store, bytes, kind) = self.memory(storage, place);
                ops.push(Op::Release { store, bytes, kind });
            }
            Item::Copy(storage, _) => {
                let bytes = self.graph.stored(storage).bytes;
                let cause = self.program.cause(cause::TRANSFER);
                let activity = match self.route {
                    Some(route) => {
                        let route = self.slot(Object::Route(route));
                        self.activity(Activity::moving(bytes, route, cause))
                    }
                    None => self.lasting(Time::ZERO, cause),
                };
                ops.push(Op::Run { activity });
            }
            Item::Enter(place) => {
                let (store, bytes, kind) = self.resident(place);
                let bounded = self.schedule.stages[place.stage() as usize].resident_bound.is_some();
                let shortage = if bounded { Shortage::Wait } else { Shortage::Fail };
                let (priority, cause) = (self.priority, self.program.cause(cause::MEMORY));
                ops.push(Op::Acquire { store, bytes, kind, shortage, priority, cause });
            }
            Item::Leave(place) => {
                let (store, bytes, kind) = self.resident(place);
                ops.push(Op::Release { store, bytes, kind });
            }
            Item::Signal(signal) => {
                let counter = self.counter(signal.0);
                ops.push(Op::Add { counter, amount: 1, after: None });
            }
            Item::Send(signal, hop) | Item::Carry(signal, hop) => {
                let counter = self.counter(signal.0);
                let cause = self.program.cause(cause::COMMUNICATION);
                let activity = self.lasting(self.costs.message(hop), cause);
                // A carried message arrives when its link is free again. It departs now: so whoever waits for it sees
                // communication, not a bubble, while it is under way.
                ops.push(Op::Add { counter, amount: 1, after: Some(activity) });
                if matches!(item, Item::Carry(..)) {
                    ops.push(Op::Run { activity });
                }
            }
            Item::Await { signal, nth, why } => {
                let cause = self.program.cause(match why {
                    Why::Bubble => cause::BUBBLE,
                    Why::Skew => cause::SKEW,
                    Why::Transfer => cause::TRANSFER,
                });
                let at_least = match nth {
                    Nth::MicroBatch => Affine::offset(1, 0),
                    Nth::Number(before) => Affine::offset(1 - before as i32, 1),
                };
                ops.push(Op::Wait { counter: self.counter(signal.0), at_least, cause });
            }
            Item::Mark => ops.push(Op::Mark),
        }
    }

    fn memory(&mut self, storage: StorageId, place: Place) -> (Slot, Affine, KindId) {
        let stored = self.graph.stored(storage);
        let again = self.graph.visit(stored.stage, stored.chunk, Phase::Recompute);
        let recomputed = again.iter().any(|&op| self.graph.get(op).writes.contains(&storage));
        let name = match (place, stored.purpose) {
            (Place::Partner(_), _) => kind::HELD_FOR_PARTNER,
            _ if recomputed => kind::RECOMPUTED,
            (_, Purpose::WeightGradientInput) => kind::FOR_WEIGHT_GRADIENTS,
            (_, Purpose::Activation | Purpose::Checkpoint) => kind::ACTIVATIONS,
        };
        let store = self.slot(Object::Store(self.stages[place.stage() as usize].memory));
        (store, self.size(stored.bytes), self.program.kind(name))
    }

    fn resident(&mut self, place: Place) -> (Slot, Affine, KindId) {
        let name = match place {
            Place::Home(_) => kind::RESIDENT,
            Place::Partner(_) => kind::RESIDENT_FOR_PARTNER,
        };
        let store = self.slot(Object::Store(self.stages[place.stage() as usize].resident));
        (store, self.size(1), self.program.kind(name))
    }

    fn counter(&mut self, signal: u32) -> Slot {
        self.slot(Object::Counter(CounterId(signal)))
    }

    fn slot(&mut self, object: Object) -> Slot {
        let slots = &mut self.slots;
        *self.by_object.entry(object).or_insert_with(|| {
            slots.push(match object {
                Object::Counter(id) => id.0,
                Object::Store(id) => id.0,
                Object::Route(id) => id.0,
            });
            (slots.len() - 1) as Slot
        })
    }

    fn lasting(&mut self, time: Time, cause: CauseId) -> Affine {
        self.activity(Activity::lasting(time, cause))
    }

    fn activity(&mut self, activity: Activity) -> Affine {
        self.activities.push(activity);
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
