//! Counters, messages on their way, and what a wait is charged with.

use sim_core::id::{CauseId, StreamId};
use sim_core::outcome::Run;
use sim_core::platform::Platform;
use sim_core::program::{Activity, Affine, Op, Program};
use sim_core::time::Time;

use crate::support::*;

/// A counter in slot 0, activity i lasting i seconds, and as many seconds of flight as activity 10 + i.
struct Post {
    p: Program,
    binding: sim_core::id::BindingId,
    idle: CauseId,
    flight: CauseId,
}

impl Post {
    fn new() -> Self {
        let mut p = program();
        let (idle, flight) = (p.cause("idle"), p.cause("flight"));
        let counter = p.counter();
        let flights = (0..10).map(|i| Activity::lasting(s(i), flight));
        let costs = p.cost_table((0..10).map(lasting).chain(flights).collect(), vec![]);
        let binding = p.binding([counter.0], Some(costs));
        Self { p, binding, idle, flight }
    }

    fn stream(&mut self, name: &str, ops: Vec<Op>) -> StreamId {
        stream(&mut self.p, name, self.binding, ops)
    }

    fn wait(&self, at_least: i32) -> Op {
        Op::Wait { counter: 0, at_least: Affine::constant(at_least), cause: self.idle }
    }

    fn simulated(&self) -> Run {
        simulated(&Platform::default(), &self.p)
    }

    /// What a stream spent idle, on messages in flight, and its end.
    fn times(&self, stream: StreamId) -> (Time, Time, Option<Time>) {
        let used = &self.simulated().streams[stream.index()];
        (used.spent[self.idle.index()], used.spent[self.flight.index()], used.finished)
    }
}

/// A message that takes so many seconds.
fn message(seconds: i32, amount: u32) -> Op {
    Op::Add { counter: 0, amount, after: Some(Affine::constant(10 + seconds)) }
}

#[test]
fn a_later_message_may_arrive_earlier() {
    let mut post = Post::new();
    // Two messages: sent at 1, arrives at 9; sent at 2, arrives at 4.
    post.stream("sender", vec![run(1), message(8, 1), run(1), message(2, 1)]);
    let first = post.stream("first", vec![post.wait(1)]);
    let both = post.stream("both", vec![post.wait(2)]);
    assert_eq!(post.times(first), (s(2), s(2), Some(s(4))));
    assert_eq!(post.times(both), (s(1), s(8), Some(s(9))));
}

#[test]
fn each_waiter_goes_on_at_its_own_threshold() {
    let mut post = Post::new();
    post.stream("sender", vec![run(1), message(1, 2), run(3), add(0), run(1), add(0)]);
    let thresholds = [2, 1, 4, 2, 3, 0];
    let waiters = thresholds.map(|threshold| post.stream("waiter", vec![post.wait(threshold)]));
    let run = post.simulated();
    let ends = waiters.map(|waiter| run.streams[waiter.index()].finished.map(Time::as_secs));
    assert_eq!(ends, [2.0, 2.0, 5.0, 2.0, 4.0, 0.0].map(Some));
}

#[test]
fn a_threshold_below_zero_is_reached_from_the_start() {
    let mut post = Post::new();
    let waiter = post.stream("waiter", vec![post.wait(-3), run(1)]);
    assert_eq!(post.times(waiter), (s(0), s(0), Some(s(1))));
}

/// A message lands at 5 s, the instant of somebody else's addition: whoever executes first, a waiter for one goes on with
/// the message (departed at 2), a waiter for both with the addition, and everything at 5 s.
#[test]
fn a_message_and_an_addition_of_one_instant() {
    for adder_first in [true, false] {
        let mut post = Post::new();
        let adds = vec![run(5), add(0)];
        if adder_first {
            post.stream("adder", adds.clone());
        }
        post.stream("sender", vec![run(2), message(3, 1)]);
        let one = post.stream("one", vec![post.wait(1)]);
        let both = post.stream("both", vec![post.wait(2)]);
        if !adder_first {
            post.stream("adder", adds);
        }
        assert_eq!(post.times(one), (s(2), s(3), Some(s(5))));
        assert_eq!(post.times(both), (s(5), s(0), Some(s(5))));
    }
}

/// Two messages that land together: the one sent first lands first.
#[test]
fn messages_of_one_instant_count_in_order_of_departure() {
    let mut post = Post::new();
    post.stream("sender", vec![message(6, 1), run(2), message(4, 1)]);
    let first = post.stream("first", vec![post.wait(1)]);
    let both = post.stream("both", vec![post.wait(2)]);
    assert_eq!(post.times(first), (s(0), s(6), Some(s(6))));
    assert_eq!(post.times(both), (s(2), s(4), Some(s(6))));
}

#[test]
fn a_message_without_latency_is_an_addition() {
    let mut post = Post::new();
    post.stream("sender", vec![run(3), message(0, 1), run(4)]);
    let waiter = post.stream("waiter", vec![post.wait(1)]);
    assert_eq!(post.times(waiter), (s(3), s(0), Some(s(3))));
}

/// Waiting from 4 on for a message that departed at 1 and lands at 9: all of the wait is flight. From 0 on, the first
/// second is idle. From 9 on there is nothing to wait for.
#[test]
fn a_wait_splits_at_the_departure() {
    for (from, idle, flight) in [(0, 1, 8), (1, 0, 8), (4, 0, 5), (9, 0, 0)] {
        let mut post = Post::new();
        post.stream("sender", vec![run(1), message(8, 1)]);
        let waiter = post.stream("waiter", vec![run(from), post.wait(1)]);
        assert_eq!(post.times(waiter), (s(idle), s(flight), Some(s(9))), "from {from}");
    }
}

/// Work 2, flight 3, work 4, flight 5 along a chain of streams: the path of the last is exactly that, whatever each did
/// while it waited, and idle time is on nobody's path.
#[test]
fn the_critical_path_is_handed_on() {
    let mut post = Post::new();
    post.stream("a", vec![run(2), message(3, 1), run(9)]);
    post.stream("b", vec![run(1), post.wait(1), run(4), message(5, 1)]);
    let last = post.stream("c", vec![run(3), post.wait(2), run(1)]);
    let run = post.simulated();
    let critical = run.streams[last.index()].critical;
    assert_eq!(run.streams[last.index()].finished, Some(s(15)));
    let by_cause = [BUSY, post.idle, post.flight].map(|cause| critical[cause.index()]);
    assert_eq!(by_cause, [s(7), s(0), s(8)]);
}

/// Of two that arrive, the later one is critical: its work of 6 and no flight, not the flight of the other.
#[test]
fn the_last_to_arrive_is_critical() {
    let mut post = Post::new();
    post.stream("early", vec![run(1), message(4, 1)]);
    post.stream("late", vec![run(6), add(0)]);
    let waiter = post.stream("waiter", vec![post.wait(2)]);
    let run = post.simulated();
    let used = &run.streams[waiter.index()];
    assert_eq!([BUSY, post.flight].map(|cause| used.critical[cause.index()]), [s(6), s(0)]);
    assert_eq!([post.idle, post.flight].map(|cause| used.spent[cause.index()]), [s(6), s(0)]);
}
