//! Streams that run ahead of the clock: the same run as by the clock, to the last bit.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use sim_core::outcome::{End, Limit, Run};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Op, Program, Shortage, StartState};
use sim_core::time::Time;
use sim_core::{Options, simulate};

use crate::support::*;

// Slots of a stream: what is its own, what all share; the counters follow.
const OWN: u16 = 0;
const SHARED: u16 = 1;
const LINK: u16 = 2;
const SMS: u16 = 3;
const COUNTERS: u16 = 4;

// Activities: 0-5 take 0 to 500 ns, 6 and 7 share the link, 6 after a latency.
const PURE: i32 = 6;
const ACTIVITIES: i32 = 8;

/// Streams that send each other messages, most over a counter of their own, in an order that lets each of them end
/// (unless a message is lost); in between they take time, hold bytes and units, and share a link.
pub(crate) fn random_network(seed: u64) -> (Platform, Program) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut platform = Platform::default();
    let mut p = program();
    let streams = rng.random_range(2..=5_usize);
    let link = platform.fluid("link", 1e9, BUSY);
    let route = platform.route([Demand::on(link)]);
    let sms = platform.pool("sms", 2);
    let shared = platform.store("shared", 300);
    // Counters per pair: senders and receivers may share one.
    let count = rng.random_range(1..=streams * streams);
    let counters: Vec<_> = (0..count).map(|_| p.counter()).collect();
    let mut rest = random_ops(&mut rng, &mut p, streams, count);
    for ops in &mut rest {
        let activities = (0..ACTIVITIES).map(|i| match i {
            0..PURE => Activity::lasting(Time::from_ns(100 * rng.random_range(0..=5)), BUSY),
            _ => Activity {
                latency: Time::from_ns(100 * u64::from(i == 6)),
                ..Activity::moving(200, LINK, BUSY)
            },
        });
        let costs = p.cost_table(activities.collect(), vec![10, 20, 40]);
        let own = platform.store("own", if rng.random_bool(0.2) { 50 } else { 10_000 });
        let slots = [own.0, shared.0, route.0, sms.0].into_iter().chain(counters.iter().map(|c| c.0));
        let binding = p.binding(slots.collect::<Vec<_>>(), Some(costs));
        stream(&mut p, "stream", binding, std::mem::take(ops));
    }
    (platform, p)
}

fn random_ops(rng: &mut ChaCha8Rng, p: &mut Program, streams: usize, counters: usize) -> Vec<Vec<Op>> {
    let mut ops: Vec<Vec<Op>> = vec![Vec::new(); streams];
    let mut sent: BTreeMap<usize, i32> = BTreeMap::new();
    let shared_use = rng.random_bool(0.5);
    for _ in 0..rng.random_range(10..=80) {
        let who = rng.random_range(0..streams);
        match rng.random_range(0..12) {
            0..3 => {
                let to = rng.random_range(0..streams);
                let counter = (who * streams + to) % counters;
                // Mostly one flight per sender.
                let after = Affine::constant(if rng.random_bool(0.9) { 3 } else { 4 });
                let after = rng.random_bool(0.95).then_some(after);
                if rng.random_bool(0.99) {
                    let counter = COUNTERS + counter as u16;
                    ops[who].push(Op::Add { counter, amount: 1, after });
                }
                *sent.entry(counter).or_default() += 1;
            }
            3..6 => {
                let from = rng.random_range(0..streams);
                let counter = (from * streams + who) % counters;
                if let Some(&sent) = sent.get(&counter) {
                    ops[who].push(wait(COUNTERS + counter as u16, rng.random_range(1..=sent)));
                }
            }
            6 => {
                let size = rng.random_range(0..3);
                ops[who].extend([acquire(p, OWN, size, Shortage::Fail), run(rng.random_range(0..PURE))]);
                if rng.random_bool(0.8) {
                    ops[who].push(release(p, OWN, size));
                }
            }
            7 if shared_use => {
                let shortage = if rng.random_bool(0.5) { Shortage::Wait } else { Shortage::Fail };
                ops[who].extend([acquire(p, SHARED, 2, shortage), run(rng.random_range(0..ACTIVITIES))]);
                ops[who].push(release(p, SHARED, 2));
            }
            8 if shared_use => {
                ops[who].extend([hold(SMS, 1, 0), run(rng.random_range(0..ACTIVITIES))]);
                ops[who].push(Op::Drop { pool: SMS, units: 1 });
            }
            9 if shared_use => ops[who].push(run(rng.random_range(PURE..ACTIVITIES))),
            10 => ops[who].push(Op::Mark),
            _ => ops[who].push(run(rng.random_range(0..PURE))),
        }
    }
    ops
}

fn by_the_clock_and_ahead(platform: &Platform, program: &Program, time_max: Time) -> [Run; 2] {
    [false, true].map(|segments| {
        let options = Options { segments, time_max, ..Options::default() };
        simulate(platform, program, &StartState::default(), &options).expect("a valid program")
    })
}

#[test]
fn running_ahead_changes_nothing() {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut events, mut saved) = (0, 0);
    for seed in 0..6_000 {
        let (platform, program) = random_network(seed);
        let [clock, ahead] = by_the_clock_and_ahead(&platform, &program, Time::LAST);
        events += clock.events;
        saved += clock.events.saturating_sub(ahead.events);
        assert_eq!(Run { events: 0, ..clock }, Run { events: 0, ..ahead.clone() }, "seed {seed}");
        let end = match ahead.end {
            End::Completed => "completed",
            End::OutOfMemory(_) => "out of memory",
            End::Deadlock(_) => "deadlock",
            End::Limit(_) | End::Invalid { .. } => "other",
        };
        *counts.entry(end).or_default() += 1;
    }
    assert!(saved * 3 > events, "{saved} of {events} events saved");
    assert!(
        counts["completed"] > 3_000 && counts["out of memory"] > 30 && counts["deadlock"] > 100,
        "{counts:?}"
    );
    assert!(!counts.contains_key("other"), "{counts:?}");
}

#[test]
fn a_limit_on_time_holds_for_those_ahead() {
    for seed in 0..1_000 {
        let (platform, program) = random_network(seed);
        let limit = Time::from_ns(100 * (1 + seed % 20));
        let [clock, ahead] = by_the_clock_and_ahead(&platform, &program, limit);
        assert!(clock.time <= limit);
        if clock.end == End::Limit(Limit::Time(limit)) {
            assert_eq!(clock.time, limit);
        }
        assert_eq!(Run { events: 0, ..clock }, Run { events: 0, ..ahead }, "seed {seed}");
    }
}
