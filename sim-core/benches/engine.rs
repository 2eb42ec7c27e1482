//! Throughput of the engine, as ratios to a bare loop in the same process.
//!
//! `cargo bench -p sim-core --bench engine [-- PART OF A NAME]`

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

mod bare;

use std::time::Instant;

use sim_core::fixed::Rate;
use sim_core::id::CauseId;
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, Op, Program, Shortage, StartState};
use sim_core::time::Time;
use sim_core::{Options, simulate};

const BUSY: CauseId = CauseId(0);

fn main() {
    let wanted = std::env::args().skip(1).find(|a| !a.starts_with("--")).unwrap_or_default();
    let bare = bare::events_per_second();
    println!("bare loop: {:.1} M events/s", bare / 1e6);
    for (name, segments, (platform, program)) in [
        ("chain, 64 streams x 10^4 tasks", false, chain(64, 10_000)),
        ("chain, 64 streams x 10^4 tasks, segments", true, chain(64, 10_000)),
        ("chain, 10^4 streams x 10^3 tasks", false, chain(10_000, 1_000)),
        ("chain, 10^4 streams x 10^3 tasks, segments", true, chain(10_000, 1_000)),
        ("fork-join, 64 streams x 10^3", false, fork_join(64, 1_000)),
        ("fork-join, 1024 streams x 10^3", false, fork_join(1_024, 1_000)),
        ("pipeline 1F1B, 64 stages x 4096 micro-batches", true, pipeline(64, 4_096)),
        ("flows that nothing slows, 256 streams x 10^3", false, flows(256, 1, 1_000)),
        ("flows, two to a link, 256 streams x 10^3", false, flows(256, 2, 1_000)),
        ("integrated path, 64 ranks x 10^4", false, integrated(64, 10_000)),
        ("integrated path, 1024 ranks x 10^3", false, integrated(1_024, 1_000)),
        ("posts through a queue of 1,024, one a task", false, posts(1_024, 1_000_000)),
        ("copies both ways beside kernels, 1 device x 10^5", true, swapping(1, 100_000)),
        ("copies both ways beside kernels, 8 devices on one link x 10^4", true, swapping(8, 10_000)),
    ] {
        if !name.contains(&wanted) {
            continue;
        }
        let options = Options { segments, ..Options::default() };
        let start = StartState::default();
        let mut best = f64::INFINITY;
        let (mut activities, mut events) = (0, 0);
        for _ in 0..3 {
            let begun = Instant::now();
            let run = simulate(&platform, &program, &start, &options).expect("a valid program");
            best = best.min(begun.elapsed().as_secs_f64());
            (activities, events) = (run.activities, run.events);
        }
        let rate = activities as f64 / best;
        println!(
            "{name}: {activities} activities, {events} events in {:.1} ms, {:.2} M activities/s, {:.2} M events/s, 1/{:.1} of the bare loop",
            best * 1e3,
            rate / 1e6,
            events as f64 / best / 1e6,
            bare / rate
        );
    }
}

fn program() -> Program {
    let mut program = Program::default();
    program.cause("busy");
    program
}

fn run(activity: i32) -> Op {
    Op::Run { activity: Affine::constant(activity) }
}

/// Streams of tasks one after another; durations differ so that no two events coincide for long.
fn chain(streams: u32, tasks: u32) -> (Platform, Program) {
    let mut p = program();
    for s in 0..streams {
        let length = Time(1_000_000 + u64::from(s) * 7_919 % 104_729);
        let costs = p.cost_table(vec![Activity::lasting(length, BUSY)], vec![]);
        let binding = p.binding([], Some(costs));
        let block = p.block("task", vec![run(0); 10]);
        let role = p.role([Call::counting(block, 0, tasks / 10)]);
        p.stream("chain", binding, Body::Role(role));
    }
    (Platform::default(), p)
}

/// All streams meet after every task.
fn fork_join(streams: u32, tasks: u32) -> (Platform, Program) {
    let mut p = program();
    let group = p.group(streams, None);
    for s in 0..streams {
        let length = Time(1_000_000 + u64::from(s) * 7_919 % 104_729);
        let costs =
            p.cost_table(vec![Activity::lasting(length, BUSY), Activity::lasting(Time::ZERO, BUSY)], vec![]);
        let binding = p.binding([group.0], Some(costs));
        let join = Op::Join { group: 0, activity: Affine::constant(1), cause: BUSY };
        let block = p.block("task", [run(0), join]);
        let role = p.role([Call::counting(block, 0, tasks)]);
        p.stream("fork", binding, Body::Role(role));
    }
    (Platform::default(), p)
}

