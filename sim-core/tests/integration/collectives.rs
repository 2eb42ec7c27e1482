//! Collectives and pipeline sends, with timelines computed by hand.

use sim_core::fixed::Rate;
use sim_core::id::{BindingId, CauseId, CostTableId, RouteId};
use sim_core::outcome::Run;
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, CapRow, Op, Program, Shortage, Slot, Units};
use sim_core::time::Time;

use crate::support::*;

/// One unit per second in fixed point is exact for multiples of 1e12.
const UNIT: u64 = 1_000_000_000_000;

/// A program with the causes `busy`, `skew` and `communication`.
fn with_causes() -> (Program, CauseId, CauseId) {
    let mut p = program();
    let (skew, communication) = (p.cause("skew"), p.cause("communication"));
    (p, skew, communication)
}

fn join(group: Slot, activity: i32, cause: CauseId) -> Op {
    Op::Join { group, activity: Affine::constant(activity), cause }
}

fn spent(run: &Run, cause: CauseId) -> Vec<Time> {
    run.streams.iter().map(|stream| stream.spent[cause.index()]).collect()
}

fn finished(run: &Run) -> Vec<Time> {
    run.streams.iter().filter_map(|stream| stream.finished).collect()
}

/// Four ranks work 2 s and reduce for 5 s; one of them works `delay` longer.
fn ring_with_straggler(delay: u64) -> (Run, CauseId, CauseId) {
    let (mut p, skew, communication) = with_causes();
    let mut platform = Platform::default();
    let links: Vec<_> = (0..4).map(|i| platform.fluid(format!("link[{i}]"), 1e12, BUSY)).collect();
    let ring = platform.route(links.into_iter().map(Demand::on));
    let group = p.group(4, Some(ring));
    let reduce = Activity::moving(5 * UNIT, 1, communication);
    let costs = p.cost_table(vec![lasting(2), lasting(delay), reduce], vec![]);
    let binding = p.binding([group.0, ring.0], Some(costs));
    for rank in 0..4 {
        let late = (rank == 2).then_some(run(1));
        let ops = [run(0)].into_iter().chain(late).chain([join(0, 2, skew)]).collect();
        stream(&mut p, "rank", binding, ops);
    }
    (simulated(&platform, &p), skew, communication)
}

#[test]
fn a_straggler_delays_all_and_the_others_report_it_as_skew() {
    let (run, skew, communication) = ring_with_straggler(0);
    assert_eq!(finished(&run), [s(7); 4]);
    assert_eq!(spent(&run, skew), [s(0); 4]);
    for delay in [1, 3, 50] {
        let (run, ..) = ring_with_straggler(delay);
        assert_eq!(finished(&run), [s(7 + delay); 4]);
        assert_eq!(spent(&run, skew), [s(delay), s(delay), s(0), s(delay)]);
        assert_eq!(spent(&run, communication), [s(5); 4]);
        // The critical path of every rank goes through the straggler: nothing on it is skew.
        for stream in &run.streams {
            assert_eq!(stream.critical[skew.index()], s(0));
            assert_eq!(stream.critical[BUSY.index()], s(2 + delay));
        }
    }
}

/// Five ranks in a full mesh of links of 1 unit/s, behind ports of 3 units/s; the link from 0 to 1 runs at `speed`.
struct Mesh {
    platform: Platform,
    /// Over the links i -> i + 1.
    ring: RouteId,
    /// Per source, over its port and, a quarter of the bytes each, its links.
    sources: Vec<RouteId>,
}

impl Mesh {
    const RANKS: usize = 5;

    fn new(speed: f64) -> Self {
        let mut platform = Platform::default();
        let (mut ring, mut sources) = (Vec::new(), Vec::new());
        for from in 0..Self::RANKS {
            let port = platform.fluid(format!("port[{from}]"), 3e12, BUSY);
            let mut demands = vec![Demand::on(port)];
            for to in (0..Self::RANKS).filter(|&to| to != from) {
                let rate = if (from, to) == (0, 1) { speed } else { 1.0 };
                let link = platform.fluid(format!("link[{from}][{to}]"), rate * 1e12, BUSY);
                demands.push(Demand::on(link).coefficient(0.25));
                if to == (from + 1) % Self::RANKS {
                    ring.push(Demand::on(link));
                }
            }
            sources.push(platform.route(demands));
        }
        Self { ring: platform.route(ring), platform, sources }
    }

