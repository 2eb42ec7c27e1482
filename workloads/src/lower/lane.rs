//! The lowering of one lane: its items become operations, activities and sizes.

use std::collections::BTreeMap;

use sim_core::fixed::Rate;
use sim_core::id::{CapTableId, CauseId, KindId};
use sim_core::program::{Activity, Affine, Op, Program, Shortage, Slot, Units};
use sim_core::time::Time;

use super::at_once::Step;
use super::class;
use super::objects::Object;
use super::trips::Trips;
use crate::account::{Task, TaskKind};
use crate::cost::{CostBook, Message, OpCost};
use crate::graph::{OpGraph, OpId, Phase, StorageId};
use crate::names::{cause, kind};
use crate::schedule::{IssueId, Item, Lane, LaneKind, Multiprocessors, Nth, Schedule, SignalId, Why};
use crate::site::Site;
use crate::transfer::{Medium, Tier};

/// The lowering of one lane: slots, activities and sizes are numbered as they appear, so that lanes that do the same
/// thing get the same blocks.
pub(super) struct LaneLowering<'a> {
    schedule: &'a Schedule,
    pub(super) graph: &'a OpGraph,
    costs: &'a CostBook,
    site: &'a Site,
    lane: &'a Lane,
    pub(super) program: &'a mut Program,
    pub(super) trips: &'a mut Trips,
    pub(super) slots: Vec<Object>,
    by_object: BTreeMap<Object, Slot>,
    pub(super) activities: Vec<Activity>,
    pub(super) sizes: Vec<u64>,
    /// What each activity does.
    pub(super) tasks: Vec<Task>,
    /// How many of them are of earlier blocks.
    begun: usize,
    /// The signals that count when a task has ended.
    pub(super) ends: Vec<(SignalId, Task)>,
}

