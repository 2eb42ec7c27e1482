//! Eight small programs that prove the set of operations, each with a timeline computed by hand.

use sim_core::fixed::Rate;
use sim_core::platform::{Bucket, Demand, Platform};
use sim_core::program::{
    Activity, Affine, Body, Call, Candidate, CapRow, Op, ReclaimTable, Rule, Shortage, Units,
};

use crate::support::*;

const RESIDENT: u8 = 1;
const EVICTING: u8 = 2;
const AWAY: u8 = 3;

/// A store of 3 bytes; items 0, 1, 2 are produced in seconds 0-3 and fill it; a fourth byte evicts the one first
/// produced, whose copy out takes 2 s: the fourth starts at 3 + 2.
#[test]
fn online_eviction() {
    let mut platform = Platform::default();
    let store = platform.store("gpu", 3);
    let mut p = program();
    let items = p.cells(3);
    let queue = p.queue("evictions");
    let costs = p.cost_table(vec![lasting(1), lasting(2)], vec![1]);
    // Slots: 0 store, 1 items.
    let binding = p.binding([store.0, items.0], Some(costs));
    let take = acquire(&mut p, 0, 0, Shortage::Reclaim);
    let free = release(&mut p, 0, 0);
    let item = sim_core::program::CellRef { slot: 1, index: Affine::offset(0, 0) };
    let produce = p.block("produce", [take, run(0), Op::Set { cell: item, state: RESIDENT }]);
    let evict = p.block("evict", [run(1), free, Op::Set { cell: item, state: AWAY }]);
    let more = p.block("more", [take, run(0)]);
    let role = p.role([Call::counting(produce, 0, 3), Call::once(more)]);
    let gpu = p.stream("gpu", binding, Body::Role(role));
    p.stream("evictor", binding, Body::Serve(queue));
    let candidates = (0..3).map(|i| Candidate {
        cell: sim_core::id::CellId(items.0 + i),
        resident: RESIDENT,
        evicting: EVICTING,
        bytes: 1,
        block: evict,
        args: [i as i32, 0],
        binding,
        uses: Vec::new(),
    });
    let candidates = candidates.collect();
    p.reclaim.push(ReclaimTable { store, rule: Rule::FirstProduced, queue, clock: None, candidates });
    let timeline = spans(&platform, &p, gpu);
    assert_eq!(timeline[3..], [("more".into(), 0, 3.0, 5.0), ("more".into(), 1, 5.0, 6.0)]);
    assert_eq!(ends(&platform, &p), [6.0]);
}

/// Tensors 0 and 1 are produced at 1 s and 2 s and queued for a disk that writes each in 10 s. Wanted at 3 s, tensor 1 is
/// still queued: cancelled and used; tensor 0 is being written: used directly. Wanted at 22 s, both have been written and
/// must be loaded (5 s) first.
#[test]
fn forwarding_with_cancel() {
    for (gap, end) in [(1, 5), (20, 34)] {
        let mut p = program();
        let (tickets, queue) = (p.cells(2), p.queue("stores"));
        let costs = p.cost_table(vec![lasting(1), lasting(10), lasting(5), lasting(gap)], vec![]);
        let binding = p.binding([queue.0, tickets.0], Some(costs));
        let ticket = sim_core::program::CellRef { slot: 1, index: Affine::offset(0, 0) };
        let store = p.block("store", [run(1)]);
        let post = Op::Post {
            queue: 0,
            block: store,
            args: [Affine::constant(0); 2],
            ticket: Some(ticket),
            priority: 0,
        };
        let produce = p.block("produce", [run(0), post]);
        // By state: idle, queued, running, done, cancelled.
        let by_state = p.branch([4, 1, 4, 3, 4]);
        let over_load = p.branch([4]);
        let use_it = [
            Op::Branch { cell: ticket, targets: by_state },
            Op::Cancel { ticket },
            Op::Branch { cell: ticket, targets: over_load },
            run(2),
            run(0),
        ];
        let (gap, use_it) = (p.block("gap", [run(3)]), p.block("use", use_it));
        let last_first = Call { block: use_it, args: [1, 0], step: [-1, 0], repeat: 2 };
        let role = p.role([Call::counting(produce, 0, 2), Call::once(gap), last_first]);
        p.stream("gpu", binding, Body::Role(role));
        p.stream("writer", binding, Body::Serve(queue));
        assert_eq!(ends(&Platform::default(), &p), [f64::from(end)]);
    }
}