    /// 12 units around the ring as one coupled activity.
    fn ring(&self) -> Run {
        let (mut p, skew, communication) = with_causes();
        let group = p.group(Self::RANKS as u32, Some(self.ring));
        let costs = p.cost_table(vec![Activity::moving(12 * UNIT, 1, communication)], vec![]);
        let binding = p.binding([group.0, self.ring.0], Some(costs));
        for _ in 0..Self::RANKS {
            stream(&mut p, "rank", binding, vec![join(0, 0, skew)]);
        }
        simulated(&self.platform, &p)
    }

    /// 12 units from each source to all others, joined at the end.
    fn all_to_all(&self) -> (Run, CauseId, CauseId) {
        let (mut p, skew, communication) = with_causes();
        let group = p.group(Self::RANKS as u32, None);
        let send = Activity::moving(12 * UNIT, 1, communication);
        let costs = p.cost_table(vec![send, Activity::lasting(s(0), communication)], vec![]);
        for source in &self.sources {
            let binding = p.binding([group.0, source.0], Some(costs));
            stream(&mut p, "rank", binding, vec![run(0), join(0, 1, skew)]);
        }
        (simulated(&self.platform, &p), skew, communication)
    }
}

/// A ring moves 12 units at the slowest link's speed: 12 s, or 24 s for everybody. In the all-to-all each link needs 3/4
/// of its speed: 4 s at the port's 3 units/s; over a link of 1/2 a source gets 4 x 1/2 and needs 6 s, the others still 4.
#[test]
fn a_half_speed_link_halves_the_ring_but_not_the_all_to_all() {
    let (healthy, slow) = (Mesh::new(1.0), Mesh::new(0.5));
    assert_eq!(finished(&healthy.ring()), [s(12); 5]);
    assert_eq!(finished(&slow.ring()), [s(24); 5]);
    let (run, ..) = healthy.all_to_all();
    assert_eq!(finished(&run), [s(4); 5]);
    let (run, skew, communication) = slow.all_to_all();
    assert_eq!(finished(&run), [s(6); 5]);
    assert_eq!(spent(&run, skew), [s(0), s(2), s(2), s(2), s(2)]);
    assert_eq!(spent(&run, communication), [s(6), s(4), s(4), s(4), s(4)]);
}

/// Rank 0 arrives at once and rank 1 at 5 s; each holds half of its SMs from its own arrival on. A kernel beside takes
/// 1 s on all SMs and 2 s on half of them: on rank 0 it meets the waiting collective, on rank 1 it does not.
#[test]
fn early_ranks_keep_their_sms_busy() {
    let mut platform = Platform::default();
    let mut p = program();
    let skew = p.cause("skew");
    let group = p.group(2, None);
    let row = |units, speed, waves| CapRow { units, cap: Rate::per_second(speed), waves };
    let table = p.cap_table([row(1, 1e12, 2), row(4, 2e12, 1)]);
    let units = Some(Units { pool: 1, want: 4, priority: 1, table });
    let kernel =
        Activity { latency: s(0), work: 2 * UNIT, cap: Rate::UNLIMITED, route: None, units, cause: BUSY };
    let costs = p.cost_table(vec![kernel, lasting(5), lasting(3)], vec![]);
    for rank in 0..2 {
        let sms = platform.pool(format!("rank[{rank}].sms"), 4);
        let binding = p.binding([group.0, sms.0], Some(costs));
        let late = (rank == 1).then_some(run(1));
        let reduce = [hold(1, 2, 0), join(0, 2, skew), Op::Drop { pool: 1, units: 2 }];
        stream(&mut p, "communication", binding, late.into_iter().chain(reduce).collect());
        stream(&mut p, "compute", binding, vec![run(0)]);
    }
    let run = simulated(&platform, &p);
    assert_eq!(finished(&run), [s(8), s(2), s(8), s(1)]);
    assert_eq!(spent(&run, skew), [s(5), s(0), s(0), s(0)]);
}

