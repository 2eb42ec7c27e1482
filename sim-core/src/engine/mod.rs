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
mod inputs;
mod interpret;
mod jobs;
mod ledger;
mod marks;
mod own_path;
mod pools;
mod segments;
mod simulation;
mod state;
mod stores;
mod stream;

use crate::fixed::Rate;
use crate::id::{CauseId, FluidId, StreamId};
use crate::observe::{Curves, Look, Observer, Spans, Unobserved, Watch};
use crate::outcome::{ByCause, End, FluidUse, Limit, Run, StreamUse};
use crate::platform::Platform;
use crate::program::{Program, StartState};
use crate::time::Time;
use crate::validate::{ProgramError, validate};

use activities::Owner;
use inputs::Inputs;
use ledger::Account;
pub use simulation::Simulation;
use simulation::finish;
use state::State;
use stores::StoreState;
use stream::Status;

/// No stream.
const NOBODY: u32 = u32::MAX;
/// All streams have had their turn.
const EVERYBODY: u32 = u32::MAX;

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
    /// The stream whose critical path is told step by step.
    pub path_of: Option<StreamId>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            segments: true,
            events_max: u64::MAX,
            time_max: Time::LAST,
            path_from: None,
            path_of: None,
        }
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
    let inputs = Inputs::new::<O>(platform, program, start, options);
    let state = State::new(&inputs, &inputs.ahead);
    Ok(finish(&inputs, state, observer))
}

/// What executes: the inputs, the state, and lists that live for an instant.
struct Engine<'a, O> {
    inputs: &'a Inputs<'a>,
    state: State,
    observer: &'a mut O,
    /// The fluids that the observer watches, with what it was last told.
    observed_loads: Vec<(FluidId, Rate)>,
    /// Streams that go on in this round, ascending, and the position of the next one.
    round: Vec<u32>,
    cursor: usize,
    /// Streams with a lower id have had their turn in this instant, if they are due in it.
    passed: u32,
    next_round: Vec<u32>,
    /// Streams that a message lets go on ahead of the clock.
    let_go_ahead: Vec<u32>,
    /// Timers or flows that are due.
    due: Vec<u32>,
}

impl<'a, O: Watch> Engine<'a, O> {
    fn new(inputs: &'a Inputs<'a>, state: State, observer: &'a mut O) -> Self {
        Self {
            inputs,
            state,
            observed_loads: observer.observer().fluids().iter().map(|&fluid| (fluid, Rate(0))).collect(),
            observer,
            round: Vec::new(),
            cursor: 0,
            passed: EVERYBODY,
            next_round: Vec::new(),
            let_go_ahead: Vec::new(),
            due: Vec::new(),
        }
    }

    /// The event loop: all instants up to `until`, that one included. Up to [`Time::NEVER`] the run ends.
    fn execute(&mut self, until: Time) {
        if !std::mem::replace(&mut self.state.begun, true) {
            self.round.extend(0..self.state.streams.len() as u32);
            self.settle();
        }
        let Options { time_max, events_max, .. } = self.inputs.options;
        while self.state.end.is_none() {
            let next = self.state.timers.next_time().min(self.state.finishes.next_time());
            if next > until {
                return;
            }
            if next == Time::NEVER {
                self.state.end = Some(self.conclude());
            } else if next > time_max {
                self.state.now = time_max;
                self.state.instant = time_max;
                self.state.end = Some(End::Limit(Limit::Time(time_max)));
            } else if self.state.events >= events_max {
                self.state.end = Some(End::Limit(Limit::Events(events_max)));
            } else {
                self.state.instant = next;
                self.state.now = next;
                self.complete();
                self.settle();
            }
        }
    }