/// A skeleton program feeds a captured graph at 2 s and finds at 5 s that the trace has changed: the graph lane drops its
/// run and what it holds, so that another stream gets the pool at 5 s, and traces eagerly from the next feed at 6 s on.
#[test]
fn co_execution_with_fall_back() {
    let mut platform = Platform::default();
    let (pool, store) = (platform.pool("sms", 8), platform.store("gpu", 4));
    let mut p = program();
    let feed = p.counter();
    let costs = p.cost_table((0..=10).map(lasting).collect(), vec![4]);
    // Slots: 0 feed, 1 pool, 2 store, 3 the graph lane (stream 1).
    let binding = p.binding([feed.0, pool.0, store.0, 1], Some(costs));
    let take = acquire(&mut p, 2, 0, Shortage::Fail);
    let free = release(&mut p, 2, 0);
    let python = vec![run(2), add(0), run(3), Op::Halt { stream: 3, call: 1 }, run(1), add(0)];
    stream(&mut p, "python", binding, python);
    let drop_all = Op::Drop { pool: 1, units: 8 };
    let graph = p.block("graph", [wait(0, 1), hold(1, 8, 0), take, run(10), drop_all, free]);
    let trace = p.block("trace", [wait(0, 2), take, run(2), free]);
    let role = p.role([Call::once(graph), Call::once(trace)]);
    let lane = p.stream("graph", binding, Body::Role(role));
    stream(&mut p, "other", binding, vec![run(3), hold(1, 8, 0), run(1)]);
    assert_eq!(ends(&platform, &p), [6.0, 8.0, 6.0]);
    let timeline = spans(&platform, &p, lane);
    assert_eq!(timeline.last(), Some(&("trace".into(), 2, 6.0, 8.0)));
}

/// A kernel of 132 blocks: one wave of a second on 132 units, two on 108.
fn gemm_beside(waves: u32, other: Vec<Op>, other_first: bool) -> Vec<f64> {
    let mut platform = Platform::default();
    let sms = platform.pool("sms", 132);
    let mut p = program();
    let rate = |waves: u32| Rate::per_second(f64::from(4 * 1_000_000_000 / waves) * 1e3);
    let row = |units, waves| CapRow { units, cap: rate(waves), waves };
    let slower = (132 * waves).div_ceil(108);
    let table = p.cap_table([row(1, 132 * waves), row(108, slower), row(132, waves)]);
    let units = Some(Units { pool: 0, want: 132, priority: 1, table });
    let work = 4_000_000_000_000;
    let kernel = Activity { latency: s(0), work, cap: Rate::UNLIMITED, route: None, units, cause: BUSY };
    let half = Activity {
        units: units.map(|u| Units { want: 66, table: p.cap_table([row(66, 1)]), ..u }),
        ..kernel
    };
    let half_second = Activity::lasting(sim_core::time::Time::from_ms(500), BUSY);
    let costs = p.cost_table(vec![kernel, half, half_second, lasting(10)], vec![]);
    let binding = p.binding([sms.0], Some(costs));
    if other_first {
        stream(&mut p, "other", binding, other);
        stream(&mut p, "gemm", binding, vec![run(0)]);
    } else {
        stream(&mut p, "gemm", binding, vec![run(0)]);
        stream(&mut p, "other", binding, other);
    }
    ends(&platform, &p)
}

/// Kernels on SMs.
#[test]
fn sm_stealing() {
    let collective =
        |delay: Vec<Op>| [delay, vec![hold(0, 24, 0), run(3), Op::Drop { pool: 0, units: 24 }]].concat();
    // Beside a collective that holds 24 units the kernel takes two waves.
    assert_eq!(gemm_beside(1, collective(vec![]), true), [10.0, 2.0]);
    // A collective that arrives in mid-kernel (0.5 s) waits for the end of the wave (1 s); three quarters of the kernel
    // are left, at 5 waves for the whole: 3.75 s.
    assert_eq!(gemm_beside(4, collective(vec![run(2)]), false), [4.75, 11.0]);
    // Two full kernels serialise.
    assert_eq!(gemm_beside(1, vec![run(0)], false), [1.0, 2.0]);
}

/// Two kernels of half the size overlap.
#[test]
fn half_size_kernels_overlap() {
    let mut platform = Platform::default();
    let sms = platform.pool("sms", 132);
    let mut p = program();
    let table = p.cap_table([CapRow { units: 66, cap: Rate::per_second(1e12), waves: 1 }]);
    let units = Some(Units { pool: 0, want: 66, priority: 1, table });
    let half = Activity {
        latency: s(0),
        work: 1_000_000_000_000,
        cap: Rate::UNLIMITED,
        route: None,
        units,
        cause: BUSY,
    };
    let costs = p.cost_table(vec![half], vec![]);
    let binding = p.binding([sms.0], Some(costs));
    stream(&mut p, "a", binding, vec![run(0)]);
    stream(&mut p, "b", binding, vec![run(0)]);
    assert_eq!(ends(&platform, &p), [1.0, 1.0]);
}

