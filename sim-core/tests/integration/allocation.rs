//! When memory is taken, who gets it first, and who has to go.

use sim_core::id::{BindingId, CellId, StoreId};
use sim_core::outcome::End;
use sim_core::platform::Platform;
use sim_core::program::{Affine, Body, Call, Candidate, CellRef, Op, Program, ReclaimTable, Rule, Shortage};
use sim_core::record::{Recorder, Selection};
use sim_core::{Options, simulate_observed};

use crate::support::*;

/// Who allocates the output of a layer, and how far the host may run ahead.
#[derive(Clone, Copy, PartialEq)]
enum Allocation {
    /// The host, when it launches the layer.
    AtIssue,
    /// The host, at most so many layers ahead of the device.
    Limited(i32),
    /// The device, when it starts the layer.
    AtDeviceStart,
}

/// Peak of the bytes of 48 layers of 1 GB each. The host launches one a second, the device computes one in 10 s, a copy of
/// 9 s then offloads it beside the next one.
fn peak_gb(allocation: Allocation) -> u64 {
    const GB: u64 = 1_000_000_000;
    let (mut platform, mut p) = (Platform::default(), program());
    let gpu = platform.store("gpu", 48 * GB);
    let (launched, computed) = (p.counter(), p.counter());
    let costs = p.cost_table(vec![lasting(1), lasting(10), lasting(9)], vec![GB]);
    let binding = p.binding([gpu.0, launched.0, computed.0], Some(costs));
    let take = acquire(&mut p, 0, 0, Shortage::Fail);
    let free = release(&mut p, 0, 0);
    let count = |counter, base| Op::Wait { counter, at_least: Affine::offset(base, 0), cause: BUSY };
    let (host, device) = match allocation {
        Allocation::AtIssue => (vec![take], vec![]),
        Allocation::Limited(ahead) => (vec![count(2, 1 - ahead), take], vec![]),
        Allocation::AtDeviceStart => (vec![], vec![take]),
    };
    let host = host.into_iter().chain([run(0), add(1)]).collect();
    let device = [count(1, 1)].into_iter().chain(device).chain([run(1), add(2)]).collect();
    let copy = vec![count(2, 1), run(2), free];
    for (name, ops) in [("host", host), ("device", device), ("copy", copy)] {
        let block = p.block(name, ops);
        let role = p.role([Call::counting(block, 0, 48)]);
        p.stream(name, binding, Body::Role(role));
    }
    let run = simulated(&platform, &p);
    assert_eq!(run.end, End::Completed);
    run.stores[gpu.index()].peak.bytes / GB
}

/// Layer i is computed from 1 + 10 i to 11 + 10 i and gone at 20 + 10 i.
/// At issue: the last is allocated at 47 s, when three (20, 30, 40) are gone. At device start: layer i - 1 is on its way
/// out, layer i - 2 went a second before. Four ahead: layer i is allocated when i - 4 has been computed; that and the three
/// between are there too.
#[test]
fn run_ahead_of_the_host_decides_the_peak() {
    assert_eq!(peak_gb(Allocation::AtIssue), 45);
    assert_eq!(peak_gb(Allocation::AtDeviceStart), 2);
    assert_eq!(peak_gb(Allocation::Limited(4)), 5);
}

/// A stream that asks for `size` of the store at `at` seconds, keeps it for a second and gives it back.
fn customer(p: &mut Program, binding: BindingId, at: i32, size: i32, priority: u8) {
    let kind = p.kind("bytes");
    let bytes = Affine::constant(size);
    let ask = Op::Acquire { store: 0, bytes, kind, shortage: Shortage::Wait, priority, cause: BUSY };
    let free = release(p, 0, size);
    stream(p, "customer", binding, vec![run(at), ask, run(1), free]);
}

/// A store of 4 is full until 10 s. First comes priority 0 (4 bytes, asked last), from 10 to 11; then, by arrival, who asks
/// for 3 and who asks for 4. Who asks for 1 last would fit beside the 3 but does not overtake the 4.
#[test]
fn waiters_are_served_by_priority_then_arrival_without_overtaking() {
    let (mut platform, mut p) = (Platform::default(), program());
    let store = platform.store("store", 4);
    let costs = p.cost_table((0..=10).map(lasting).collect(), (0..=4).collect());
    let binding = p.binding([store.0], Some(costs));
    let take = acquire(&mut p, 0, 4, Shortage::Fail);
    let free = release(&mut p, 0, 4);
    stream(&mut p, "first", binding, vec![take, run(10), free]);
    let asked = [(1, 3, 1), (2, 4, 1), (3, 1, 1), (4, 4, 0)];
    for (at, size, priority) in asked {
        customer(&mut p, binding, at, size, priority);
    }
    assert_eq!(ends(&platform, &p), [10.0, 12.0, 13.0, 14.0, 11.0]);
}

/// Who asks with a better priority passes those that wait if there is room; with the same priority it queues behind.
#[test]
fn room_is_kept_for_the_first_in_line() {
    for (priority, end) in [(0, 3.0), (1, 7.0), (2, 7.0)] {
        let (mut platform, mut p) = (Platform::default(), program());
        let store = platform.store("store", 4);
        let costs = p.cost_table((0..=5).map(lasting).collect(), (0..=4).collect());
        let binding = p.binding([store.0], Some(costs));
        let take = acquire(&mut p, 0, 3, Shortage::Fail);
        let free = release(&mut p, 0, 3);
        stream(&mut p, "first", binding, vec![take, run(5), free]);
        customer(&mut p, binding, 1, 4, 1);
        customer(&mut p, binding, 2, 1, priority);
        assert_eq!(ends(&platform, &p), [5.0, 6.0, end], "priority {priority}");
    }
}

