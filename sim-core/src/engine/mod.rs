//! The engine: executes a program on a platform.
//!
//! Time advances from instant to instant. An instant has phases: completions; rounds of starts, in which the streams
//! that can go on do so in order of their ids, those they let go in the next round; one re-share of the fluids. What
//! happens therefore depends on (time, round, stream id) alone: not on the queue, on segments, on who runs ahead, or on
//! the solver.

mod activities;
mod ahead;
mod buckets;
mod code;
mod counters;
mod diagnose;
mod groups;
mod halt;
mod interpret;
mod jobs;
mod ledger;
mod marks;
mod pools;
mod segments;
mod stores;
mod stream;

use crate::fixed::Rate;
use crate::id::{CauseId, FluidId};
use crate::noise::NoiseSource;
use crate::observe::{Curves, Look, Observer, Spans, Unobserved, Watch};
use crate::outcome::{ByCause, End, FluidUse, Limit, Run, StreamUse};
use crate::platform::Platform;
use crate::program::{CAUSES_MAX, Program, StartState};
use crate::queue::finish::FinishTree;
use crate::queue::timers::Timers;
use crate::sharing::Network;
use crate::time::Time;
use crate::validate::{ProgramError, validate};

use activities::{Flow, Owner};
use ahead::Ahead;
use buckets::BucketState;
use code::Code;
use counters::Counter;
use groups::GroupState;
use halt::Halts;
use jobs::{CellState, Holdings, QueueState};
use ledger::{Account, Ledger};
use marks::Cut;
use pools::PoolState;
use segments::{FluidSegments, Plans, Running};
use stores::StoreState;
use stream::{Status, StreamState};

/// No stream.
const NOBODY: u32 = u32::MAX;

/// How to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Seed of the program's noise.
    pub seed: u64,
    /// Runs stretches of a stream that synchronise with nobody as one event, and streams that only exchange messages
    /// ahead of the clock; the result is the same.
    pub segments: bool,
    /// The run stops after so many events, or so many blocks (which need not take time).
    pub events_max: u64,
    /// The run stops at this time.
    pub time_max: Time,
    /// The mark, counted from 0 on every stream, at which critical paths begin; they end at the stream's last mark.
    /// `None`: from the start of the run to the stream's end.
    pub path_from: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, segments: true, events_max: u64::MAX, time_max: Time::LAST, path_from: None }
    }
}

/// Executes a program.
///
/// # Errors
/// Everything that is wrong with the program; see [`ProgramError`].
pub fn simulate(
    platform: &Platform,
    program: &Program,
    start: &StartState,
    options: &Options,
) -> Result<Run, Vec<ProgramError>> {
    watched(platform, program, start, options, &mut Unobserved)
}

/// Executes a program while an observer looks on.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_observed(
    platform: &Platform,
    program: &Program,
    start: &StartState,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Run, Vec<ProgramError>> {
    match observer.look() {
        Look::Nothing => watched(platform, program, start, options, &mut Unobserved),
        Look::Spans => watched(platform, program, start, options, &mut Spans(observer)),
        Look::Curves => watched(platform, program, start, options, &mut Curves(observer)),
    }
}

fn watched<O: Watch>(
    platform: &Platform,
    program: &Program,
    start: &StartState,
    options: &Options,
    observer: &mut O,
) -> Result<Run, Vec<ProgramError>> {
    validate(platform, program, start)?;
    let code = Code::new(program);
    let halts = Halts::new(platform, program, &code);
    let segments = options.segments && program.noise.is_silent() && !O::CURVES;
    let plans = Plans::new(segments, platform, program, &code);
    let ahead = Ahead::new(segments && !O::SPANS, platform, program, &code, &halts);
    let mut engine = |ahead: &Ahead| {
        Engine::new(platform, program, &code, &plans, ahead, &halts, options, observer)
            .begin_from(start)
            .execute()
    };
    let run = engine(&ahead);
    let early = !matches!(run.end, End::Completed | End::Deadlock(_)) || run.time > options.time_max;
    if ahead.on && early {
        return Ok(engine(&Ahead::new(false, platform, program, &code, &halts)));
    }
    Ok(run)
}