    /// Completions: finds who is due.
    fn complete(&mut self) {
        self.passed = 0;
        self.state.timers.drain(self.state.now, &mut self.due);
        self.state.events += self.due.len() as u64;
        let streams = self.state.streams.len();
        for index in 0..self.due.len() {
            let entity = self.due[index] as usize;
            if entity < streams {
                let stream = &self.state.streams[entity];
                let expected = matches!(
                    stream.status,
                    Status::Latency | Status::InSegment | Status::Ahead | Status::OnCounter
                );
                if expected && stream.wake == self.state.now {
                    self.round.push(entity as u32);
                }
            } else if entity < streams + self.state.groups.len() {
                self.group_timer(entity - streams);
            } else {
                self.state.bucket_due = true;
            }
        }
        self.due.clear();
        if self.state.finishes.next_time() == self.state.now {
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
        self.state.finishes.drain(self.state.now, &mut self.due);
        self.state.events += self.due.len() as u64;
        for index in 0..self.due.len() {
            match self.state.flows[self.due[index] as usize].owner {
                Owner::Stream(s) => self.round.push(s),
                Owner::Group(group) => self.group_flow_due(group as usize),
            }
        }
        self.due.clear();
    }

    /// Starts, in rounds, then one re-share.
    fn settle(&mut self) {
        if !self.round.is_empty() || self.state.network.is_changed() {
            self.state.moved = self.state.moved.max(self.state.now);
        }
        let mut is_first = true;
        loop {
            self.cursor = 0;
            while let Some(&s) = self.round.get(self.cursor) {
                self.cursor += 1;
                self.passed = if is_first { s + 1 } else { EVERYBODY };
                self.resume_all(s);
                if self.state.end.is_some() {
                    return;
                }
            }
            self.round.clear();
            if self.next_round.is_empty() {
                break;
            }
            std::mem::swap(&mut self.round, &mut self.next_round);
            self.round.sort_unstable();
            is_first = false;
        }
        self.passed = EVERYBODY;
        self.cursor = 0;
        while self.state.network.is_changed() || std::mem::take(&mut self.state.bucket_due) {
            self.reshare();
        }
    }

    /// Nothing is pending: all is done, or somebody waits for ever.
    fn conclude(&mut self) -> End {
        let waiting = self.waiting();
        self.state.now = self.state.moved;
        if waiting.is_empty() { End::Completed } else { End::Deadlock(waiting) }
    }

    fn into_run(mut self) -> Run {
        self.open_all_segments();
        let end = self.state.end.take().unwrap_or(End::Completed);
        let ends = self.state.streams.iter().filter_map(|s| s.finished).max();
        let time = if end == End::Completed { ends.unwrap_or(Time::ZERO) } else { self.state.now };
        let path = self.path();
        let critical: Vec<ByCause> = (0..self.state.streams.len()).map(|s| self.critical(s)).collect();
        let streams = self.state.streams.into_iter().zip(self.state.spent).zip(critical);
        let streams = streams.map(|((stream, spent), critical)| StreamUse {
            finished: stream.finished,
            marks: stream.marks,
            spent_at_marks: stream.spent_at_marks,
            spent,
            critical,
        });
        // In 2^-14 units.
        let mut served = vec![0; self.inputs.platform.fluids.len()];
        for (route, &work) in self.inputs.platform.routes.iter().zip(&self.state.served) {
            for demand in &route.demands {
                let units = u128::from(demand.coefficient.0) * u128::from(demand.multiplicity);
                served[demand.fluid.index()] += work * units;
            }
        }
        let used = |served: u128| FluidUse { served: served >> crate::fixed::RATIO_BITS, tokens: None };
        let mut fluids: Vec<FluidUse> = served.into_iter().map(used).collect();
        for (fluid, tokens) in self.state.buckets.iter().map(|bucket| bucket.left(time)) {
            fluids[fluid.index()].tokens = Some(tokens);
        }
        Run {
            end,
            time,
            streams: streams.collect(),
            stores: self.state.stores.into_iter().map(StoreState::into_use).collect(),
            fluids,
            activities: self.state.activities,
            events: self.state.events,
            unsettled: self.state.network.unsettled(),
            path,
        }
    }

    /// The timer entity of a group.
    fn group_entity(&self, group: usize) -> u32 {
        (self.state.streams.len() + group) as u32
    }

    /// The timer entity of a bucket.
    fn bucket_entity(&self, bucket: usize) -> u32 {
        (self.state.streams.len() + self.state.groups.len() + bucket) as u32
    }

    /// Adds to what a stream has spent.
    #[inline]
    fn spend(&mut self, s: u32, cause: CauseId, duration: Time) {
        self.state.spent[s as usize][cause.index()] += duration;
    }

    /// A share of a stream's critical path, right up to now.
    fn path_of(&mut self, s: u32) -> Account {
        let stream = &mut self.state.streams[s as usize];
        let account = stream.path.share(&mut self.state.ledger);
        let behind = self.state.now - stream.charged;
        if behind == Time::ZERO {
            return account;
        }
        let cause = self.cause_at(s);
        self.state.ledger.charge(account, StreamId(s), cause, behind)
    }

    /// A stream's critical path is `account` from now on.
    fn take_over(&mut self, s: u32, account: Account) {
        let stream = &mut self.state.streams[s as usize];
        stream.path.take_over(&mut self.state.ledger, account);
        stream.charged = self.state.now;
    }

    /// Ends a stream's wait since it was let go by stream `by`, and has it go on in the next round.
    fn let_go(&mut self, waiter: u32, by: u32, cause: CauseId) {
        self.spend(waiter, cause, self.state.now - self.state.streams[waiter as usize].since);
        let path = self.path_of(by);
        self.take_over(waiter, path);
        self.go_on(waiter, self.state.now);
        self.next_round.push(waiter);
    }

    /// Ends a stream's present operation; it stands at the next one.
    #[inline(always)]
    fn go_on(&mut self, s: u32, ready: Time) {
        if O::SPANS {
            let (place, op, since) = (self.place(s), self.op_of(s), self.state.streams[s as usize].since);
            self.observer.observer().span(place, op, since, ready, self.state.now);
        }
        let stream = &mut self.state.streams[s as usize];
        stream.pc += 1;
        stream.status = Status::Ready;
    }
}
