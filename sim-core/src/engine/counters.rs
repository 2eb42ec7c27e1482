//! Counters: monotone values, messages on their way, and the streams that wait for a threshold.

use std::collections::VecDeque;

use super::ledger::Account;
use super::{Engine, NOBODY, Status};
use crate::id::{CauseId, CounterId, StreamId};
use crate::observe::{self, Watch};
use crate::program::{Affine, Op};
use crate::time::Time;

/// One counter.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    /// What has arrived, up to the last time somebody looked.
    value: u64,
    /// What is under way, by arrival. Nothing wakes when a message arrives that nobody waits for: a pipeline needs one
    /// event per activity, none per message.
    pub(super) under_way: VecDeque<Message>,
    /// First of the streams that wait, linked by `next_waiter`.
    pub(super) waiters: u32,
    /// Whether its receiver may run ahead of the clock (see [`super::ahead`]).
    pub(super) is_channel: bool,
}

/// An addition that arrives later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) arrival: Time,
    amount: u32,
    pub(super) release: Release,
}

/// What a wait is charged with: the path of the sender, and how long the message took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Release {
    /// When the sender let go.
    departure: Time,
    /// The sender's path at that moment.
    pub(super) account: Account,
    /// What the flight counts as.
    cause: CauseId,
}

impl Counter {
    pub(super) fn new(value: u64, is_channel: bool) -> Self {
        Self { value, under_way: VecDeque::new(), waiters: NOBODY, is_channel }
    }

    /// What had arrived when somebody last looked.
    pub(super) fn value(&self) -> u64 {
        self.value
    }

    /// What it gets to when all that is under way has arrived.
    pub(super) fn outcome(&self) -> u64 {
        self.under_way.iter().fold(self.value, |sum, message| sum.saturating_add(u64::from(message.amount)))
    }

    /// The message under way that will make it reach `threshold`.
    pub(super) fn reaching(&self, threshold: u64) -> Option<&Message> {
        let mut value = self.value;
        self.under_way.iter().find(|message| {
            value = value.saturating_add(u64::from(message.amount));
            value >= threshold
        })
    }
}