/// A stream that posts as long as fewer than `depth` posts wait, and one that takes them and does a
/// task for each.
fn posts(depth: i32, posts: u32) -> (Platform, Program) {
    let mut p = program();
    let [posted, taken] = [p.counter(), p.counter()];
    let costs = p.cost_table(vec![Activity::lasting(Time::from_us(1), BUSY)], vec![]);
    let wait = |counter, at_least| Op::Wait { counter, at_least: Affine::offset(at_least, 0), cause: BUSY };
    let add = |counter| Op::Add { counter, amount: 1, after: None };
    let both =
        [("poster", [wait(1, 1 - depth), add(0)].to_vec()), ("taker", vec![wait(0, 1), add(1), run(0)])];
    for (name, ops) in both {
        let binding = p.binding([posted.0, taken.0], Some(costs));
        let block = p.block(name, ops);
        let role = p.role([Call::counting(block, 0, posts)]);
        p.stream(name, binding, Body::Role(role));
    }
    (Platform::default(), p)
}

/// Streams that move data over links, so many to each of them; one alone is held back by its cap, not by the link.
fn flows(streams: u32, to_a_link: u32, moves: u32) -> (Platform, Program) {
    let (mut platform, mut p) = (Platform::default(), program());
    for s in 0..streams {
        if s % to_a_link == 0 {
            let link = platform.fluid("link", 1e9, BUSY);
            platform.route([Demand::on(link)]);
        }
        let route = platform.routes.len() as u32 - 1;
        let work = 1_000 + u64::from(s) * 7_919 % 1_009;
        let capped = Activity { cap: Rate::per_second(9e8), ..Activity::moving(work, 0, BUSY) };
        let costs = p.cost_table(vec![capped], vec![]);
        let binding = p.binding([route], Some(costs));
        let block = p.block("move", [run(0)]);
        let role = p.role([Call::counting(block, 0, moves)]);
        p.stream("mover", binding, Body::Role(role));
    }
    (platform, p)
}

/// 1F1B with message latencies and activation memory.
fn pipeline(stages: u32, micro_batches: u32) -> (Platform, Program) {
    let mut platform = Platform::default();
    let mut p = program();
    let kind = p.kind("activations");
    let forward: Vec<_> = (0..=stages).map(|_| p.counter()).collect();
    let backward: Vec<_> = (0..=stages).map(|_| p.counter()).collect();
    let ms = Time::from_us(18_522);
    let costs = p.cost_table(
        vec![
            Activity::lasting(ms, BUSY),
            Activity::lasting(Time::from_us(27_423), BUSY),
            Activity::lasting(Time::from_us(601), BUSY),
        ],
        vec![3_500_000_000],
    );
    let bytes = Affine::constant(0);
    let send = |counter| Op::Add { counter, amount: 1, after: Some(Affine::constant(2)) };
    let receive = |counter| Op::Wait { counter, at_least: Affine::offset(1, 0), cause: BUSY };
    let take = Op::Acquire { store: 4, bytes, kind, shortage: Shortage::Fail, priority: 0, cause: BUSY };
    let free = Op::Release { store: 4, bytes, kind };
    for s in 0..stages {
        let store = platform.store("hbm", u64::MAX);
        let (i, last) = (s as usize, s + 1 == stages);
        let slots = [forward[i].0, forward[i + 1].0, backward[i + 1].0, backward[i].0, store.0];
        let binding = p.binding(slots, Some(costs));
        let mut ops = if s == 0 { vec![] } else { vec![receive(0)] };
        ops.extend([take, run(0)]);
        ops.extend((!last).then_some(send(1)));
        let f = p.block("F", ops);
        let mut ops = if last { vec![] } else { vec![receive(2)] };
        ops.extend([run(1), free]);
        ops.extend((s > 0).then_some(send(3)));
        let b = p.block("B", ops);
        let warm_up = (stages - s - 1).min(micro_batches);
        let mut calls = vec![Call::counting(f, 0, warm_up)];
        for k in 0..micro_batches {
            if k + warm_up < micro_batches {
                calls.push(Call::counting(f, (k + warm_up) as i32, 1));
            }
            calls.push(Call::counting(b, k as i32, 1));
        }
        let role = p.role(calls);
        p.stream("stage", binding, Body::Role(role));
    }
    (platform, p)
}

