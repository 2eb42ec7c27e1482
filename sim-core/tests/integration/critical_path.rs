//! Critical paths between marks: exact sums, cut off at the time of the first mark wherever the path is then.

use sim_core::fold::fold;
use sim_core::id::{CauseId, StreamId};
use sim_core::outcome::{ByCause, Run};
use sim_core::platform::Platform;
use sim_core::program::{Activity, Affine, Body, CAUSES_MAX, Call, Op, Program, StartState};
use sim_core::record::EventLog;
use sim_core::time::Time;
use sim_core::{Options, simulate, simulate_observed};

use crate::ahead::random_network;
use crate::folded_runs::cluster;
use crate::random_programs::random_program;
use crate::support::*;

fn sum(by_cause: &ByCause) -> Time {
    Time(by_cause.iter().map(|time| time.0).sum())
}

fn simulated_from(platform: &Platform, program: &Program, path_from: Option<u32>, segments: bool) -> Run {
    let options = Options { path_from, segments, ..Options::default() };
    simulate(platform, program, &StartState::default(), &options).expect("a valid program")
}

/// Marks the end of every block, and gives every activity of a table a cause of its own, so that paths differ.
fn mark_and_tell_apart(program: &mut Program) {
    for block in &mut program.blocks {
        block.ops.push(Op::Mark);
    }
    for number in program.causes.len()..16 {
        program.cause(&format!("cause {number}"));
    }
    for table in &mut program.costs {
        for (number, activity) in table.activities.iter_mut().enumerate() {
            activity.cause = CauseId(number as u32 % 16);
        }
    }
}

/// Checks the paths of a program from its first, second and third mark; gives how many were cut off in the middle of
/// what another stream did, as far as sums show it.
fn check(seed: u64, platform: &Platform, program: &Program) -> u32 {
    let mut elsewhere = 0;
    let whole = simulated_from(platform, program, None, true);
    for first in 0..3 {
        let run = simulated_from(platform, program, Some(first), true);
        let plain = simulated_from(platform, program, Some(first), false);
        assert_eq!(run.streams, plain.streams, "seed {seed}, by the clock");
        let options = Options { path_from: Some(first), ..Options::default() };
        let start = StartState::default();
        let seen = simulate_observed(platform, program, &start, &options, &mut EventLog::default());
        assert_eq!(run.streams, seen.expect("a valid program").streams, "seed {seed}, observed");
        elsewhere += check_steps((platform, program), first, seed, &run);
        for (stream, whole) in run.streams.iter().zip(&whole.streams) {
            assert_eq!(stream.marks, whole.marks);
            let Some(&from) = stream.marks.get(first as usize) else {
                assert_eq!(sum(&stream.critical), Time::ZERO, "seed {seed}");
                continue;
            };
            let to = stream.marks[stream.marks.len() - 1];
            assert_eq!(sum(&stream.critical), to - from, "seed {seed}, from mark {first}");
            // Up to the end it can only get longer.
            for (part, all) in stream.critical.iter().zip(&whole.critical) {
                assert!(part <= all, "seed {seed}: {:?} of {:?}", stream.critical, whole.critical);
            }
            let spent = stream.spent_at_marks.iter().map(|spent| spent.map(|time| time.0));
            let spent: Vec<_> = spent.collect();
            let own = (0..16).map(|cause| spent[spent.len() - 1][cause] - spent[first as usize][cause]);
            elsewhere += u32::from(!own.eq(stream.critical.iter().map(|time| time.0)));
        }
    }
    elsewhere
}

/// Checks that the steps of one path follow each other from its first mark to its last, and that
/// they add up to the path by cause; gives how many are of other streams.
fn check_steps((platform, program): (&Platform, &Program), first: u32, seed: u64, run: &Run) -> u32 {
    let stream = StreamId(seed as u32 % run.streams.len() as u32);
    let options = Options { path_from: Some(first), path_of: Some(stream), ..Options::default() };
    let told = simulate(platform, program, &StartState::default(), &options).expect("a valid program");
    assert_eq!(told.streams, run.streams, "seed {seed}: who asks changes nothing");
    let of = &told.streams[stream.index()];
    let Some(mut now) = of.marks.get(first as usize).copied() else {
        assert!(told.path.is_empty(), "seed {seed}");
        return 0;
    };
    let mut by_cause = [Time::ZERO; CAUSES_MAX];
    for step in &told.path {
        assert_eq!(step.begin, now, "seed {seed}: no gap");
        by_cause[step.cause.index()] += step.duration;
        now += step.duration;
    }
    assert_eq!(Some(&now), of.marks.last(), "seed {seed}");
    assert_eq!(by_cause, of.critical, "seed {seed}");
    told.path.iter().filter(|step| step.stream != stream).count() as u32
}

