//! The execution without time. Counters only grow and lanes do not branch, so whatever order the lanes are taken in, they
//! get equally far; what must not depend on that order is judged by clocks. A storage that departs may do two things, so that
//! a step in which one may stay is executed twice: once all leave, once all stay.

use std::collections::BTreeMap;

use super::clusters::clusters;
use super::local::{self, Again};
use super::{Fault, Problem};
use crate::graph::{OpGraph, OpId, Phase, StorageId};
use crate::schedule::{Item, Nth, Schedule, SignalId};
use crate::transfer::Tier;

/// Executes one step and reports what is wrong.
pub(super) fn replay(pass: &'static str, schedule: &Schedule, graph: &OpGraph) -> Vec<Problem> {
    let mut items = schedule.lanes.iter().flat_map(|lane| &lane.blocks).flat_map(|block| &block.items);
    let may_stay = items.any(|item| matches!(item, Item::Recall(_)));
    let mut found = step(schedule, graph, Recalled::TooLate);
    if may_stay && found.is_empty() {
        found = step(schedule, graph, Recalled::InTime);
    }
    let problem = |(((lane, block, _), fault), (micro_batch, times)): (Key, (u32, u32))| {
        let place = schedule.lanes.get(lane as usize).map_or_else(String::new, |lane| {
            format!("{}: {}", lane.name(), lane.blocks[block as usize].name)
        });
        Problem { pass, place, micro_batch, fault, times }
    };
    found.into_iter().map(problem).collect()
}

/// What is wrong, first at which micro-batch and how often.
type Found = BTreeMap<Key, (u32, u32)>;

fn step(schedule: &Schedule, graph: &OpGraph, recalled: Recalled) -> Found {
    let mut replay = Replay::new(schedule, graph, recalled);
    while let Some(lane) = replay.runnable.pop() {
        replay.advance(lane);
    }
    replay.finish();
    replay.found
}

/// When all storages that may stay are recalled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recalled {
    /// When they are away.
    TooLate,
    /// Before their copies begin.
    InTime,
}

/// Lane, block and item, and what is wrong there.
type Key = ((u32, u32, u32), Fault);
/// The lane of problems without one.
const NOWHERE: (u32, u32, u32) = (u32::MAX, 0, 0);

/// What is known of a micro-batch's instance of a storage: whether it is allocated and filled at home, at the partner and where
/// it is away.
#[derive(Clone, Copy, Default)]
struct Instance {
    home: Held,
    partner: Held,
    away: Held,
    /// The lane that used it last, plus one, and after how many of its items.
    last: (u32, u32),
    /// The same of another lane that reads it meanwhile.
    also: (u32, u32),
    /// The same of the one that filled it.
    filled: (u32, u32),
}