/// Devices behind a switch that compute while what the kernels before made goes out to the host and what the next ones
/// need comes back: copies that are prior on the device's memory, over a shared link whose directions meet.
fn swapping(devices: u32, kernels: u32) -> (Platform, Program) {
    let mut platform = Platform::default();
    let mut p = program();
    let shared = ["up", "down"].map(|way| platform.fluid(way, 12e9, BUSY));
    let both = platform.fluid("both", 20e9, BUSY);
    let ports = [platform.port(), platform.port()];
    for d in 0..devices {
        let hbm = platform.fluid("hbm", 900e9, BUSY);
        let routes = [0, 1].map(|way| {
            let own = platform.fluid("link", 12e9, BUSY);
            let meeting = Demand::on(both).weight([1.1, 0.9][way]).port(ports[way]);
            platform.route([Demand::on(own), Demand::on(shared[way]), meeting, Demand::on(hbm).prior()])
        });
        let kernel_route = platform.route([Demand::on(hbm)]);
        let [made, gone, here] = [p.counter(), p.counter(), p.counter()];
        let moving = |bytes, route| Activity::moving(bytes + u64::from(d) * 97, route, BUSY);
        let costs =
            p.cost_table(vec![moving(80_000_000, 0), moving(1_000_000, 0), moving(9_000_000, 0)], vec![]);
        let bind = |p: &mut Program, route: sim_core::id::RouteId| {
            p.binding([route.0, made.0, gone.0, here.0], Some(costs))
        };
        let [compute, out, back] = [kernel_route, routes[0], routes[1]].map(|route| bind(&mut p, route));
        let add = |counter| Op::Add { counter, amount: 1, after: None };
        let wait =
            |counter, base| Op::Wait { counter, at_least: Affine { base, stride: 1, arg: 0 }, cause: BUSY };
        let mut ops = vec![wait(2, -1), wait(3, -1)];
        ops.extend([run(0), run(1), run(0), run(1), run(0), run(1), run(0), run(1), add(1)]);
        let step = p.block("kernels", ops);
        let store = p.block("store", [wait(1, 1), run(2), add(2)]);
        let load = p.block("load", [wait(1, 1), run(2), add(3)]);
        for (name, block, binding) in [("compute", step, compute), ("out", store, out), ("back", load, back)]
        {
            let role = p.role([Call::counting(block, 0, kernels / 8)]);
            p.stream(name, binding, Body::Role(role));
        }
    }
    (platform, p)
}

/// Launch, pool, fluid demand, acquire, release, and one join per eight activities: two streams a rank, a host that
/// launches and a device that computes.
fn integrated(ranks: u32, kernels: u32) -> (Platform, Program) {
    let mut platform = Platform::default();
    let mut p = program();
    let kind = p.kind("activations");
    let group = p.group(ranks, None);
    for r in 0..ranks {
        let hbm = platform.fluid("hbm", 2e12, BUSY);
        let route = platform.route([Demand::on(hbm)]);
        let pool = platform.pool("sms", 108);
        let store = platform.store("gpu", u64::MAX);
        let (launched, done) = (p.counter(), p.counter());
        let work = 1_000_000 + u64::from(r) * 97;
        let kernel =
            Activity { cap: sim_core::fixed::Rate::per_second(1e12), ..Activity::moving(work, 0, BUSY) };
        let costs = p.cost_table(
            vec![
                kernel,
                Activity::lasting(Time::from_ns(300), BUSY),
                Activity::lasting(Time::from_us(1), BUSY),
            ],
            vec![1 << 20],
        );
        let binding = p.binding([route.0, pool.0, store.0, group.0, launched.0, done.0], Some(costs));
        let bytes = Affine::constant(0);
        let add = |counter| Op::Add { counter, amount: 1, after: None };
        let wait = |counter, at_least| Op::Wait { counter, at_least, cause: BUSY };
        // The host runs at most 64 kernels ahead.
        let launch = p.block("launch", [wait(5, Affine { base: -7, stride: 1, arg: 0 }), run(1), add(4)]);
        let kernel = [
            Op::Hold { pool: 1, units: 108, priority: 0, cause: BUSY },
            Op::Acquire { store: 2, bytes, kind, shortage: Shortage::Fail, priority: 0, cause: BUSY },
            run(0),
            Op::Release { store: 2, bytes, kind },
            Op::Drop { pool: 1, units: 108 },
            add(5),
        ];
        let mut ops = Vec::new();
        for i in 0..8 {
            ops.push(wait(4, Affine { base: i + 1, stride: 8, arg: 0 }));
            ops.extend(kernel);
        }
        ops.push(Op::Join { group: 3, activity: Affine::constant(2), cause: BUSY });
        let compute = p.block("kernels", ops);
        let host = p.role([Call::counting(launch, 0, kernels)]);
        let device = p.role([Call::counting(compute, 0, kernels / 8)]);
        p.stream("host", binding, Body::Role(host));
        p.stream("device", binding, Body::Role(device));
    }
    (platform, p)
}
