//! Running ahead of the clock: a stream goes on past the present instant as long as nobody can notice.
//!
//! A stream that takes time, sends messages, waits for messages and uses stores of its own influences the others only
//! through its messages, and is influenced by them only through theirs. Where one stream sends to one, with one flight
//! time, messages arrive in the order in which they are sent, whichever stream is simulated first: the result is that of
//! a Kahn network (Kahn, The semantics of a simple language for parallel programming, IFIP 1974). The arrival of a
//! message is known when it is sent; so such streams need no event at all. At the first operation that others could
//! notice, a stream stops and waits for the clock.
//!
//! A run that ends early (out of memory, at a limit, asking for what does not exist) ends at an instant, which nobody may
//! be ahead of: it is simulated again without.

use std::collections::BTreeSet;

use super::code::Code;
use super::counters::Message;
use super::halt::Halts;
use super::interpret::Step;
use super::{Engine, NOBODY, Status};
use crate::id::{BlockId, CauseId, StreamId};
use crate::observe::Watch;
use crate::platform::Platform;
use crate::program::{Affine, Body, Op, Program, Slot};
use crate::time::Time;

/// Messages under way to one receiver before the sender lets the clock catch up: a bound on memory.
const UNDER_WAY_MAX: usize = 1 << 10;

/// What streams may use ahead of the clock.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) on: bool,
    /// Per counter, whether one stream sends to it, with one flight time, and one waits for it.
    pub(super) channels: Vec<bool>,
    /// Per store, whether one stream uses it.
    pub(super) own_stores: Vec<bool>,
}

impl Ahead {
    /// Jobs and evictions run on behalf of others: programs that have them go by the clock. So does a stream that may be
    /// halted, to which nobody sends ahead of the clock therefore.
    pub(super) fn new(on: bool, platform: &Platform, program: &Program, code: &Code, halts: &Halts) -> Self {
        if !on || !program.queues.is_empty() || !program.reclaim.is_empty() {
            let (channels, own_stores) =
                (vec![false; program.counters as usize], vec![false; platform.stores.len()]);
            return Self { on: false, channels, own_stores };
        }
        let mut senders = vec![Sole::Nobody; program.counters as usize];
        let mut receivers = senders.clone();
        let mut users = vec![Sole::Nobody; platform.stores.len()];
        let uses: Vec<BTreeSet<Use>> = code.executed.iter().map(|blocks| uses_of(program, blocks)).collect();
        for (index, stream) in program.streams.iter().enumerate() {
            let Body::Role(role) = stream.body else { continue };
            let s = StreamId::from(index);
            let bound = &code.bindings[stream.binding.index()];
            let object = |slot: Slot| code.slots[bound.slots as usize + slot as usize] as usize;
            for &used in &uses[role.index()] {
                match used {
                    Use::Receive(counter) if halts.targets[index] => receivers[object(counter)] = Sole::Many,
                    Use::Receive(counter) => receivers[object(counter)].add(s, Time::ZERO),
                    Use::Send(counter, after) => {
                        let flight = after.and_then(|index| code.position(bound, i64::from(index)));
                        let flight = flight.map_or(Time::ZERO, |at| code.activities[at as usize].latency);
                        senders[object(counter)].add(s, flight);
                    }
                    Use::Store(store) => users[object(store)].add(s, Time::ZERO),
                }
            }
        }
        let is_channel = |(sender, receiver): (&Sole, &Sole)| {
            matches!(*sender, Sole::One(_, flight) if flight > Time::ZERO) && *receiver != Sole::Many
        };
        Self {
            on: true,
            channels: senders.iter().zip(&receivers).map(is_channel).collect(),
            own_stores: users.iter().map(|user| *user != Sole::Many).collect(),
        }
    }
}

/// Something that a role shares with others, by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Receive(Slot),
    /// With the position of its flight; none if there is none or it varies.
    Send(Slot, Option<i32>),
    Store(Slot),
}

fn uses_of(program: &Program, blocks: &[BlockId]) -> BTreeSet<Use> {
    let ops = blocks.iter().flat_map(|block| &program.blocks[block.index()].ops);
    ops.filter_map(|op| match *op {
        Op::Wait { counter, .. } => Some(Use::Receive(counter)),
        Op::Add { counter, after, .. } => {
            let constant = after.filter(|index| index.stride == 0).map(|index| index.base);
            Some(Use::Send(counter, constant))
        }
        Op::Acquire { store, .. } | Op::Release { store, .. } => Some(Use::Store(store)),
        _ => None,
    })
    .collect()
}

/// Who uses something: nobody, one stream (sending with one flight time), or more (or one that may be halted).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sole {
    Nobody,
    One(StreamId, Time),
    Many,
}

impl Sole {
    fn add(&mut self, stream: StreamId, flight: Time) {
        let one = Self::One(stream, flight);
        *self = if *self == Self::Nobody || *self == one { one } else { Self::Many };
    }
}

impl<O: Watch> Engine<'_, O> {
    /// Resumes a stream, and those its messages let go on ahead of the clock.
    pub(super) fn resume_all(&mut self, s: u32) {
        self.resume(s);
        self.state.moved = self.state.moved.max(self.state.now);
        while let Some(receiver) = self.let_go_ahead.pop() {
            let stream = &mut self.state.streams[receiver as usize];
            stream.status = Status::Ready;
            self.state.now = stream.since;
            self.interpret(receiver);
            self.state.moved = self.state.moved.max(self.state.now);
        }
        self.state.now = self.state.instant;
    }

    /// Whether the stream that executes is ahead of the clock.
    #[inline]
    pub(super) fn is_ahead(&self) -> bool {
        self.state.now > self.state.instant
    }

    /// Whether a stream ahead of the clock may send on a counter.
    #[inline]
    pub(super) fn sends_unnoticed(&self, counter: usize) -> bool {
        let counter = &self.state.counters[counter];
        counter.is_channel && counter.under_way.len() < UNDER_WAY_MAX
    }

    /// A stream ahead of the clock waits for it.
    pub(super) fn wait_for_clock(&mut self, s: u32) {
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::Ahead;
        stream.wake = self.state.now;
        self.state.timers.push(self.state.now, s);
    }

    /// Sends a message to the receiver of a channel, who goes on if it waits for it.
    pub(super) fn send(&mut self, counter: usize, message: Message) {
        let state = &mut self.state.counters[counter];
        state.under_way.push_back(message);
        let receiver = state.waiters;
        if receiver != NOBODY && state.reaching(self.state.streams[receiver as usize].threshold).is_some() {
            state.waiters = NOBODY;
            self.let_go_ahead.push(receiver);
        }
    }

    /// Waits on a channel: the stream goes on at the arrival of the message that ends the wait, once that has been sent.
    #[inline]
    pub(super) fn receive(&mut self, s: u32, counter: usize, at_least: Affine, cause: CauseId) -> Step {
        let threshold = at_least.at(self.state.streams[s as usize].args).max(0) as u64;
        self.arrive(counter);
        let state = &mut self.state.counters[counter];
        let stream = &mut self.state.streams[s as usize];
        if state.value() >= threshold {
            self.pass(s);
            return Step::Next;
        }
        stream.since = self.state.now;
        let Some(&Message { arrival, release, .. }) = state.reaching(threshold) else {
            stream.status = Status::OnCounter;
            stream.threshold = threshold;
            stream.wake = Time::NEVER;
            state.waiters = s;
            return Step::Blocked;
        };
        self.state.now = arrival;
        self.state.ledger.share(release.account);
        self.released(s, cause, release);
        Step::Moved
    }
}
