//! Jobs of queues, groups and halts where streams come and go.

use sim_core::noise::Noise;
use sim_core::outcome::End;
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, Op};
use sim_core::record::{Recorder, Selection};
use sim_core::time::Time;
use sim_core::{Options, simulate_observed};

use crate::support::*;

/// A worker posts with the binding of the job it executes, not with its own.
#[test]
fn jobs_of_jobs_keep_the_first_binding() {
    let mut p = program();
    let (queue, done) = (p.queue("jobs"), p.counter());
    let costs = p.cost_table(vec![lasting(1)], vec![]);
    let binding = p.binding([queue.0, done.0], Some(costs));
    let inner = p.block("inner", [run(0), add(1)]);
    let args = [Affine::constant(0); 2];
    let post = |block| Op::Post { queue: 0, block, args, ticket: None, priority: 0 };
    let outer = p.block("outer", [run(0), post(inner)]);
    stream(&mut p, "poster", binding, vec![post(outer), wait(1, 1)]);
    let bare = p.binding([], None);
    p.stream("worker", bare, Body::Serve(queue));
    assert_eq!(ends(&Platform::default(), &p), [2.0]);
}

/// The idle worker takes the first job at once; of the others, posted meanwhile, the best priority goes first and equals in
/// the order of posting.
#[test]
fn jobs_are_served_by_priority_then_arrival() {
    let mut p = program();
    let (queue, done) = (p.queue("jobs"), p.counter());
    let costs = p.cost_table(vec![lasting(1)], vec![]);
    let binding = p.binding([queue.0, done.0], Some(costs));
    let work = p.block("work", [run(0), Op::Mark, add(1)]);
    let post = |priority: u8| {
        let args = [Affine::constant(i32::from(priority)), Affine::constant(0)];
        Op::Post { queue: 0, block: work, args, ticket: None, priority }
    };
    let worker = p.stream("worker", binding, Body::Serve(queue));
    stream(&mut p, "poster", binding, vec![post(9), post(2), post(1), post(3), post(1), post(0), wait(1, 6)]);
    let mut recorder = Recorder::new(Selection::spans_of([worker]));
    let platform = Platform::default();
    simulate_observed(&platform, &p, &Default::default(), &Options::default(), &mut recorder)
        .expect("a valid program");
    let order: Vec<i32> = recorder.spans.iter().map(|span| span.place.args[0]).collect();
    assert_eq!(order, [9, 0, 1, 1, 2, 3]);
}

/// Two ranks reduce; `rank 0` is halted at `halted` s and starts again at its call 1. The first reduction begins at 2 s.
fn halted_member(halted: u64, again: Vec<Op>) -> Vec<f64> {
    let (mut platform, mut p) = (Platform::default(), program());
    let link = platform.fluid("link", 1e12, BUSY);
    let ring = platform.route([Demand::on(link)]);
    let group = p.group(2, Some(ring));
    let reduce = Activity { latency: s(1), ..Activity::moving(4_000_000_000_000, 1, BUSY) };
    let costs = p.cost_table(vec![lasting(2), reduce, lasting(halted)], vec![]);
    // Slots: 0 group, 1 route, 2 rank 0 (stream 0).
    let binding = p.binding([group.0, ring.0, 0], Some(costs));
    let join = Op::Join { group: 0, activity: Affine::constant(1), cause: BUSY };
    let first = p.block("first", [run(0), join]);
    let second = p.block("again", again);
    let role = p.role([Call::once(first), Call::once(second)]);
    p.stream("rank 0", binding, Body::Role(role));
    stream(&mut p, "rank 1", binding, vec![run(0), join, join]);
    stream(&mut p, "supervisor", binding, vec![run(2), Op::Halt { stream: 2, call: 1 }]);
    ends(&platform, &p)
}

/// The reduction (2 to 7 s) that a halted rank leaves at 4 s goes on for the other; the next one begins when both are
/// there again, at 7 s.
#[test]
fn a_halted_member_joins_the_next_activity_of_its_group() {
    let join = Op::Join { group: 0, activity: Affine::constant(1), cause: BUSY };
    assert_eq!(halted_member(4, vec![join]), [12.0, 12.0, 4.0]);
}