const RESIDENT: u8 = 1;
const EVICTING: u8 = 2;
const AWAY: u8 = 3;

/// Items of 2, 3, 1 and 3 bytes are produced at 1, 2, 3 and 4 s and fill a store of 9. Item 1 is used at 5 s, item 0 at 6 s. At
/// 7 s, when the clock stands at 2, one byte more is wanted. Which item goes first, and how long its copy (a second a byte) takes.
fn evicted_first(rule: Rule) -> (i32, f64) {
    const BYTES: [u64; 4] = [2, 3, 1, 3];
    let (mut platform, mut p) = (Platform::default(), program());
    let store = platform.store("gpu", 9);
    let (items, clock, queue) = (p.cells(4), p.counter(), p.queue("evictions"));
    // Activities: 0 producing or using, 1 + i copying item i out. Sizes: item i, one byte.
    let copies = BYTES.map(lasting);
    let costs = p.cost_table([lasting(1)].into_iter().chain(copies).collect(), [&BYTES[..], &[1]].concat());
    let binding = p.binding([store.0, items.0, clock.0], Some(costs));
    let kind = p.kind("items");
    let item = CellRef { slot: 1, index: Affine::offset(0, 0) };
    let bytes = Affine::offset(0, 0);
    let take = Op::Acquire { store: 0, bytes, kind, shortage: Shortage::Fail, priority: 0, cause: BUSY };
    let set = |state| Op::Set { cell: item, state };
    let produce = p.block("produce", [run(0), take, set(RESIDENT)]);
    let use_it = p.block("use", [run(0), set(RESIDENT), add(2)]);
    let evict = p.block(
        "evict",
        [Op::Run { activity: Affine::offset(1, 0) }, Op::Release { store: 0, bytes, kind }, set(AWAY)],
    );
    let more = acquire(&mut p, 0, 4, Shortage::Reclaim);
    let more = p.block("more", [run(0), more]);
    let backwards = Call { block: use_it, args: [1, 0], step: [-1, 0], repeat: 2 };
    let role = p.role([Call::counting(produce, 0, 4), backwards, Call::once(more)]);
    p.stream("gpu", binding, Body::Role(role));
    let evictor = p.stream("evictor", binding, Body::Serve(queue));
    // On the clock (2 at that time) the items are used again at 3, 4, 5 and 6; item 0 was also used at 2.
    let uses = [vec![2, 3], vec![1, 4], vec![5], vec![6]];
    let candidates = (0..4).map(|i| Candidate {
        cell: CellId(items.0 + i),
        resident: RESIDENT,
        evicting: EVICTING,
        bytes: BYTES[i as usize],
        block: evict,
        args: [i as i32, 0],
        binding,
        uses: uses[i as usize].clone(),
    });
    let candidates = candidates.collect();
    p.reclaim.push(ReclaimTable { store, rule, queue, clock: Some(clock), candidates });
    let mut recorder = Recorder::new(Selection::spans_of([evictor]));
    simulate_observed(&platform, &p, &Default::default(), &Options::default(), &mut recorder)
        .expect("a valid program");
    assert_eq!(recorder.spans.len(), 1, "one item makes room enough");
    (recorder.spans[0].place.args[0], ends(&platform, &p)[0])
}

#[test]
fn reclaim_evicts_by_rule() {
    // Set at 6, 5, 3 and 4 s.
    assert_eq!(evicted_first(Rule::LeastRecentlyUsed), (2, 8.0));
    // Resident since 1, 2, 3 and 4 s: use does not count.
    assert_eq!(evicted_first(Rule::FirstProduced), (0, 9.0));
    // Items 1 and 3 have 3 bytes: the earlier entry.
    assert_eq!(evicted_first(Rule::Largest), (1, 10.0));
    assert_eq!(evicted_first(Rule::FarthestNextUse), (3, 10.0));
}

/// Whether it waits or finds nothing to evict.
#[test]
fn an_acquire_that_nobody_can_serve_is_a_deadlock() {
    for shortage in [Shortage::Wait, Shortage::Reclaim] {
        let (mut platform, mut p) = (Platform::default(), program());
        let store: StoreId = platform.store("gpu", 3);
        let costs = p.cost_table(vec![lasting(1)], vec![2]);
        let binding = p.binding([store.0], Some(costs));
        let ask = acquire(&mut p, 0, 0, shortage);
        let free = release(&mut p, 0, 0);
        stream(&mut p, "greedy", binding, vec![ask, run(0), ask, free, free]);
        let run = simulated(&platform, &p);
        let End::Deadlock(waiting) = run.end else { panic!("a deadlock, not {:?}", run.end) };
        assert_eq!(waiting.len(), 1);
        assert_eq!((waiting[0].place.op, waiting[0].since), (2, s(1)));
        assert_eq!(waiting[0].for_what, "2 bytes of store `gpu` (2 of 3 are held, 0 others wait)");
        assert_eq!(waiting[0].on, [], "nobody else releases any");
    }
}
