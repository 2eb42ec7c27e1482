//! How runs end that do not complete, and what they say.

use sim_core::fixed::Rate;
use sim_core::id::{BlockId, StreamId};
use sim_core::outcome::{End, Limit, OutOfMemory, Place, Waiting};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, CellRef, Op, Program, Shortage, StartState, ticket};
use sim_core::time::Time;
use sim_core::{Options, simulate};

use crate::support::*;

/// Weights of 2 bytes, activations of 3 after a first forward step of 2 s; after the second, 4 more do not fit into 8.
#[test]
fn out_of_memory_says_when_where_and_who_holds_what() {
    let (mut platform, mut p) = (Platform::default(), program());
    platform.store("host", 100);
    let gpu = platform.store("gpu", 8);
    let costs = p.cost_table(vec![lasting(2)], vec![2, 3, 4]);
    let binding = p.binding([gpu.0], Some(costs));
    let [weights, activations] = ["weights", "activations"].map(|name| p.kind(name));
    let take = |size, kind| Op::Acquire {
        store: 0,
        bytes: Affine::offset(size, 0),
        kind,
        shortage: Shortage::Fail,
        priority: 0,
        cause: BUSY,
    };
    stream(&mut p, "weights", binding, vec![take(0, weights)]);
    let forward = p.block("forward", [run(0), take(0, activations)]);
    let role = p.role([Call::counting(forward, 1, 2)]);
    let gpu_stream = p.stream("forward", binding, Body::Role(role));
    let run = simulated(&platform, &p);
    assert_eq!(run.time, s(4));
    assert_eq!(
        run.end,
        End::OutOfMemory(OutOfMemory {
            place: Place { stream: gpu_stream, block: forward, op: 1, args: [2, 0] },
            store: gpu,
            requested: 4,
            capacity: 8,
            holders: vec![(activations, 3), (weights, 2)],
        })
    );
}

/// The deadlock a program ends in, and when.
fn deadlock(platform: &Platform, p: &Program) -> (Vec<Waiting>, Time) {
    let run = simulated(platform, p);
    match run.end {
        End::Deadlock(waiting) => (waiting, run.time),
        end => panic!("a deadlock, not {end:?}"),
    }
}

/// Each stream waits for something that only another one can give, which waits itself.
#[test]
fn a_deadlock_says_who_waits_for_what_and_on_whom() {
    let (mut platform, mut p) = (Platform::default(), program());
    let (pool, store) = (platform.pool("engines", 2), platform.store("gpu", 5));
    let (counter, group, item) = (p.counter(), p.group(3, None), p.cells(1));
    let costs = p.cost_table(vec![lasting(1), lasting(7)], vec![3]);
    let binding = p.binding([counter.0, pool.0, store.0, group.0, item.0], Some(costs));
    let take = acquire(&mut p, 2, 0, Shortage::Wait);
    let free = release(&mut p, 2, 0);
    let drop_one = Op::Drop { pool: 1, units: 1 };
    let item = CellRef { slot: 4, index: Affine::constant(0) };
    let set = Op::Set { cell: item, state: 2 };
    let join = Op::Join { group: 3, activity: Affine::constant(0), cause: BUSY };
    let awaits = Op::Await { cell: item, state: 2, cause: BUSY };
    // A message of 7 s is under way when everything has come to rest: it is not enough.
    let message = Op::Add { counter: 0, amount: 1, after: Some(Affine::constant(1)) };
    let streams: Vec<StreamId> = [
        vec![message, take, run(0), hold(1, 2, 0), free],
        vec![hold(1, 1, 0), run(0), wait(0, 2), drop_one],
        vec![run(0), take, add(0), free],
        vec![awaits, join],
        vec![join, set],
        vec![run(0)],
    ]
    .into_iter()
    .map(|ops| stream(&mut p, "stream", binding, ops))
    .collect();
    let (waiting, time) = deadlock(&platform, &p);
    assert_eq!(time, s(1));
    let told: Vec<_> = waiting
        .iter()
        .map(|w| (w.place.stream, w.place.op, w.since, w.for_what.as_str(), w.on.as_slice()))
        .collect();
    assert_eq!(
        told,
        [
            (streams[0], 3, s(1), "units of pool `engines` (1 of 2 free, 0 others wait)", &streams[1..2]),
            (streams[1], 2, s(1), "counter 0 to reach 2 (it gets to 1)", &[streams[0], streams[2]][..]),
            (streams[2], 1, s(1), "3 bytes of store `gpu` (3 of 5 are held, 0 others wait)", &streams[..1]),
            (streams[3], 0, s(0), "cell 0 to reach state 2 (it is in state 0)", &streams[4..5]),
            (streams[4], 0, s(0), "group 0: 1 of 3 members have arrived", &streams[3..4]),
        ]
    );
}