impl<O: Watch> Engine<'_, O> {
    /// [`Op::Add`].
    pub(super) fn add(&mut self, s: u32, counter: usize, amount: u32, after: Option<Affine>) -> bool {
        let (flight, cause) = match after {
            None => (Time::ZERO, CauseId(0)),
            Some(index) => {
                let Some(activity) = self.activity(s, index) else { return false };
                let (latency, cause) = (activity.latency, activity.cause);
                (self.vary(s, latency), cause)
            }
        };
        if O::CURVES {
            let (departure, by) = (self.state.now, StreamId(s));
            let arrival = departure.saturating_add(flight);
            let message =
                observe::Message { counter: CounterId::from(counter), amount, by, departure, arrival };
            self.observer.observer().message(&message);
        }
        if flight == Time::ZERO {
            self.arrive(counter);
            let value = &mut self.state.counters[counter].value;
            *value = value.saturating_add(u64::from(amount));
            if self.state.counters[counter].waiters != NOBODY {
                self.release_reached(s, counter);
            }
            return true;
        }
        let account = self.state.streams[s as usize].path.share(&mut self.state.ledger);
        let release = Release { departure: self.state.now, account, cause };
        let message = Message { arrival: self.state.now.saturating_add(flight), amount, release };
        if self.state.counters[counter].is_channel {
            self.send(counter, message);
            return true;
        }
        let queue = &mut self.state.counters[counter].under_way;
        let behind = queue.iter().rev().take_while(|m| m.arrival > message.arrival).count();
        if behind == 0 {
            queue.push_back(message);
        } else {
            queue.insert(queue.len() - behind, message);
        }
        if self.state.counters[counter].waiters != NOBODY {
            self.schedule_waiters(counter);
        }
        true
    }

    /// [`Op::Wait`]: true when the stream may go on at once.
    pub(super) fn wait(&mut self, s: u32, counter: usize, at_least: Affine) -> bool {
        let threshold = at_least.at(self.state.streams[s as usize].args).max(0) as u64;
        self.arrive(counter);
        if self.state.counters[counter].value >= threshold {
            self.pass(s);
            return true;
        }
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::OnCounter;
        stream.since = self.state.now;
        stream.threshold = threshold;
        stream.wake = Time::NEVER;
        stream.next_waiter = std::mem::replace(&mut self.state.counters[counter].waiters, s);
        self.schedule(s, counter);
        false
    }

    /// A wait is over at once.
    #[inline]
    pub(super) fn pass(&mut self, s: u32) {
        if O::CURVES {
            let (place, op, now) = (self.place(s), self.op_of(s), self.state.now);
            self.observer.observer().span(place, op, now, now, now);
        }
    }

    /// The message a waiting stream was scheduled for arrives now.
    pub(super) fn finish_wait(&mut self, s: u32, counter: usize, cause: CauseId) {
        self.unlink(s, counter);
        if let Some(release) = self.state.streams[s as usize].release.take() {
            self.released(s, cause, release);
        }
    }

    /// Takes a halted stream out of the waiters.
    pub(super) fn stop_waiting(&mut self, s: u32) {
        if let Op::Wait { counter, .. } = *self.op_of(s) {
            self.unlink(s, self.slot(s, counter));
            self.forget_release(s);
        }
    }

    /// Counts what has arrived.
    #[inline]
    pub(super) fn arrive(&mut self, counter: usize) {
        let now = self.state.now;
        let counter = &mut self.state.counters[counter];
        while let Some(message) = counter.under_way.front() {
            if message.arrival > now {
                break;
            }
            counter.value = counter.value.saturating_add(u64::from(message.amount));
            self.state.ledger.close(message.release.account);
            counter.under_way.pop_front();
        }
    }

    /// Lets go the waiters whose threshold an immediate addition of stream `s` has reached.
    fn release_reached(&mut self, s: u32, counter: usize) {
        let value = self.state.counters[counter].value;
        let mut waiter = self.state.counters[counter].waiters;
        while waiter != NOBODY {
            let next = self.state.streams[waiter as usize].next_waiter;
            // Who is due in this instant anyway goes on by itself.
            let stream = &self.state.streams[waiter as usize];
            if stream.threshold <= value && stream.wake > self.state.now {
                self.unlink(waiter, counter);
                self.forget_release(waiter);
                let account = self.state.streams[s as usize].path.share(&mut self.state.ledger);
                let cause = self.cause_at(waiter);
                self.released(waiter, cause, Release { departure: self.state.now, account, cause });
                self.next_round.push(waiter);
            }
            waiter = next;
        }
        self.schedule_waiters(counter);
    }

    fn schedule_waiters(&mut self, counter: usize) {
        let mut waiter = self.state.counters[counter].waiters;
        while waiter != NOBODY {
            self.schedule(waiter, counter);
            waiter = self.state.streams[waiter as usize].next_waiter;
        }
    }

    /// Wakes a waiter when what is under way reaches its threshold.
    fn schedule(&mut self, s: u32, counter: usize) {
        let stream = &mut self.state.streams[s as usize];
        let Some(&Message { arrival, release, .. }) = self.state.counters[counter].reaching(stream.threshold)
        else {
            return;
        };
        if arrival < stream.wake {
            stream.wake = arrival;
            self.state.timers.push(arrival, s);
            self.state.ledger.share(release.account);
            if let Some(earlier) = stream.release.replace(release) {
                self.state.ledger.close(earlier.account);
            }
        }
    }

    fn forget_release(&mut self, s: u32) {
        if let Some(release) = self.state.streams[s as usize].release.take() {
            self.state.ledger.close(release.account);
        }
    }

    fn unlink(&mut self, s: u32, counter: usize) {
        let next = self.state.streams[s as usize].next_waiter;
        let mut before = self.state.counters[counter].waiters;
        if before == s {
            self.state.counters[counter].waiters = next;
            return;
        }
        while self.state.streams[before as usize].next_waiter != s {
            before = self.state.streams[before as usize].next_waiter;
        }
        self.state.streams[before as usize].next_waiter = next;
    }

    /// Ends a wait: the time before departure counts as the wait's cause, the rest as the message's; the critical path
    /// is the sender's.
    #[inline]
    pub(super) fn released(&mut self, s: u32, cause: CauseId, release: Release) {
        let since = self.state.streams[s as usize].since;
        let departure = release.departure.max(since);
        self.spend(s, cause, departure - since);
        self.spend(s, release.cause, self.state.now - departure);
        let flight = self.state.now - release.departure;
        let account = self.state.ledger.charge(release.account, StreamId(s), release.cause, flight);
        self.take_over(s, account);
        self.go_on(s, departure);
    }
}