/// Both ranks are halted in the latency of their reduction (2.5 s) or in its work (4 s): it is dropped, and the link is free.
#[test]
fn an_activity_without_members_is_dropped() {
    for halted in [Time::from_ms(2_500), s(4)] {
        let (mut platform, mut p) = (Platform::default(), program());
        let link = platform.fluid("link", 1e12, BUSY);
        let ring = platform.route([Demand::on(link)]);
        let group = p.group(2, Some(ring));
        let work = Activity::moving(4_000_000_000_000, 1, BUSY);
        let reduce = Activity { latency: s(1), ..work };
        let costs = p.cost_table(vec![lasting(2), reduce, Activity::lasting(halted, BUSY), work], vec![]);
        // Slots: 0 group, 1 route, 2 and 3 the ranks.
        let binding = p.binding([group.0, ring.0, 0, 1], Some(costs));
        let join = Op::Join { group: 0, activity: Affine::constant(1), cause: BUSY };
        for _ in 0..2 {
            stream(&mut p, "rank", binding, vec![run(0), join]);
        }
        let halts = [2, 3].map(|stream| Op::Halt { stream, call: 1 });
        stream(&mut p, "supervisor", binding, [&[run(2)], &halts[..], &[run(3)]].concat());
        let halted = halted.as_secs();
        assert_eq!(ends(&platform, &p), [halted, halted, halted + 4.0]);
    }
}

/// A stream that is let go by its last operation and halted in the same instant, when it stands behind the program's last
/// operation.
#[test]
fn a_stream_is_halted_as_it_ends() {
    let mut p = program();
    let counter = p.counter();
    let costs = p.cost_table(vec![lasting(1)], vec![]);
    let binding = p.binding([counter.0, 1], Some(costs));
    stream(&mut p, "supervisor", binding, vec![run(0), add(0), Op::Halt { stream: 1, call: 1 }]);
    stream(&mut p, "halted", binding, vec![wait(0, 1)]);
    assert_eq!(ends(&Platform::default(), &p), [1.0, 1.0]);
}

/// A third stream in a group of two, while the activity of the other two is under way: nobody could say whose turn it is.
#[test]
fn a_group_has_room_for_its_members_only() {
    let mut p = program();
    let group = p.group(1, None);
    let costs = p.cost_table(vec![lasting(1), lasting(5)], vec![]);
    let binding = p.binding([group.0], Some(costs));
    let join = Op::Join { group: 0, activity: Affine::constant(1), cause: BUSY };
    stream(&mut p, "member", binding, vec![join]);
    stream(&mut p, "stranger", binding, vec![run(0), join]);
    let end = simulated(&Platform::default(), &p).end;
    assert!(matches!(end, End::Invalid { place, .. } if place.stream.0 == 1), "{end:?}");
}

/// A collective takes the noise of its last member; those that wait may not have drawn any yet.
#[test]
fn the_first_operation_of_a_noisy_stream_may_be_a_join() {
    let (mut platform, mut p) = (Platform::default(), program());
    let link = platform.fluid("link", 1e12, BUSY);
    let ring = platform.route([Demand::on(link)]);
    let group = p.group(2, Some(ring));
    let reduce = Activity { latency: s(1), ..Activity::moving(4_000_000_000_000, 1, BUSY) };
    let costs = p.cost_table(vec![reduce, lasting(1)], vec![]);
    let binding = p.binding([group.0, ring.0], Some(costs));
    let join = Op::Join { group: 0, activity: Affine::constant(0), cause: BUSY };
    stream(&mut p, "early", binding, vec![join]);
    stream(&mut p, "late", binding, vec![run(1), join]);
    p.noise = Noise { operation: 0.01, ..Noise::default() };
    let noisy = ends(&platform, &p);
    assert_eq!(noisy[0], noisy[1]);
    assert!((noisy[0] - 6.0).abs() < 0.3, "{noisy:?}");
}
