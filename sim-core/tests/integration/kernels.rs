//! Kernels between reservations, memory and each other, beyond what the small programs show.

use sim_core::fixed::Rate;
use sim_core::id::{BindingId, CauseId};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, CapRow, Op, Program, Slot, Units};
use sim_core::time::Time;

use crate::support::*;

const UNIT: u64 = 1_000_000_000_000;

/// A pool of four SMs (slot 0) and kernels on it that compute one unit per second and SM in waves of a second. Activity
/// 0 is a kernel of 16 units, 1 one of 8, 2 + i lasts i quarters of a second.
struct Gpu {
    platform: Platform,
    p: Program,
    binding: BindingId,
}

impl Gpu {
    fn new() -> Self {
        let (mut platform, mut p) = (Platform::default(), program());
        let sms = platform.pool("sms", 4);
        let mut kernel = |work: u32| {
            let row = |units: u32| CapRow {
                units,
                cap: Rate::per_second(f64::from(units) * 1e12),
                waves: work / units,
            };
            let table = p.cap_table([row(1), row(2), row(4)]);
            let units = Some(Units { pool: 0, want: 4, priority: 1, table });
            let work = u64::from(work) * UNIT;
            Activity { latency: s(0), work, cap: Rate::UNLIMITED, route: None, units, cause: BUSY }
        };
        let kernels = [kernel(16), kernel(8)];
        let quarters = (0..40).map(|i| Activity::lasting(Time::from_ms(250 * i), BUSY));
        let costs = p.cost_table(kernels.into_iter().chain(quarters).collect(), vec![]);
        let binding = p.binding([sms.0], Some(costs));
        Self { platform, p, binding }
    }

    fn stream(&mut self, ops: Vec<Op>) {
        stream(&mut self.p, "stream", self.binding, ops);
    }

    /// Asks for units at `at` quarters of a second and keeps them for `quarters`.
    fn reserve(&mut self, at: i32, units: u32, priority: u8, quarters: i32) {
        self.stream(vec![run(2 + at), hold(0, units, priority), run(2 + quarters), drop_units(0, units)]);
    }

    fn ends(&self) -> Vec<f64> {
        ends(&self.platform, &self.p)
    }
}

fn drop_units(pool: Slot, units: u32) -> Op {
    Op::Drop { pool, units }
}

/// Of 16 units of work 4 are done at 1 s, the end of the wave in which two SMs are asked for (0.5 s). They come back at
/// 3.25 s: on two SMs the wave goes on until 4 s, when 6 units are left for four SMs.
#[test]
fn units_come_back_at_the_next_wave() {
    let mut gpu = Gpu::new();
    gpu.stream(vec![run(0)]);
    gpu.reserve(2, 2, 0, 9);
    assert_eq!(gpu.ends(), [5.5, 3.25]);
}

/// Another request comes in the very instant in which the kernel's wave ends to serve the first. Four of eight units are
/// left at 1 s; the second reservation follows the first one from 2 to 3 s.
#[test]
fn a_request_at_the_end_of_a_wave_costs_no_work() {
    for kernel_first in [false, true] {
        let mut gpu = Gpu::new();
        if kernel_first {
            gpu.stream(vec![run(1)]);
        }
        gpu.reserve(2, 2, 0, 4);
        gpu.reserve(4, 2, 0, 4);
        if !kernel_first {
            gpu.stream(vec![run(1)]);
        }
        let mut ends = gpu.ends();
        let kernel = ends.remove(if kernel_first { 0 } else { 2 });
        assert_eq!((ends, kernel), (vec![2.0, 3.0], 3.0), "kernel first: {kernel_first}");
    }
}

/// A reservation ends in the very instant in which the kernel beside it ends (8 units on two SMs); what the kernel's
/// stream does next takes its 3 s.
#[test]
fn a_reservation_that_ends_with_the_kernel() {
    let mut gpu = Gpu::new();
    gpu.reserve(0, 2, 0, 16);
    gpu.stream(vec![run(1), run(2 + 12)]);
    assert_eq!(gpu.ends(), [4.0, 7.0]);
}

/// Two kernels, launched together, ask for all SMs after the same latency of 1 s: the earlier stream has them from 1 to 2 s,
/// the later one, which knows of no contender until then, from 2 to 3 s, and with its second kernel from 4 to 5 s.
#[test]
fn kernels_that_ask_together_are_served_in_order_of_streams() {
    let mut gpu = Gpu::new();
    let late = Activity { latency: s(1), work: 4 * UNIT, ..gpu.p.costs[0].activities[0] };
    gpu.p.costs[0].activities[0] = late;
    gpu.stream(vec![run(0)]);
    gpu.stream(vec![run(0), run(0)]);
    assert_eq!(gpu.ends(), [2.0, 5.0]);
}

