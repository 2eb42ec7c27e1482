//! Random programs that use everything segments and sharing can get in the way of: a few ranks, each with a host that
//! launches, a device with kernels on SMs and HBM, a copy stream on shared links, collectives, and memory.

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use sim_core::fixed::Rate;
use sim_core::id::{BlockId, CapTableId, CostTableId};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, CapRow, Op, Program, Shortage, Units};
use sim_core::time::Time;

use crate::support::*;

// Slots of a rank.
const HBM: u16 = 0;
const LINK: u16 = 1;
const SMS: u16 = 2;
const GPU: u16 = 3;
const LAUNCHED: u16 = 4;
const COPIED: u16 = 5;
const ALL: u16 = 6;

/// A program drawn from a seed.
pub(crate) fn random_program(seed: u64) -> (Platform, Program) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut platform = Platform::default();
    let mut p = program();
    let ranks = rng.random_range(1..=3);
    let link = platform.fluid("link", 2e9, BUSY);
    let ring = platform.route([Demand::on(link)]);
    let all = p.group(ranks, Some(ring));
    for _ in 0..ranks {
        let hbm = platform.fluid("hbm", 1e12, BUSY);
        let local = platform.route([Demand::on(hbm)]);
        let remote = platform.route([Demand::on(link), Demand::on(hbm).prior()]);
        let sms = platform.pool("sms", 8);
        let tight = rng.random_bool(0.2);
        let gpu = platform.store("gpu", if tight { 260 } else { 10_000 });
        let (launched, copied) = (p.counter(), p.counter());
        let costs = random_costs(&mut rng, &mut p);
        let slots = [local.0, remote.0, sms.0, gpu.0, launched.0, copied.0, all.0];
        let binding = p.binding(slots, Some(costs));
        let steps = rng.random_range(1..=4);
        let blocks =
            [host_block(&mut rng, &mut p), device_block(&mut rng, &mut p), copy_block(&mut rng, &mut p)];
        for (name, block) in ["host", "device", "copy"].into_iter().zip(blocks) {
            let role = p.role([Call::counting(block, 0, steps)]);
            p.stream(name, binding, Body::Role(role));
        }
    }
    (platform, p)
}

/// Activities: 0-4 kernels on SMs and HBM, 5-9 kernels on HBM, 10-14 pure latencies, 15-19 copies, 20 the collective.
fn random_costs(rng: &mut ChaCha8Rng, p: &mut Program) -> CostTableId {
    let second = p.cause("other");
    let tables: Vec<CapTableId> = (0..3).map(|_| random_table(rng, p)).collect();
    let mut activities = Vec::new();
    for kind in 0..20 {
        let latency = Time::from_ns(rng.random_range(0..4) * 100);
        let work = rng.random_range(1..2_000) * 100;
        let cap = Rate::per_second([1e11, 2e11, 5e11, 9e11][rng.random_range(0..4)]);
        let cause = if rng.random_bool(0.5) { BUSY } else { second };
        let table = tables[rng.random_range(0..tables.len())];
        let units = Units { pool: SMS, want: rng.random_range(1..=8), priority: 1, table };
        activities.push(match kind {
            0..5 => Activity { latency, work, cap, route: Some(HBM), units: Some(units), cause },
            5..10 => Activity { latency, work, cap, route: Some(HBM), units: None, cause },
            10..15 => Activity::lasting(latency, cause),
            _ => Activity {
                latency,
                work: work / 100,
                cap: Rate::UNLIMITED,
                route: Some(LINK),
                units: None,
                cause,
            },
        });
    }
    activities.push(Activity { latency: Time::from_ns(500), ..Activity::moving(3_000, 0, second) });
    p.cost_table(activities, (1..=6).map(|i| i * 20).collect())
}

fn random_table(rng: &mut ChaCha8Rng, p: &mut Program) -> CapTableId {
    let waves: u32 = rng.random_range(1..=3);
    let row = |units: u32| CapRow {
        units,
        cap: Rate::per_second(1e11 * f64::from(units)),
        waves: (8 * waves).div_ceil(units),
    };
    p.cap_table([row(1), row(4), row(8)])
}

fn host_block(rng: &mut ChaCha8Rng, p: &mut Program) -> BlockId {
    let mut ops = Vec::new();
    for _ in 0..rng.random_range(1..=3) {
        ops.push(run(rng.random_range(10..15)));
    }
    let after = rng.random_bool(0.3).then_some(Affine::constant(rng.random_range(10..15)));
    ops.push(Op::Add { counter: LAUNCHED, amount: 1, after });
    p.block("launch", ops)
}

fn device_block(rng: &mut ChaCha8Rng, p: &mut Program) -> BlockId {
    let launched = Op::Wait { counter: LAUNCHED, at_least: Affine::offset(1, 0), cause: BUSY };
    let mut ops = vec![launched];
    let mut held = Vec::new();
    for _ in 0..rng.random_range(4..=14) {
        match rng.random_range(0..10) {
            0..2 => {
                let size = rng.random_range(0..6);
                held.push(size);
                ops.push(acquire(p, GPU, size, Shortage::Fail));
            }
            2..4 if !held.is_empty() => {
                let size = held.swap_remove(rng.random_range(0..held.len()));
                ops.push(release(p, GPU, size));
            }
            _ => ops.push(run(rng.random_range(0..15))),
        }
    }
    for size in held {
        ops.push(release(p, GPU, size));
    }
    if rng.random_bool(0.5) {
        ops.push(Op::Join { group: ALL, activity: Affine::constant(20), cause: BUSY });
    } else {
        ops.push(run(0));
        ops.push(Op::Join { group: ALL, activity: Affine::constant(10), cause: BUSY });
    }
    ops.push(add(COPIED));
    p.block("kernels", ops)
}

fn copy_block(rng: &mut ChaCha8Rng, p: &mut Program) -> BlockId {
    let mut ops = vec![run(rng.random_range(10..20))];
    if rng.random_bool(0.5) {
        let size = rng.random_range(0..4);
        ops.push(acquire(p, GPU, size, if rng.random_bool(0.5) { Shortage::Wait } else { Shortage::Fail }));
        ops.push(run(rng.random_range(15..20)));
        ops.push(release(p, GPU, size));
    }
    if rng.random_bool(0.5) {
        let units = rng.random_range(1..=4);
        let priority = rng.random_range(0..=2);
        ops.push(hold(SMS, units, priority));
        ops.push(run(rng.random_range(10..20)));
        ops.push(Op::Drop { pool: SMS, units });
    }
    if rng.random_bool(0.3) {
        ops.push(Op::Wait { counter: COPIED, at_least: Affine::offset(1, 0), cause: BUSY });
    }
    ops.push(run(rng.random_range(5..20)));
    p.block("copies", ops)
}