/// The state of a run.
struct Engine<'a, O> {
    platform: &'a Platform,
    program: &'a Program,
    options: Options,
    observer: &'a mut O,
    code: &'a Code,
    /// The instant of the clock.
    instant: Time,
    /// The time of the stream that executes: the instant, or later where it is ahead of the clock.
    now: Time,
    /// The last instant in which anything happened: timers that have lost their meaning still come.
    moved: Time,
    timers: Timers,
    finishes: FinishTree,
    streams: Vec<StreamState>,
    spent: Vec<ByCause>,
    ledger: Ledger,
    cut: Cut,
    counters: Vec<Counter>,
    stores: Vec<StoreState>,
    pools: Vec<PoolState>,
    groups: Vec<GroupState>,
    queues: Vec<QueueState>,
    cells: Vec<CellState>,
    /// Per cell, the reclaim table it is a candidate of; empty without tables.
    reclaim_of_cell: Vec<u32>,
    network: Network,
    flows: Vec<Flow>,
    /// Per fluid, in 2^-14 units.
    served: Vec<u128>,
    buckets: Vec<BucketState>,
    /// Whether a bucket may be empty in this instant.
    bucket_due: bool,
    /// What streams hold; empty where nobody is halted.
    holdings: Vec<Holdings>,
    noise: NoiseSource,
    noisy: bool,
    plans: &'a Plans,
    running_segments: Vec<Option<Running>>,
    /// Per fluid; empty without segments.
    fluid_segments: Vec<FluidSegments>,
    /// The fluids that the observer watches, with what it was last told.
    observed_loads: Vec<(FluidId, Rate)>,
    /// Streams that go on in this round, ascending, and the position of the present one.
    round: Vec<u32>,
    cursor: usize,
    first_round: bool,
    next_round: Vec<u32>,
    /// Streams that a message lets go on ahead of the clock.
    let_go_ahead: Vec<u32>,
    /// Timers or flows that are due.
    due: Vec<u32>,
    activities: u64,
    events: u64,
    /// Blocks that streams have begun, or looked for.
    blocks: u64,
    end: Option<End>,
}

impl<'a, O: Watch> Engine<'a, O> {
    fn new(
        platform: &'a Platform,
        program: &'a Program,
        code: &'a Code,
        plans: &'a Plans,
        ahead: &Ahead,
        halts: &Halts,
        options: &Options,
        observer: &'a mut O,
    ) -> Self {
        let mut ledger = Ledger::default();
        let streams: Vec<StreamState> = program
            .streams
            .iter()
            .zip(&halts.targets)
            .map(|(s, &halted)| {
                let bound = code.bindings[s.binding.index()];
                StreamState::new(bound, !halted, ahead.on && !halted, &mut ledger)
            })
            .collect();
        let cut = Cut::new(options.path_from, program);
        if ahead.on && cut.is_made() {
            // Who runs ahead may be past the first mark before that is known.
            ledger.record();
        }
        let noise = NoiseSource::new(program.noise, options.seed);
        let noisy = !noise.is_silent();
        let segments = plans.are_on();
        let count = streams.len();
        Self {
            platform,
            program,
            options: *options,
            instant: Time::ZERO,
            now: Time::ZERO,
            moved: Time::ZERO,
            timers: Timers::default(),
            finishes: FinishTree::default(),
            spent: vec![[Time::ZERO; CAUSES_MAX]; count],
            ledger,
            cut,
            counters: ahead.channels.iter().map(|&is_channel| Counter::new(0, is_channel)).collect(),
            stores: platform
                .stores
                .iter()
                .zip(ahead.own_stores.iter().zip(&halts.stores))
                .map(|(s, (&is_own, &noted))| StoreState::new(s.capacity, program.kinds.len(), is_own, noted))
                .collect(),
            pools: platform.pools.iter().map(|p| PoolState::new(p.units)).collect(),
            groups: program.groups.iter().map(|_| GroupState::default()).collect(),
            queues: program.queues.iter().map(|_| QueueState::default()).collect(),
            cells: vec![CellState::default(); program.cells as usize],
            reclaim_of_cell: reclaim_of_cell(program),
            network: Network::new(platform),
            flows: Vec::new(),
            served: vec![0; platform.fluids.len()],
            buckets: BucketState::all(platform),
            bucket_due: false,
            holdings: if halts.targets.contains(&true) {
                vec![Holdings::default(); count]
            } else {
                Vec::new()
            },
            noise,
            noisy,
            plans,
            running_segments: if segments { vec![None; count] } else { Vec::new() },
            fluid_segments: if segments {
                vec![FluidSegments::default(); platform.fluids.len()]
            } else {
                Vec::new()
            },
            observed_loads: observer.observer().fluids().iter().map(|&fluid| (fluid, Rate(0))).collect(),
            observer,
            code,
            round: (0..count as u32).collect(),
            cursor: 0,
            first_round: true,
            next_round: Vec::new(),
            let_go_ahead: Vec::new(),
            due: Vec::new(),
            activities: 0,
            events: 0,
            blocks: 0,
            end: None,
            streams,
        }
    }