/// A kernel gives way to better priorities only: who asks with its own waits for its end.
#[test]
fn equals_wait_for_the_end_of_a_kernel() {
    for (priority, end) in [(0, 2.0), (1, 5.0), (2, 5.0)] {
        let mut gpu = Gpu::new();
        gpu.stream(vec![run(0)]);
        gpu.reserve(2, 1, priority, 4);
        assert_eq!(gpu.ends()[1], end, "priority {priority}");
    }
}

/// Whoever wants all units of a kernel waits for its end; it would stop otherwise.
#[test]
fn a_request_for_everything_waits_for_the_end_of_a_kernel() {
    let mut gpu = Gpu::new();
    gpu.stream(vec![run(0)]);
    gpu.reserve(2, 4, 0, 4);
    assert_eq!(gpu.ends(), [4.0, 5.0]);
}

/// All four units are taken until 5 s. Whoever waits is served by priority, then by arrival.
#[test]
fn pools_serve_by_priority_then_arrival() {
    let mut gpu = Gpu::new();
    gpu.reserve(0, 4, 3, 20);
    for (at, priority) in [(4, 2), (8, 1), (12, 0), (16, 1)] {
        gpu.reserve(at, 4, priority, 4);
    }
    assert_eq!(gpu.ends(), [5.0, 9.0, 7.0, 6.0, 8.0]);
}

/// Three of four units are taken until 5 s and all four are asked for at 1 s. The one that is free is not given to whoever
/// asks for it at 2 s, unless by priority.
#[test]
fn a_large_request_is_not_overtaken() {
    for (priority, small) in [(0, 3.0), (1, 7.0)] {
        let mut gpu = Gpu::new();
        gpu.reserve(0, 3, 1, 20);
        gpu.reserve(4, 4, 1, 4);
        gpu.reserve(8, 1, priority, 4);
        assert_eq!(gpu.ends(), [5.0, 6.0, small], "priority {priority}");
    }
    // Nor does a kernel start on it: it runs from 6 s, on all units.
    let mut gpu = Gpu::new();
    gpu.reserve(0, 3, 1, 20);
    gpu.reserve(4, 4, 1, 4);
    gpu.stream(vec![run(2 + 8), run(1)]);
    assert_eq!(gpu.ends(), [5.0, 6.0, 8.0]);
}

/// Two kernels on one memory of 4 units/s, limited by their SMs to `caps` units/s: when each ends, and what it lost to the
/// memory. Each moves 4 units.
fn on_one_memory(caps: [f64; 2]) -> [(f64, f64); 2] {
    let (mut platform, mut p) = (Platform::default(), program());
    let memory: CauseId = p.cause("memory");
    let hbm = platform.fluid("hbm", 4e12, memory);
    let local = platform.route([Demand::on(hbm)]);
    let sms = platform.pool("sms", 4);
    let kernel = |p: &mut Program, cap: f64| {
        let table = p.cap_table([CapRow { units: 2, cap: Rate::per_second(cap * 1e12), waves: 1 }]);
        let units = Some(Units { pool: 1, want: 2, priority: 1, table });
        Activity { units, ..Activity::moving(4 * UNIT, 0, BUSY) }
    };
    let kernels = caps.map(|cap| kernel(&mut p, cap));
    let costs = p.cost_table(kernels.to_vec(), vec![]);
    let binding = p.binding([local.0, sms.0], Some(costs));
    for index in 0..2 {
        stream(&mut p, "kernel", binding, vec![run(index)]);
    }
    let run = simulated(&platform, &p);
    [0, 1].map(|index| {
        let stream = &run.streams[index];
        let end = stream.finished.map_or(f64::NAN, Time::as_secs);
        (end, stream.spent[memory.index()].as_secs())
    })
}

#[test]
fn kernels_share_their_memory_up_to_their_caps() {
    // There is enough.
    assert_eq!(on_one_memory([2.0, 2.0]), [(2.0, 0.0), (2.0, 0.0)]);
    assert_eq!(on_one_memory([1.0, 2.0]), [(4.0, 0.0), (2.0, 0.0)]);
    // Both want more than half: each gets half, where alone it would take a second.
    assert_eq!(on_one_memory([4.0, 8.0]), [(2.0, 1.0), (2.0, 1.0)]);
    // A share that the one cannot use goes to the other.
    assert_eq!(on_one_memory([2.0, 4.0]), [(2.0, 0.0), (2.0, 1.0)]);
}