/// A worker that waits for the job behind it.
#[test]
fn a_deadlock_of_workers_is_told_too() {
    let mut p = program();
    let (tickets, queue) = (p.cells(2), p.queue("jobs"));
    let costs = p.cost_table(vec![lasting(1)], vec![]);
    let binding = p.binding([queue.0, tickets.0], Some(costs));
    let ticket = |index| CellRef { slot: 1, index: Affine::constant(index) };
    let second = Op::Await { cell: ticket(1), state: ticket::DONE, cause: BUSY };
    let (first, other) = (p.block("first", [second]), p.block("other", [run(0)]));
    let post = |block, index| Op::Post {
        queue: 0,
        block,
        args: [Affine::constant(0); 2],
        ticket: Some(ticket(index)),
        priority: 0,
    };
    stream(&mut p, "poster", binding, vec![post(first, 0), post(other, 1)]);
    // Its own binding has no slots: jobs run with that of the poster.
    let bare = p.binding([], None);
    let worker = p.stream("worker", bare, Body::Serve(queue));
    let (waiting, _) = deadlock(&Platform::default(), &p);
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].place.stream, waiting[0].place.block), (worker, first));
    assert_eq!(waiting[0].for_what, "cell 1 to reach state 3 (it is in state 1)");
}

/// What cannot move is a deadlock too.
#[test]
fn a_rate_of_zero_is_a_deadlock() {
    let (mut platform, mut p) = (Platform::default(), program());
    let link = platform.fluid("link", 1e12, BUSY);
    let route = platform.route([Demand::on(link)]);
    let stuck = Activity { cap: Rate(0), ..Activity::moving(5, 0, BUSY) };
    let costs = p.cost_table(vec![stuck], vec![]);
    let binding = p.binding([route.0], Some(costs));
    stream(&mut p, "stuck", binding, vec![run(0)]);
    let (waiting, _) = deadlock(&platform, &p);
    assert_eq!(waiting[0].for_what, "a rate above zero");
}

/// What ends later than can be told ends all the same.
#[test]
fn an_activity_that_outlasts_time_reaches_its_limit() {
    let (mut platform, p) = (Platform::default(), program());
    let link = platform.fluid("link", 1e12, BUSY);
    let route = platform.route([Demand::on(link)]);
    let endless = Activity { cap: Rate(1), ..Activity::moving(1 << 40, 0, BUSY) };
    let long = Activity::lasting(Time(u64::MAX - 1), BUSY);
    for segments in [true, false] {
        for activity in [endless, long] {
            let mut p = p.clone();
            let costs = p.cost_table(vec![lasting(1), activity], vec![]);
            let binding = p.binding([route.0], Some(costs));
            stream(&mut p, "late", binding, vec![run(0), run(1)]);
            let options = Options { segments, ..Options::default() };
            let run = simulate(&platform, &p, &StartState::default(), &options).expect("a valid program");
            assert_eq!(run.end, End::Limit(Limit::Time(Time::LAST)));
        }
    }
}

fn limited(p: &Program, options: Options) -> (End, Time) {
    let run = simulate(&Platform::default(), p, &StartState::default(), &options).expect("a valid program");
    (run.end, run.time)
}

#[test]
fn a_run_stops_at_its_limits() {
    let mut p = program();
    let costs = p.cost_table(vec![lasting(10)], vec![]);
    let binding = p.binding([], Some(costs));
    let block = p.block("step", [run(0), Op::Mark]);
    let role = p.role([Call { block, args: [0; 2], step: [0; 2], repeat: 100 }]);
    p.stream("stream", binding, Body::Role(role));
    let time = |time_max| limited(&p, Options { time_max, ..Options::default() });
    assert_eq!(time(s(35)), (End::Limit(Limit::Time(s(35))), s(35)));
    assert_eq!(time(s(999)), (End::Limit(Limit::Time(s(999))), s(999)));
    assert_eq!(time(s(1000)), (End::Completed, s(1000)), "what ends at the limit counts");
    let events = |events_max| limited(&p, Options { events_max, ..Options::default() });
    assert_eq!(events(3), (End::Limit(Limit::Events(3)), s(30)));
    assert_eq!(events(1_000), (End::Completed, s(1000)));
}

/// Programs in which something happens for ever, or nearly so, while time stands still.
#[test]
fn a_run_that_gets_nowhere_stops_at_the_limit_of_events() {
    let options = Options { events_max: 10_000, ..Options::default() };
    let mut marks = program();
    let binding = marks.binding([], None);
    let mark = marks.block("mark", [Op::Mark]);
    let again = Call { block: mark, args: [0; 2], step: [i32::MAX; 2], repeat: u32::MAX };
    let role = marks.role([again; 50]);
    marks.stream("stream", binding, Body::Role(role));
    assert_eq!(limited(&marks, options), (End::Limit(Limit::Events(10_000)), s(0)));
    let mut jobs = program();
    let queue = jobs.queue("jobs");
    let binding = jobs.binding([queue.0], None);
    let again =
        Op::Post { queue: 0, block: BlockId(0), args: [Affine::constant(0); 2], ticket: None, priority: 0 };
    stream(&mut jobs, "two of itself", binding, vec![again, again]);
    jobs.stream("worker", binding, Body::Serve(queue));
    assert_eq!(limited(&jobs, options), (End::Limit(Limit::Events(10_000)), s(0)));
}