    fn begin_from(mut self, start: &StartState) -> Self {
        for &(counter, value) in &start.counters {
            let counter = &mut self.counters[counter.index()];
            *counter = Counter::new(value, counter.is_channel);
        }
        for &(cell, state) in &start.cells {
            self.cells[cell.index()] = CellState::new(state);
        }
        for &(store, kind, bytes) in &start.stores {
            self.stores[store.index()].hold_from_start(kind, bytes);
        }
        for bucket in &self.buckets {
            let (fluid, capacity) = bucket.start();
            self.network.set_capacity(fluid, capacity);
        }
        self
    }

    /// The event loop.
    fn execute(mut self) -> Run {
        self.settle();
        while self.end.is_none() {
            let flow_due = self.finishes.peek().map_or(Time::NEVER, |(time, _)| time);
            let next = self.timers.next_time().min(flow_due);
            if next == Time::NEVER {
                self.end = Some(self.conclude());
            } else if next > self.options.time_max {
                self.now = self.options.time_max;
                self.instant = self.now;
                self.end = Some(End::Limit(Limit::Time(self.options.time_max)));
            } else if self.events >= self.options.events_max {
                self.end = Some(End::Limit(Limit::Events(self.options.events_max)));
            } else {
                self.instant = next;
                self.now = next;
                self.complete();
                self.settle();
            }
        }
        self.into_run()
    }

    /// Completions: finds who is due.
    fn complete(&mut self) {
        self.timers.drain(self.now, &mut self.due);
        self.events += self.due.len() as u64;
        let streams = self.streams.len();
        for index in 0..self.due.len() {
            let entity = self.due[index] as usize;
            if entity < streams {
                let stream = &self.streams[entity];
                let expected = matches!(
                    stream.status,
                    Status::Latency | Status::InSegment | Status::Ahead | Status::OnCounter
                );
                if expected && stream.wake == self.now {
                    self.round.push(entity as u32);
                }
            } else if entity < streams + self.groups.len() {
                self.group_timer(entity - streams);
            } else {
                self.bucket_due = true;
            }
        }
        self.due.clear();
        if self.finishes.peek().is_some() {
            self.complete_flows();
        }
        if !self.next_round.is_empty() {
            self.round.append(&mut self.next_round);
        }
        if self.round.len() > 1 {
            self.round.sort_unstable();
            self.round.dedup();
        }
    }

    fn complete_flows(&mut self) {
        self.finishes.drain(self.now, &mut self.due);
        self.events += self.due.len() as u64;
        for index in 0..self.due.len() {
            match self.flows[self.due[index] as usize].owner {
                Owner::Stream(s) => self.round.push(s),
                Owner::Group(group) => self.group_flow_due(group as usize),
            }
        }
        self.due.clear();
    }

    /// Starts, in rounds, then one re-share.
    fn settle(&mut self) {
        if !self.round.is_empty() || self.network.is_changed() {
            self.moved = self.moved.max(self.now);
        }
        self.first_round = true;
        loop {
            self.cursor = 0;
            while let Some(&s) = self.round.get(self.cursor) {
                self.cursor += 1;
                self.resume_all(s);
                if self.end.is_some() {
                    return;
                }
            }
            self.round.clear();
            if self.next_round.is_empty() {
                break;
            }
            std::mem::swap(&mut self.round, &mut self.next_round);
            self.round.sort_unstable();
            self.first_round = false;
        }
        self.cursor = 0;
        while self.network.is_changed() || std::mem::take(&mut self.bucket_due) {
            self.reshare();
        }
    }