impl<'a> LaneLowering<'a> {
    pub(super) fn new(
        schedule: &'a Schedule,
        graph: &'a OpGraph,
        costs: &'a CostBook,
        site: &'a Site,
        lane: &'a Lane,
        (program, trips): (&'a mut Program, &'a mut Trips),
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
            trips,
            slots,
            by_object,
            activities,
            sizes,
            tasks,
            begun,
            ends,
        }
    }

    pub(super) fn block(&mut self, steps: impl IntoIterator<Item = Step>) -> Vec<Op> {
        let mut ops = Vec::new();
        self.begun = self.tasks.len();
        for step in steps {
            match step {
                Step::Item(item) => self.item(item, &mut ops),
                Step::Change(kinds) => ops.extend(kinds.into_iter().map(|change| self.change(change))),
            }
        }
        ops
    }

    /// Takes bytes of a kind of the memory of the lane's stage, or gives them back.
    fn change(&mut self, (kind, bytes): (&'static str, i64)) -> Op {
        let store = self.slot(Object::Memory(self.lane.stage));
        let (amount, kind) = (self.size(bytes.unsigned_abs()), self.program.kind(kind));
        if bytes < 0 {
            return Op::Release { store, bytes: amount, kind };
        }
        let cause = self.program.cause(cause::MEMORY);
        Op::Acquire { store, bytes: amount, kind, shortage: Shortage::Fail, priority: 0, cause }
    }

    fn item(&mut self, item: Item, ops: &mut Vec<Op>) {
        match item {
            Item::Execute(op) => self.execute(op, ops),
            Item::Allocate(storage, place) => ops.push(self.allocate(storage, place)),
            Item::Free(storage, place) => ops.push(self.release(storage, place)),
            Item::Copy { storage, from, to } => ops.push(self.copy(storage, from, to)),
            Item::Depart { storage, to } => self.depart(storage, to, ops),
            Item::Idle(storage) => self.idle(storage, ops),
            Item::Recall(storage) => self.recall(storage, ops),
            Item::Return { storage, from } => self.restore(storage, from, ops),
            Item::Dismiss(storage) => self.dismiss(storage, ops),
            Item::Enter(place) => {
                let (store, bytes, kind) = self.resident(place);
                let bounded = self.schedule.stages[place.owner as usize].resident_bound.is_some();
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
                    Nth::StepBefore => Affine::offset(1 - self.schedule.micro_batches as i32, 0),
                    Nth::Before(before) => Affine::offset(1 - before as i32, 0),
                    Nth::Number(before) => Affine::offset(1 - before as i32, 1),
                };
                ops.push(Op::Wait { counter: self.slot(Object::Signal(signal.0)), at_least, cause });
            }
            Item::Meet => {
                let skew = self.program.cause(cause::SKEW);
                let group = self.slot(Object::Meeting(self.lane.stage));
                let task = Task { kind: TaskKind::Meeting, bytes: 0 };
                let activity = self.activity(Activity::lasting(Time::ZERO, skew), task);
                ops.push(Op::Join { group, activity, cause: skew });
            }
            Item::Mark => ops.push(Op::Mark),
        }
    }

    fn issue(&mut self, list: IssueId, part: impl Fn((Time, Time)) -> Time, ops: &mut Vec<Op>) {
        let cause = self.program.cause(cause::LAUNCH);
        let time = part(self.costs.issue(self.graph, &self.schedule.issues[list.0 as usize]));
        let activity =
            self.activity(Activity::lasting(time, cause), Task { kind: TaskKind::Issue, bytes: 0 });
        ops.push(Op::Run { activity });
    }

    /// Runs a kernel on the SMs that its lane gets, of which it can use some.
    fn kernel(&mut self, kernel: Activity, (sms, speed): (u32, u32), task: Task, ops: &mut Vec<Op>) {
        let pool = self.slot(Object::Sms);
        let want = sms.min(self.lane.multiprocessors.most());
        let Multiprocessors::Alone(all) = self.lane.multiprocessors else {
            let units = Some(Units { pool, want, priority: 1, table: CapTableId(speed) });
            let activity = self.activity(Activity { units, ..kernel }, task);
            return ops.push(Op::Run { activity });
        };
        let cap = self.costs.speeds[speed as usize].cap(want);
        let activity = self.activity(Activity { cap, ..kernel }, task);
        // What trains waits for rows of later batches, what reads them for the step before.
        let waits = if self.lane.kind == LaneKind::Compute { cause::TRANSFER } else { cause::BUBBLE };
        let cause = self.program.cause(waits);
        ops.push(Op::Hold { pool, units: all, priority: 1, cause });
        ops.push(Op::Run { activity });
        ops.push(Op::Drop { pool, units: all });
    }

    fn execute(&mut self, op: OpId, ops: &mut Vec<Op>) {
        let node = self.graph.get(op);
        let again = node.phase == Phase::Recompute;
        let own = self.program.cause(if again { cause::RECOMPUTE } else { cause::COMPUTE });
        let costs = self.costs;
        let task = |bytes| Task { kind: TaskKind::Operator(op), bytes };
        match costs.of(node) {
            OpCost::Lasting(time) => {
                let activity = self.activity(Activity::lasting(*time, own), task(0));
                ops.push(Op::Run { activity });
            }
            &OpCost::Kernel { fixed, bytes, speed, sms } => {
                let route = self.slot(Object::Hbm);
                let kernel = Activity { latency: fixed, ..Activity::moving(bytes, route, own) };
                self.kernel(kernel, (sms, speed), task(0), ops);
            }
            &OpCost::Read { fixed, bytes, way, speed, sms } => {
                let (route, cause) = (self.slot(Object::Rows(way)), self.program.cause(cause::TRANSFER));
                let read = Activity { latency: fixed, ..Activity::moving(bytes, route, cause) };
                self.kernel(read, (sms, speed), task(bytes), ops);
            }
            &OpCost::Fetch { bytes, way, cap } => {
                let (route, cause) = (self.slot(Object::Rows(way)), self.program.cause(cause::TRANSFER));
                let fetch = Activity { cap, ..Activity::moving(bytes, route, cause) };
                let activity = self.activity(fetch, task(bytes));
                ops.push(Op::Run { activity });
            }
            &OpCost::Transfer { from, to, bytes, latency, cap } => {
                let (route, cause) =
                    (self.slot(Object::Between(from, to)), self.program.cause(cause::TRANSFER));
                let copy = Activity { latency, cap, ..Activity::moving(bytes, route, cause) };
                let activity = self.activity(copy, task(bytes));
                ops.push(Op::Run { activity });
            }
            &OpCost::Host { bytes, cap } => {
                let (route, cause) = (self.slot(Object::Processors), self.program.cause(cause::TRANSFER));
                let work = Activity { cap, ..Activity::moving(bytes, route, cause) };
                let activity = self.activity(work, task(bytes));
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

    pub(super) fn allocate(&mut self, storage: StorageId, place: Tier) -> Op {
        let (store, bytes, kind) = self.memory(storage, place);
        // Drives are as large as they are, and a host's memory is, unless little of it is page-locked.
        let waits = match place.is_hbm() {
            true => self.schedule.stages[place.owner as usize].waits,
            false => self.waits_for_buffer(place),
        };
        let shortage = if waits { Shortage::Wait } else { Shortage::Fail };
        // What runs next comes before what runs ahead.
        let priority = u8::from(waits && self.lane.kind != LaneKind::Compute);
        Op::Acquire { store, bytes, kind, shortage, priority, cause: self.program.cause(cause::MEMORY) }
    }

    /// Whether a copy of what is offloaded waits for a page-locked buffer where there is none.
    pub(super) fn waits_for_buffer(&self, to: Tier) -> bool {
        let tiers = &self.site.ranks[self.site.rank(self.lane.stage, 0)].tiers;
        tiers.get(&to.medium).is_some_and(|tier| tier.waits)
    }

    pub(super) fn release(&mut self, storage: StorageId, place: Tier) -> Op {
        let (store, bytes, kind) = self.memory(storage, place);
        Op::Release { store, bytes, kind }
    }

    pub(super) fn copy(&mut self, storage: StorageId, from: Tier, to: Tier) -> Op {
        let bytes = self.graph.stored(storage).bytes;
        let home = Tier::hbm(self.graph.stored(storage).stage);
        let (returns, cause) = (to == home, self.program.cause(cause::TRANSFER));
        let medium = if returns { from.medium } else { to.medium };
        let kind = TaskKind::Transfer { storage, medium, returns };
        if medium == Medium::HBM {
            let cap = self.costs.copies[from.owner as usize];
            let message = Message { latency: Time::ZERO, bytes, cap };
            let activity = self.moving(message, (from.owner, to.owner), cause, kind);
            return Op::Run { activity };
        }
        let costs = self.costs.tier_copies(self.lane.stage, medium);
        let (cost, route) = match returns {
            true => (costs[1], self.slot(Object::From(medium))),
            false => (costs[0], self.slot(Object::To(medium))),
        };
        let cap = cost.at_most.map_or(Rate::UNLIMITED, Rate::per_second);
        let copy = Activity { latency: cost.latency, cap, ..Activity::moving(bytes, route, cause) };
        Op::Run { activity: self.activity(copy, Task { kind, bytes }) }
    }

    fn memory(&mut self, storage: StorageId, place: Tier) -> (Slot, Affine, KindId) {
        let is_home = place.owner == self.graph.stored(storage).stage;
        let (name, store) = match place.is_hbm() {
            true if is_home => (self.graph.kind(storage), Object::Memory(place.owner)),
            true => (kind::HELD_FOR_PARTNER, Object::Memory(place.owner)),
            false => (kind::OFFLOADED, Object::Tier(place.medium)),
        };
        let store = self.slot(store);
        (store, self.size(self.graph.stored(storage).bytes), self.program.kind(name))
    }

    fn resident(&mut self, place: Tier) -> (Slot, Affine, KindId) {
        let is_own = place.owner == self.lane.stage;
        let name = if is_own { kind::RESIDENT } else { kind::RESIDENT_FOR_PARTNER };
        let store = self.slot(Object::Resident(place.owner));
        (store, self.size(1), self.program.kind(name))
    }

    pub(super) fn slot(&mut self, object: Object) -> Slot {
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