impl Instance {
    /// State of the copy in a tier; the stage itself has `home`.
    fn at(&mut self, tier: Tier, home: Tier) -> &mut Held {
        if tier == home {
            &mut self.home
        } else if tier.is_hbm() {
            &mut self.partner
        } else {
            &mut self.away
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Held {
    #[default]
    No,
    Allocated,
    Filled,
}

/// A lane in execution.
#[derive(Clone, Default)]
struct LaneState {
    call: usize,
    /// Items of the call that are done.
    done: usize,
    /// Where the one under way is in its block.
    item: usize,
    executed: u32,
    /// Which lanes share storages with it, its index among them, and how far it knows each of them to be.
    cluster: usize,
    member: usize,
    clock: Vec<u32>,
    waits: Option<(SignalId, u32)>,
}

#[derive(Clone, Default)]
struct SignalState {
    given: u32,
    awaited: u32,
    giver: Option<u32>,
    waiting: Vec<u32>,
    /// The giver's clock at each count, where lanes that share storages hear it.
    clocks: Vec<u32>,
}

struct Replay<'a> {
    schedule: &'a Schedule,
    graph: &'a OpGraph,
    lanes: Vec<LaneState>,
    signals: Vec<SignalState>,
    /// By storage, its first instance.
    first: Vec<usize>,
    instances: Vec<Instance>,
    executions: Vec<u8>,
    residents: Vec<i64>,
    runnable: Vec<u32>,
    recalled: Recalled,
    /// Of instances that depart, by index.
    trips: BTreeMap<usize, Trip>,
    /// By storage, whether blocks of one lane know it, each for itself.
    local: Vec<bool>,
    /// By lane, then block, what of it is executed again.
    again: Vec<Vec<Again>>,
    /// By lane, then block, whether that has been executed: what it alone knows is as it was then.
    executed: Vec<Vec<bool>>,
    /// Whether the block that is executed has been before.
    is_again: bool,
    found: Found,
}

/// How far an instance that departs has come.
#[derive(Clone, Default)]
struct Trip {
    copied: bool,
    idle: bool,
    /// What those know who did the two.
    clock: Vec<u32>,
    /// The lane that waits until it is away.
    waiting: Option<u32>,
}

impl<'a> Replay<'a> {
    fn new(schedule: &'a Schedule, graph: &'a OpGraph, recalled: Recalled) -> Self {
        let micro_batches = schedule.micro_batches as usize;
        let local = match cfg!(debug_assertions) {
            true => vec![false; graph.storages().len()],
            false => local::local(schedule, graph),
        };
        let mut instances = 0;
        let first = local.iter().map(|&local| {
            let first = instances;
            instances += if local { 1 } else { micro_batches };
            first
        });
        let first = first.collect();
        let mut lanes = vec![LaneState::default(); schedule.lanes.len()];
        for (cluster, members) in clusters(schedule, graph).into_iter().enumerate() {
            for (member, &lane) in members.iter().enumerate() {
                let clock = vec![0; members.len()];
                lanes[lane] = LaneState { cluster, member, clock, ..LaneState::default() };
            }
        }
        Self {
            schedule,
            graph,
            runnable: (0..lanes.len() as u32).rev().collect(),
            lanes,
            signals: vec![SignalState::default(); schedule.signals.len()],
            first,
            instances: vec![Instance::default(); instances],
            executions: vec![0; graph.ops().len() * micro_batches],
            residents: vec![0; schedule.stages.len()],
            recalled,
            trips: BTreeMap::new(),
            again: Again::of(schedule, graph, &local),
            local,
            executed: schedule.lanes.iter().map(|lane| vec![false; lane.blocks.len()]).collect(),
            is_again: false,
            found: BTreeMap::new(),
        }
    }

    /// Executes a lane until it ends or waits.
    fn advance(&mut self, lane: u32) {
        let (program, micro_batches) =
            (&self.schedule.lanes[lane as usize], self.schedule.micro_batches as usize);
        while let Some(call) = program.calls.get(self.lanes[lane as usize].call) {
            let block = call.block as usize;
            self.is_again = self.executed[lane as usize][block];
            while let Some((at, item)) = self.item(lane, block) {
                self.lanes[lane as usize].item = at;
                let nth = |nth| match nth {
                    Nth::MicroBatch => call.micro_batch + 1,
                    // This step is awaited by the next.
                    Nth::StepBefore => 0,
                    Nth::Before(before) => (call.micro_batch + 1).saturating_sub(before),
                    Nth::Number(before) => (call.number + 1).saturating_sub(before),
                };
                if let Item::Await { signal, nth: Nth::StepBefore | Nth::Before(_), .. } = item {
                    let state = &mut self.signals[signal.0 as usize];
                    state.awaited = state.awaited.max(call.micro_batch + 1);
                }
                if let Item::Await { signal, nth: which, .. } = item
                    && !self.hear(lane, signal, nth(which))
                {
                    return;
                }
                if let Item::Return { storage, .. } = item
                    && !self.is_there(lane, self.index(storage, call.micro_batch))
                {
                    return;
                }
                self.lanes[lane as usize].executed += 1;
                self.execute(lane, call.micro_batch, item);
                self.lanes[lane as usize].done += 1;
            }
            if std::mem::replace(&mut self.executed[lane as usize][block], true) {
                for op in &self.again[lane as usize][block].ops {
                    let times =
                        &mut self.executions[op.0 as usize * micro_batches + call.micro_batch as usize];
                    *times = times.saturating_add(1);
                }
            }
            let state = &mut self.lanes[lane as usize];
            (state.call, state.done) = (state.call + 1, 0);
        }
    }

    /// The next item of a block, with its position.
    fn item(&self, lane: u32, block: usize) -> Option<(usize, Item)> {
        let done = self.lanes[lane as usize].done;
        match self.is_again {
            true => self.again[lane as usize][block].items.get(done).copied(),
            false => Some((done, *self.schedule.lanes[lane as usize].blocks[block].items.get(done)?)),
        }
    }

    fn execute(&mut self, lane: u32, micro_batch: u32, item: Item) {
        let at = |place| (lane, micro_batch, place);
        match item {
            Item::Execute(op) => self.operator(lane, micro_batch, op),
            Item::Allocate(storage, place) => {
                let arrives = place == self.home(storage) && self.graph.arrives(storage);
                let (held, ok) = self.held(at(place), storage, |held| held == Held::No);
                *held = if arrives { Held::Filled } else { Held::Allocated };
                self.expect(ok, lane, micro_batch, storage, Fault::AllocatedTwice);
            }
            Item::Free(storage, place) => self.free(at(place), storage),
            Item::Copy { storage, from, to } => {
                let filled = self.read(at(from), storage);
                let (held, room) = self.held(at(to), storage, |held| held != Held::No);
                *held = Held::Filled;
                self.expect(filled, lane, micro_batch, storage, Fault::NotResident);
                self.expect(room, lane, micro_batch, storage, Fault::NotAllocated);
            }
            Item::Depart { storage, .. } => self.depart(lane, micro_batch, storage),
            Item::Idle(storage) => self.trip(lane, micro_batch, storage, |trip| trip.idle = true),
            Item::Return { storage, .. } => self.restore(lane, micro_batch, storage),
            Item::Dismiss(storage) => self.free(at(self.home(storage)), storage),
            Item::Recall(_) => {}
            Item::Enter(place) => self.residents[place.owner as usize] += 1,
            Item::Leave(place) => self.residents[place.owner as usize] -= 1,
            Item::Signal(signal) | Item::Send(signal, _) | Item::Carry(signal, _) => {
                self.give(lane, micro_batch, signal);
            }
            Item::SignalStep(signal) => {
                for _ in 0..self.schedule.micro_batches {
                    self.give(lane, micro_batch, signal);
                }
            }
            Item::Await { .. } | Item::Meet | Item::Mark | Item::Lead(_) | Item::Follow(_) => {}
        }
    }

    fn free(&mut self, (lane, micro_batch, place): (u32, u32, Tier), storage: StorageId) {
        let (held, ok) = self.held((lane, micro_batch, place), storage, |held| held != Held::No);
        *held = Held::No;
        self.expect(ok, lane, micro_batch, storage, Fault::NotAllocated);
    }

    /// A storage that is copied when it is filled, while others may read it.
    fn depart(&mut self, lane: u32, micro_batch: u32, storage: StorageId) {
        if self.recalled == Recalled::InTime {
            return;
        }
        let index = self.index(storage, micro_batch);
        let Instance { home, filled, .. } = self.instances[index];
        self.expect(home == Held::Filled, lane, micro_batch, storage, Fault::NotResident);
        self.ordered(lane, micro_batch, storage, filled);
        self.instances[index].away = Held::Filled;
        self.trip(lane, micro_batch, storage, |trip| trip.copied = true);
    }

    /// Something happens to an instance that departs; who does it knows what it knows. Its bytes go when it is copied and idle.
    fn trip(&mut self, lane: u32, micro_batch: u32, storage: StorageId, change: impl FnOnce(&mut Trip)) {
        if self.recalled == Recalled::InTime {
            return;
        }
        let index = self.index(storage, micro_batch);
        let state = &mut self.lanes[lane as usize];
        state.clock[state.member] = state.executed;
        let trip = self.trips.entry(index).or_default();
        change(trip);
        learn(&mut trip.clock, &state.clock);
        if trip.copied && trip.idle {
            self.instances[index].home = Held::No;
            self.runnable.extend(trip.waiting.take());
        }
    }

    /// Whether an instance can be copied back, or has stayed; if not, the lane waits for it.
    fn is_there(&mut self, lane: u32, index: usize) -> bool {
        if self.recalled == Recalled::InTime {
            return true;
        }
        let trip = self.trips.entry(index).or_default();
        let away = trip.copied && trip.idle;
        if away {
            learn(&mut self.lanes[lane as usize].clock, &trip.clock);
        } else {
            trip.waiting = Some(lane);
        }
        away
    }

    fn restore(&mut self, lane: u32, micro_batch: u32, storage: StorageId) {
        if self.recalled == Recalled::InTime {
            return;
        }
        let at = (lane, micro_batch, self.home(storage));
        let (held, ok) = self.held(at, storage, |held| held == Held::No);
        *held = Held::Filled;
        self.expect(ok, lane, micro_batch, storage, Fault::AllocatedTwice);
        let index = self.index(storage, micro_batch);
        self.instances[index].away = Held::No;
    }

    fn home(&self, storage: StorageId) -> Tier {
        Tier::hbm(self.graph.stored(storage).stage)
    }

    /// The instance of a storage for a micro-batch; what blocks know for themselves has one.
    fn index(&self, StorageId(storage): StorageId, micro_batch: u32) -> usize {
        let later = if self.local[storage as usize] { 0 } else { micro_batch };
        self.first[storage as usize] + later as usize
    }

    fn operator(&mut self, lane: u32, micro_batch: u32, op: OpId) {
        let graph = self.graph;
        let what = graph.get(op);
        let home = Tier::hbm(what.stage);
        let instance = op.0 as usize * self.schedule.micro_batches as usize + micro_batch as usize;
        self.executions[instance] = self.executions[instance].saturating_add(1);
        let taken_in = what.writes.iter().filter(|&&storage| graph.arrives(storage));
        for &storage in what.reads.iter().chain(taken_in) {
            if self.is_known(storage) {
                continue;
            }
            let ok = self.read((lane, micro_batch, home), storage);
            self.expect(ok, lane, micro_batch, storage, Fault::NotResident);
        }
        for &storage in what.writes.iter().filter(|&&storage| !graph.arrives(storage)) {
            if self.is_known(storage) {
                continue;
            }
            let (held, ok) = self.held((lane, micro_batch, home), storage, |held| held != Held::No);
            if ok {
                *held = Held::Filled;
            }
            self.expect(ok, lane, micro_batch, storage, Fault::NotAllocated);
        }
    }

    /// Whether what happens to a storage has been seen before.
    fn is_known(&self, storage: StorageId) -> bool {
        self.is_again && self.local[storage.0 as usize]
    }

    /// Whether an instance is filled; who reads it knows who filled it, but not who else reads.
    fn read(&mut self, (lane, micro_batch, place): (u32, u32, Tier), storage: StorageId) -> bool {
        let index = self.index(storage, micro_batch);
        self.ordered(lane, micro_batch, storage, self.instances[index].filled);
        let (now, home) = ((lane + 1, self.lanes[lane as usize].executed), self.home(storage));
        let instance = &mut self.instances[index];
        if instance.last.0 != lane + 1 {
            instance.also = instance.last;
        }
        instance.last = now;
        *instance.at(place, home) == Held::Filled
    }

    /// The state of an instance, to change, and whether it is as it should be; who changes it knows who used it.
    fn held(
        &mut self,
        (lane, micro_batch, place): (u32, u32, Tier),
        storage: StorageId,
        is_right: impl Fn(Held) -> bool,
    ) -> (&mut Held, bool) {
        let index = self.index(storage, micro_batch);
        let Instance { last, also, .. } = self.instances[index];
        self.ordered(lane, micro_batch, storage, last);
        self.ordered(lane, micro_batch, storage, also);
        let (now, home) = ((lane + 1, self.lanes[lane as usize].executed), self.home(storage));
        let instance = &mut self.instances[index];
        (instance.last, instance.also, instance.filled) = (now, now, now);
        let held = instance.at(place, home);
        let ok = is_right(*held);
        (held, ok)
    }

    /// A lane that uses a storage knows of another use: who, plus one, and after how many of its items.
    fn ordered(&mut self, lane: u32, micro_batch: u32, storage: StorageId, (user, when): (u32, u32)) {
        if user == 0 || user == lane + 1 {
            return;
        }
        let member = self.lanes[user as usize - 1].member;
        if self.lanes[lane as usize].clock.get(member).is_none_or(|&known| known < when) {
            let with = self.schedule.lanes[user as usize - 1].name();
            let storage = self.graph.describe(storage);
            self.fault(lane, micro_batch, Fault::Unordered { storage, with });
        }
    }

    fn give(&mut self, lane: u32, micro_batch: u32, signal: SignalId) {
        let giver = &mut self.lanes[lane as usize];
        if let Some(own) = giver.clock.get_mut(giver.member) {
            *own = giver.executed;
        }
        let state = &mut self.signals[signal.0 as usize];
        state.given += 1;
        if giver.clock.len() > 1 {
            state.clocks.extend(&giver.clock);
        }
        let two = state.giver.replace(lane).is_some_and(|before| before != lane);
        let given = state.given;
        let mut waiting = std::mem::take(&mut state.waiting);
        waiting.retain(|&waiter| {
            let released = self.lanes[waiter as usize].waits.is_some_and(|(_, nth)| nth <= given);
            if released {
                self.runnable.push(waiter);
            }
            !released
        });
        self.signals[signal.0 as usize].waiting = waiting;
        if two {
            let name = self.schedule.signals[signal.0 as usize].clone();
            self.fault(lane, micro_batch, Fault::TwoGivers(name));
        }
    }

    /// Whether a signal has come so far; then the lane knows what its giver knew.
    fn hear(&mut self, lane: u32, signal: SignalId, nth: u32) -> bool {
        if nth == 0 {
            return true;
        }
        let state = &mut self.signals[signal.0 as usize];
        let hearer = &mut self.lanes[lane as usize];
        state.awaited = state.awaited.max(nth);
        if state.given < nth {
            hearer.waits = Some((signal, nth));
            state.waiting.push(lane);
            return false;
        }
        hearer.waits = None;
        let members = hearer.clock.len();
        let cluster = hearer.cluster;
        let shares = state.giver.is_some_and(|giver| self.lanes[giver as usize].cluster == cluster);
        let hearer = &mut self.lanes[lane as usize];
        if members > 1 && shares {
            let heard = state.clocks.chunks_exact(members).nth(nth as usize - 1).unwrap_or(&[]);
            learn(&mut hearer.clock, heard);
        }
        true
    }

    fn finish(&mut self) {
        let stuck: Vec<u32> =
            (0u32..).zip(&self.lanes).filter(|(_, l)| l.waits.is_some()).map(|(i, _)| i).collect();
        for &lane in &stuck {
            let state = &self.lanes[lane as usize];
            let micro_batch = self.schedule.lanes[lane as usize].calls[state.call].micro_batch;
            if let Some((signal, nth)) = state.waits {
                let given = self.signals[signal.0 as usize].given;
                let signal = self.schedule.signals[signal.0 as usize].clone();
                self.fault(lane, micro_batch, Fault::WaitsForever { signal, nth, given });
            }
        }
        // The rest would only repeat what follows from a lane that is stuck.
        if !stuck.is_empty() {
            return;
        }
        for (name, &SignalState { given, awaited, .. }) in self.schedule.signals.iter().zip(&self.signals) {
            if given != awaited {
                let fault = Fault::Unbalanced { signal: name.clone(), given, awaited };
                note(&mut self.found, NOWHERE, 0, fault);
            }
        }
        let micro_batches = self.schedule.micro_batches;
        for (storage, &first) in (0u32..).zip(&self.first) {
            let end = self.first.get(storage as usize + 1).copied().unwrap_or(self.instances.len());
            for (micro_batch, instance) in (0u32..).zip(&self.instances[first..end]) {
                if [instance.home, instance.partner, instance.away] != [Held::No; 3] {
                    let storage = self.graph.describe(StorageId(storage));
                    note(&mut self.found, NOWHERE, micro_batch, Fault::NeverFreed(storage));
                }
            }
        }
        for (index, &times) in self.executions.iter().enumerate() {
            let (op, micro_batch) = split(index, micro_batches);
            let op = self.graph.get(OpId(op));
            // What updates the weights runs once, with the last micro-batch; sums are fetched that others are in already.
            let expected = match op.phase {
                Phase::Update => micro_batch + 1 == micro_batches,
                Phase::Accumulate => micro_batch > 0,
                _ => true,
            };
            let expected = u8::from(expected);
            if times != expected {
                let op = format!("{} of chunk {} of stage {}", op.phase.name(), op.chunk, op.stage);
                let fault = Fault::Executions { op, times: u32::from(times) };
                note(&mut self.found, NOWHERE, micro_batch, fault);
            }
        }
        for (stage, &surplus) in (0u32..).zip(&self.residents).filter(|&(_, &surplus)| surplus != 0) {
            note(&mut self.found, NOWHERE, 0, Fault::Residents { stage, surplus });
        }
    }

    fn expect(
        &mut self,
        ok: bool,
        lane: u32,
        micro_batch: u32,
        storage: StorageId,
        fault: fn(String) -> Fault,
    ) {
        if !ok {
            self.fault(lane, micro_batch, fault(self.graph.describe(storage)));
        }
    }

    fn fault(&mut self, lane: u32, micro_batch: u32, fault: Fault) {
        let state = &self.lanes[lane as usize];
        let block = self.schedule.lanes[lane as usize].calls[state.call].block;
        note(&mut self.found, (lane, block, state.item as u32), micro_batch, fault);
    }
}

/// What is known, and what is heard, both of lanes.
fn learn(known: &mut Vec<u32>, heard: &[u32]) {
    known.resize(known.len().max(heard.len()), 0);
    for (own, &theirs) in known.iter_mut().zip(heard) {
        *own = (*own).max(theirs);
    }
}

fn note(found: &mut Found, place: (u32, u32, u32), micro_batch: u32, fault: Fault) {
    found.entry((place, fault)).or_insert((micro_batch, 0)).1 += 1;
}

fn split(index: usize, micro_batches: u32) -> (u32, u32) {
    (index as u32 / micro_batches, index as u32 % micro_batches)
}