/// A stage produces micro-batches in 1 s each (activity 0) and sends them in 2 s (1) to one that consumes them in 5 s (2).
fn stage_costs(p: &mut Program) -> CostTableId {
    p.cost_table(vec![lasting(1), lasting(2), lasting(5)], vec![1])
}

/// A stream that executes `ops` for four micro-batches.
fn micro_batches(p: &mut Program, name: &str, binding: BindingId, ops: Vec<Op>) {
    let block = p.block(name, ops);
    let role = p.role([Call::counting(block, 0, 4)]);
    p.stream(name, binding, Body::Role(role));
}

/// The next micro-batch: `counter` reaches the argument plus one.
fn next_of(counter: Slot) -> Op {
    Op::Wait { counter, at_least: Affine::offset(1, 0), cause: BUSY }
}

/// Messages take time but nobody's: the sender ends at 4, micro-batch 0 arrives at 3 and four of them take 20 s.
#[test]
fn a_send_as_message_costs_the_sender_nothing() {
    let mut p = program();
    let arrived = p.counter();
    let costs = stage_costs(&mut p);
    let binding = p.binding([arrived.0], Some(costs));
    let message = Op::Add { counter: 0, amount: 1, after: Some(Affine::constant(1)) };
    micro_batches(&mut p, "sender", binding, vec![run(0), message]);
    micro_batches(&mut p, "receiver", binding, vec![next_of(0), run(2)]);
    assert_eq!(ends(&Platform::default(), &p), [4.0, 23.0]);
}

/// With a buffer of two the sender goes on until both are in use: it waits for the third slot from 3 to 8 (the first
/// micro-batch is consumed) and for the fourth from 9 to 13. The receiver never waits.
#[test]
fn an_eager_send_blocks_when_its_buffer_is_full() {
    let (mut platform, mut p) = (Platform::default(), program());
    let buffer = platform.store("buffer", 2);
    let (arrived, copies) = (p.counter(), p.queue("copies"));
    let costs = stage_costs(&mut p);
    let binding = p.binding([arrived.0, buffer.0, copies.0], Some(costs));
    let take = acquire(&mut p, 1, 0, Shortage::Wait);
    let free = release(&mut p, 1, 0);
    let copy = p.block("copy", [run(1), add(0)]);
    let args = [Affine::constant(0); 2];
    let post = Op::Post { queue: 2, block: copy, args, ticket: None, priority: 0 };
    micro_batches(&mut p, "sender", binding, vec![run(0), take, post]);
    micro_batches(&mut p, "receiver", binding, vec![next_of(0), run(2), free]);
    p.stream("copier", binding, Body::Serve(copies));
    assert_eq!(ends(&platform, &p), [13.0, 23.0]);
}

/// Both ends hold an SM and meet: the sender cannot compute while it waits, the receiver not while it receives. Sends
/// begin at 1, 8, 15 and 22.
#[test]
fn a_rendezvous_holds_both_ends() {
    let (mut platform, mut p) = (Platform::default(), program());
    let meeting = p.group(2, None);
    let costs = stage_costs(&mut p);
    let send = [hold(1, 1, 0), join(0, 1, BUSY), Op::Drop { pool: 1, units: 1 }];
    let (produce, consume) = ([run(0)], [run(2)]);
    for (name, ops) in
        [("sender", [&produce, &send[..]].concat()), ("receiver", [&send[..], &consume].concat())]
    {
        let sms = platform.pool(format!("{name}.sms"), 1);
        let binding = p.binding([meeting.0, sms.0], Some(costs));
        micro_batches(&mut p, name, binding, ops);
    }
    assert_eq!(ends(&platform, &p), [24.0, 29.0]);
}