#[test]
fn paths_between_marks_add_up_to_their_distance() {
    let mut elsewhere = 0;
    for seed in 0..1_000 {
        for (platform, mut program) in [random_network(seed), random_program(seed), cluster(seed)] {
            mark_and_tell_apart(&mut program);
            elsewhere += check(seed, &platform, &program);
        }
    }
    assert!(elsewhere > 1_000, "only {elsewhere} paths led through other streams");
}

#[test]
fn folded_programs_have_the_paths_of_the_originals() {
    for seed in 0..1_000 {
        let (platform, mut program) = cluster(seed);
        mark_and_tell_apart(&mut program);
        let start = StartState::default();
        let folded = fold(&platform, &program, &start);
        let options = Options { path_from: Some(0), segments: seed % 2 == 0, ..Options::default() };
        let original = simulate(&platform, &program, &start, &options).expect("the program is valid");
        let small = simulate(&folded.platform, &folded.program, &folded.start, &options).expect("so is this");
        assert_eq!(original.streams, folded.expand(&small).streams, "seed {seed}");
    }
}

/// Stream b marks at 5, waits for a, whose second activity goes from 4 to 10, and marks at 13: from 5 on the path is five
/// seconds of that activity and b's own three. The difference of the whole paths at the marks would have a's first one.
#[test]
fn a_path_is_cut_off_within_what_another_stream_does() {
    let (platform, mut p) = (Platform::default(), program());
    let other = p.cause("other");
    let done = p.counter();
    let activities =
        vec![Activity::lasting(s(4), other), lasting(6), lasting(5), Activity::lasting(s(3), other)];
    let costs = p.cost_table(activities, vec![]);
    let binding = p.binding([done.0], Some(costs));
    stream(&mut p, "a", binding, vec![run(0), run(1), add(0)]);
    let b = stream(&mut p, "b", binding, vec![run(2), Op::Mark, wait(0, 1), run(3), Op::Mark, run(2)]);
    let path = |from| simulated_from(&platform, &p, from, true).streams[b.index()].critical;
    assert_eq!(path(Some(0))[..2], [s(5), s(3)]);
    assert_eq!(path(None)[..2], [s(11), s(7)]);
}

/// A message that is under way at the first mark: what is left of its flight is on the path.
#[test]
fn a_path_is_cut_off_within_a_flight() {
    let (platform, mut p) = (Platform::default(), program());
    let flight = p.cause("flight");
    let sent = p.counter();
    let costs = p.cost_table(vec![lasting(1), Activity::lasting(s(8), flight), lasting(3)], vec![]);
    let binding = p.binding([sent.0], Some(costs));
    let message = Op::Add { counter: 0, amount: 1, after: Some(Affine::constant(1)) };
    stream(&mut p, "sender", binding, vec![run(0), message]);
    let ops = vec![run(2), Op::Mark, wait(0, 1), run(0), Op::Mark];
    let receiver = stream(&mut p, "receiver", binding, ops);
    let run = simulated_from(&platform, &p, Some(0), true);
    assert_eq!(run.streams[receiver.index()].critical[..2], [s(1), s(6)]);
}

/// Of two jobs that one worker executes, the second waits for the first: the path to its end is both.
#[test]
fn the_path_of_a_queued_job_is_its_workers() {
    let (platform, mut p) = (Platform::default(), program());
    let other = p.cause("other");
    let (queue, cells) = (p.queue("jobs"), p.cells(2));
    let costs = p.cost_table(vec![lasting(5), Activity::lasting(s(3), other)], vec![]);
    let binding = p.binding([queue.0, cells.0, cells.0 + 1], Some(costs));
    let jobs = [0, 1].map(|activity| p.block("job", vec![run(activity)]));
    let ticket = |slot: u16| sim_core::program::CellRef { slot, index: Affine::constant(0) };
    let args = [Affine::constant(0); 2];
    let post = |job: usize| Op::Post {
        queue: 0,
        block: jobs[job],
        args,
        ticket: Some(ticket(1 + job as u16)),
        priority: 0,
    };
    let done = sim_core::program::ticket::DONE;
    let ops = vec![post(0), post(1), Op::Await { cell: ticket(2), state: done, cause: BUSY }];
    let block = p.block("poster", ops);
    let role = p.role([Call::once(block)]);
    let poster: StreamId = p.stream("poster", binding, Body::Role(role));
    p.stream("worker", binding, Body::Serve(queue));
    let run = simulated(&platform, &p);
    assert_eq!(run.streams[poster.index()].finished, Some(s(8)));
    assert_eq!(run.streams[poster.index()].critical[..2], [s(5), s(3)]);
}
