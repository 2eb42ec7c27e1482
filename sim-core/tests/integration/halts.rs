//! Halted streams go by the clock, operation by operation; everybody beside them has segments and runs ahead as ever.

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use sim_core::id::BindingId;
use sim_core::outcome::{End, Run};
use sim_core::platform::Platform;
use sim_core::program::{Activity, Body, Call, Op, Program, StartState};
use sim_core::record::EventLog;
use sim_core::time::Time;
use sim_core::{Options, simulate, simulate_observed};

use crate::ahead::random_network;
use crate::random_programs::random_program;
use crate::support::*;

/// Adds a supervisor that halts one of the streams now and then: it starts again, or ends.
fn supervise(seed: u64, program: &mut Program) {
    let mut rng = ChaCha8Rng::seed_from_u64(!seed);
    let target = rng.random_range(0..program.streams.len()) as u32;
    let pauses = (0..3).map(|_| Activity::lasting(Time::from_ns(100 * rng.random_range(1..=30)), BUSY));
    let costs = program.cost_table(pauses.collect(), vec![]);
    let binding = program.binding([target], Some(costs));
    let halts = rng.random_range(1..=3);
    let ops = (0..halts).flat_map(|i| [run(i), Op::Halt { stream: 0, call: rng.random_range(0..=1) }]);
    let ops = ops.collect();
    stream(program, "supervisor", binding, ops);
}

/// Runs with segments off and on, and how many events the latter saved; the results are the same unless a mistake of the
/// program shows.
fn saved(seed: u64, platform: &Platform, program: &Program) -> u64 {
    let start = StartState::default();
    let runs = [false, true].map(|segments| {
        let options = Options { segments, path_from: Some(0), ..Options::default() };
        let mut log = EventLog::default();
        let watched = simulate_observed(platform, program, &start, &options, &mut log).expect("valid");
        (simulate(platform, program, &start, &options).expect("valid"), watched, log)
    });
    let [(off, off_watched, off_log), (on, on_watched, on_log)] = runs;
    let saved = off.events.saturating_sub(on.events);
    if matches!(off.end, End::Invalid { .. }) {
        assert!(matches!(on.end, End::Invalid { .. } | End::OutOfMemory(_)), "seed {seed}");
        return saved;
    }
    assert_eq!(Run { events: 0, ..off }, Run { events: 0, ..on }, "seed {seed}");
    assert_eq!(Run { events: 0, ..off_watched }, Run { events: 0, ..on_watched }, "seed {seed}");
    assert_eq!(off_log, on_log, "seed {seed}");
    saved
}

#[test]
fn segments_beside_halted_streams_change_nothing() {
    let mut total = 0;
    for seed in 0..2_000 {
        let (platform, mut program) = random_program(seed);
        supervise(seed, &mut program);
        total += saved(seed, &platform, &program);
    }
    assert!(total > 5_000, "segments were used: {total} events saved");
}

#[test]
fn running_ahead_of_halted_streams_changes_nothing() {
    let mut total = 0;
    for seed in 0..4_000 {
        let (platform, mut program) = random_network(seed);
        supervise(seed, &mut program);
        total += saved(seed, &platform, &program);
    }
    assert!(total > 5_000, "streams ran ahead: {total} events saved");
}

/// Of two streams of ten operations each, the one that may be halted takes an event an operation.
#[test]
fn only_halted_streams_lose_their_segments() {
    let mut p = program();
    let costs = p.cost_table(vec![lasting(1)], vec![]);
    let binding = p.binding([0], Some(costs));
    for name in ["halted", "other"] {
        stream(&mut p, name, binding, vec![run(0); 10]);
    }
    stream(&mut p, "supervisor", binding, vec![run(0), Op::Halt { stream: 0, call: 1 }]);
    assert_eq!(ends(&Platform::default(), &p), [1.0, 10.0, 1.0]);
    let events = |segments| {
        let options = Options { segments, ..Options::default() };
        simulate(&Platform::default(), &p, &StartState::default(), &options).expect("valid").events
    };
    assert!(events(true) <= events(false) - 9, "{} of {}", events(true), events(false));
}

#[test]
fn a_stream_that_serves_a_queue_cannot_be_halted() {
    let mut p = program();
    let queue = p.queue("jobs");
    let binding = p.binding([1], None);
    let block = p.block("halts", [Op::Halt { stream: 0, call: 0 }]);
    let role = p.role([Call::once(block)]);
    p.stream("supervisor", binding, Body::Role(role));
    p.stream("worker", BindingId(0), Body::Serve(queue));
    let errors = simulate(&Platform::default(), &p, &StartState::default(), &Options::default());
    let errors: Vec<String> = errors.unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["the stream that operation 0 of block `halts` halts must be one with a role"]);
}