/// Two transfers from one input port against one from another share an uplink 25/25/50: the single one moves 1 unit in
/// 2 s, the others have half left then and share the uplink for another second.
#[test]
fn port_fair_uplink() {
    let mut platform = Platform::default();
    let uplink = platform.fluid("uplink", 1e12, BUSY);
    let ports = [platform.port(), platform.port()];
    let routes = ports.map(|port| platform.route([Demand::on(uplink).port(port)]));
    let mut p = program();
    let costs = p.cost_table(vec![Activity::moving(1_000_000_000_000, 0, BUSY)], vec![]);
    for (name, route) in [("a", routes[0]), ("b", routes[0]), ("c", routes[1])] {
        let binding = p.binding([route.0], Some(costs));
        stream(&mut p, name, binding, vec![run(0)]);
    }
    assert_eq!(ends(&platform, &p), [3.0, 3.0, 2.0]);
}

/// GPU threads read host rows in requests of 128 bytes: aligned rows use the whole link, rows that touch two lines need
/// twice the requests and run at half its rate; beside each other, requests are shared 2:2 by weight, payload 2:1.
#[test]
fn request_limited_zero_copy() {
    let mut platform = Platform::default();
    let link = platform.fluid("link", 1e12, BUSY);
    let requests = platform.fluid("requests x 128 B", 1e12, BUSY);
    let aligned = platform.route([Demand::on(link), Demand::on(requests)]);
    let straddling = platform.route([Demand::on(link), Demand::on(requests).coefficient(2.0)]);
    let time_of = |routes: &[u32]| {
        let mut p = program();
        let costs = p.cost_table(vec![Activity::moving(1_000_000_000_000, 0, BUSY)], vec![]);
        for &route in routes {
            let binding = p.binding([route], Some(costs));
            stream(&mut p, "gather", binding, vec![run(0)]);
        }
        ends(&platform, &p)
    };
    assert_eq!(time_of(&[aligned.0]), [1.0]);
    assert_eq!(time_of(&[straddling.0]), [2.0]);
    // Half the requests each: payload at 1/2 and 1/4. At 2 s the first is done, the second half; then it runs at 1/2.
    assert_eq!(time_of(&[aligned.0, straddling.0]), [2.0, 3.0]);
}

/// A disk sustains 0.5 and bursts at 1 until its cache of 1 is full: 4 units take 2 s (2 units; the cache fills at 0.5)
/// and 4 s (2 units). Two idle seconds empty the cache; the next unit takes 1 s again.
#[test]
fn write_cache_running_out() {
    let mut platform = Platform::default();
    let disk = platform.fluid("disk", 0.5e12, BUSY);
    let volume = 1_000_000_000_000;
    platform.fluids[disk.index()].bucket = Some(Bucket::full(Rate::per_second(1e12), volume));
    let route = platform.route([Demand::on(disk)]);
    let mut p = program();
    let moving = |units| Activity::moving(units * volume, 0, BUSY);
    let costs = p.cost_table(vec![moving(4), lasting(2), moving(1)], vec![]);
    let binding = p.binding([route.0], Some(costs));
    let writer = stream(&mut p, "writer", binding, vec![run(0), run(1), run(2)]);
    let timeline: Vec<f64> = spans(&platform, &p, writer).into_iter().map(|span| span.3).collect();
    assert_eq!(timeline, [6.0, 8.0, 9.0]);
    simulated(&platform, &p);
}

/// A duplex link carries 25 one way, 24 and 12 both ways. Two GPUs move 24 out and 24 in: in lock-step 2 x 48/25 s; with
/// phases shifted 1 s (24 out beside 12 in), 0.96 s (12 of 25 in for each) and 1 s (24 out beside 12 in).
#[test]
fn phase_shifted_duplex_swapping() {
    let mut platform = Platform::default();
    let (out, back) = (platform.fluid("out", 2.5e12, BUSY), platform.fluid("in", 2.5e12, BUSY));
    let both = platform.fluid("both", 3.6e12, BUSY);
    let (out_port, in_port) = (platform.port(), platform.port());
    let out = platform.route([Demand::on(out), Demand::on(both).weight(2.0).port(out_port)]);
    let back = platform.route([Demand::on(back), Demand::on(both).port(in_port)]);
    let mut p = program();
    let amount = 2_400_000_000_000;
    let costs =
        p.cost_table(vec![Activity::moving(amount, 0, BUSY), Activity::moving(amount, 1, BUSY)], vec![]);
    let binding = p.binding([out.0, back.0], Some(costs));
    let both_ways = |first: [i32; 2]| {
        let mut p = p.clone();
        for first in first {
            stream(&mut p, "gpu", binding, vec![run(first), run(1 - first)]);
        }
        ends(&platform, &p).into_iter().fold(0.0, f64::max)
    };
    assert!((both_ways([0, 0]) - 3.84).abs() < 1e-9);
    assert!((both_ways([0, 1]) - 2.96).abs() < 1e-9);
}