    /// Nothing is pending: all is done, or somebody waits for ever.
    fn conclude(&mut self) -> End {
        let waiting = self.waiting();
        self.now = self.moved;
        if waiting.is_empty() { End::Completed } else { End::Deadlock(waiting) }
    }

    fn into_run(mut self) -> Run {
        self.open_all_segments();
        let end = self.end.take().unwrap_or(End::Completed);
        let ends = self.streams.iter().filter_map(|s| s.finished).max();
        let time = if end == End::Completed { ends.unwrap_or(Time::ZERO) } else { self.now };
        let critical: Vec<ByCause> = (0..self.streams.len()).map(|s| self.critical(s)).collect();
        let streams = self.streams.into_iter().zip(self.spent).zip(critical);
        let streams = streams.map(|((stream, spent), critical)| StreamUse {
            finished: stream.finished,
            marks: stream.marks,
            spent_at_marks: stream.spent_at_marks,
            spent,
            critical,
        });
        Run {
            end,
            time,
            streams: streams.collect(),
            stores: self.stores.into_iter().map(StoreState::into_use).collect(),
            fluids: self
                .served
                .into_iter()
                .map(|s| FluidUse { served: s >> crate::fixed::RATIO_BITS })
                .collect(),
            activities: self.activities,
            events: self.events,
            unsettled: self.network.unsettled(),
        }
    }

    /// The timer entity of a group.
    fn group_entity(&self, group: usize) -> u32 {
        (self.streams.len() + group) as u32
    }

    /// The timer entity of a bucket.
    fn bucket_entity(&self, bucket: usize) -> u32 {
        (self.streams.len() + self.groups.len() + bucket) as u32
    }

    /// Adds to what a stream has spent.
    #[inline]
    fn spend(&mut self, s: u32, cause: CauseId, duration: Time) {
        self.spent[s as usize][cause.index()] += duration;
    }

    /// A share of a stream's critical path, right up to now.
    fn path_of(&mut self, s: u32) -> Account {
        let stream = &self.streams[s as usize];
        let (account, behind) = (stream.account, self.now - stream.charged);
        let account = self.ledger.share(account);
        if behind == Time::ZERO {
            return account;
        }
        let cause = self.cause_at(s);
        self.ledger.charge(account, cause, behind)
    }

    /// A stream's critical path is `account` from now on.
    fn take_over(&mut self, s: u32, account: Account) {
        let stream = &mut self.streams[s as usize];
        self.ledger.close(std::mem::replace(&mut stream.account, account));
        stream.charged = self.now;
    }

    /// Ends a stream's wait since it was let go by stream `by`, and has it go on in the next round.
    fn let_go(&mut self, waiter: u32, by: u32, cause: CauseId) {
        self.spend(waiter, cause, self.now - self.streams[waiter as usize].since);
        let path = self.path_of(by);
        self.take_over(waiter, path);
        self.go_on(waiter, self.now);
        self.next_round.push(waiter);
    }

    /// Ends a stream's present operation; it stands at the next one.
    fn go_on(&mut self, s: u32, ready: Time) {
        if O::SPANS {
            let (place, op, since) = (self.place(s), self.op_of(s), self.streams[s as usize].since);
            self.observer.observer().span(place, op, since, ready, self.now);
        }
        let stream = &mut self.streams[s as usize];
        stream.pc += 1;
        stream.status = Status::Ready;
    }
}

fn reclaim_of_cell(program: &Program) -> Vec<u32> {
    if program.reclaim.is_empty() {
        return Vec::new();
    }
    let mut table_of = vec![NOBODY; program.cells as usize];
    for (index, table) in program.reclaim.iter().enumerate() {
        for candidate in &table.candidates {
            table_of[candidate.cell.index()] = index as u32;
        }
    }
    table_of
}
