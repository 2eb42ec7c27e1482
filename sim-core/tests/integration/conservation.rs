//! Nothing is lost: fluids carry what activities move, stores and pools end as they began.

use sim_core::fixed::{RATE_BITS, Rate};
use sim_core::id::{FluidId, StoreId};
use sim_core::outcome::{End, Run};
use sim_core::platform::{Bucket, Demand, Platform};
use sim_core::program::{Activity, Body, Call, Op, Program, Shortage, StartState};
use sim_core::record::{Recorder, Selection};
use sim_core::time::Time;
use sim_core::{Options, simulate, simulate_observed};

use crate::random_programs::random_program;
use crate::support::*;

/// What the recorded load curve of each fluid amounts to [units], and the run.
fn integrals(platform: &Platform, program: &Program) -> (Vec<f64>, Run) {
    let fluids: Vec<FluidId> = (0..platform.fluids.len()).map(FluidId::from).collect();
    let nothing = Selection::spans_of([]);
    let mut recorder = Recorder::new(Selection { fluids: fluids.clone(), ..nothing });
    let run =
        simulate_observed(platform, program, &StartState::default(), &Options::default(), &mut recorder)
            .expect("a valid program");
    let integral = |fluid: FluidId| {
        let mut sum = 0_u128;
        let (mut since, mut load) = (Time::ZERO, Rate(0));
        for &(time, of, next) in &recorder.fluids {
            if of == fluid {
                sum += u128::from(load.0) * u128::from((time - since).0);
                (since, load) = (time, next);
            }
        }
        sum as f64 / (1_u64 << RATE_BITS) as f64
    };
    (fluids.into_iter().map(integral).collect(), run)
}

/// Compares the load curves with what was served: an activity ends up to a picosecond after its work, and rates are rounded
/// down to quanta.
fn assert_carried(platform: &Platform, program: &Program, what: &str) {
    let (integrals, run) = integrals(platform, program);
    assert_eq!(run.end, End::Completed, "{what}");
    for (index, (fluid, integral)) in platform.fluids.iter().zip(integrals).enumerate() {
        let served = run.fluids[index].served as f64;
        let per_picosecond = fluid.capacity.units_per_second() / 1e12;
        let rounding = 1.0 + run.activities as f64 * per_picosecond + served * 1e-6;
        assert!(
            (served - integral).abs() <= rounding,
            "{what}, fluid {index}: {served} units served, {integral} under the curve"
        );
    }
    assert_eq!(simulated(platform, program).fluids, run.fluids, "{what}: recording changes nothing");
}

/// Random programs that run to their end.
fn completing() -> impl Iterator<Item = (u64, Platform, Program)> {
    let programs = (0..600).map(|seed| (seed, random_program(seed)));
    let completing = programs.filter(|(_, (platform, program))| {
        let run = simulate(platform, program, &StartState::default(), &Options::default());
        run.expect("a valid program").end == End::Completed
    });
    let completing: Vec<_> = completing.collect();
    assert!(completing.len() > 200, "{} programs complete", completing.len());
    completing.into_iter().map(|(seed, (platform, program))| (seed, platform, program))
}

#[test]
fn fluids_carry_what_activities_moved() {
    for (seed, platform, program) in completing() {
        assert_carried(&platform, &program, &format!("seed {seed}"));
    }
}

/// Coefficients, weights, ports, prior demands, a bucket and a folded demand: 3, 4 and 5 units of work at once and after
/// each other. The disk carries each once, the memory all of them three times and 4 units from 2 x 8 folded ranks.
#[test]
fn fluids_carry_demands_with_coefficients() {
    const UNIT: u64 = 1_000_000_000_000;
    let (mut platform, mut p) = (Platform::default(), program());
    let disk = platform.fluid("disk", 0.5e12, BUSY);
    platform.fluids[disk.index()].bucket = Some(Bucket::full(Rate::per_second(1e12), UNIT));
    let memory = platform.fluid("memory", 5e12, BUSY);
    let (left, right) = (platform.port(), platform.port());
    let routes = [
        platform.route([Demand::on(disk).port(left), Demand::on(memory).coefficient(3.0)]),
        platform.route([Demand::on(disk).port(right), Demand::on(memory).coefficient(3.0).prior()]),
        platform.route([Demand::on(disk).weight(2.0), Demand::on(memory).coefficient(3.0).weight(0.5)]),
        platform.route([Demand { multiplicity: 8, ..Demand::on(memory).coefficient(2.0) }]),
    ];
    let moving = |(units, slot)| Activity::moving(units * UNIT, slot, BUSY);
    let costs = p.cost_table([(3, 0), (4, 1), (5, 2), (4, 3)].map(moving).to_vec(), vec![]);
    let binding = p.binding(routes.map(|route| route.0), Some(costs));
    for order in [[0, 1, 2, 3], [1, 2, 3, 0], [2, 0, 1, 3]] {
        stream(&mut p, "mover", binding, order.map(run).to_vec());
    }
    assert_carried(&platform, &p, "by hand");
    let run = simulated(&platform, &p);
    let carried = [disk, memory].map(|fluid| run.fluids[fluid.index()].served / u128::from(UNIT));
    assert_eq!(carried, [3 * 12, 3 * (3 * 12 + 4 * 16)]);
}

/// Random programs give back what they take: with bytes held from the start, stores end as they began.
#[test]
fn stores_end_as_they_began() {
    for (seed, platform, mut program) in completing() {
        let kind = program.kind("weights");
        let stores = (0..platform.stores.len()).map(StoreId::from);
        let start = StartState {
            stores: stores.map(|id| (id, kind, 7 + u64::from(id.0))).collect(),
            ..StartState::default()
        };
        let run = simulate(&platform, &program, &start, &Options::default()).expect("a valid program");
        assert!(!matches!(run.end, End::Deadlock(_)), "seed {seed}");
        if run.end != End::Completed {
            continue; // the weights leave too little room
        }
        for (index, store) in run.stores.iter().enumerate() {
            let mut expected = vec![0; program.kinds.len()];
            expected[kind.index()] = 7 + index as u64;
            assert_eq!(store.held, expected, "seed {seed}, store {index}");
            assert!(
                store.peak.bytes >= 7 + index as u64 && store.peak.bytes <= platform.stores[index].capacity
            );
            assert_eq!(
                store.peak.by_kind.iter().sum::<u64>(),
                store.peak.bytes,
                "seed {seed}, store {index}"
            );
        }
    }
}

/// After all other streams have ended, one more can hold every unit of every pool at once.
#[test]
fn pools_are_free_at_the_end() {
    for (seed, platform, mut program) in completing() {
        let (finished, mut expected) = (program.counter(), 0);
        let done = program.block("done", [add(7)]);
        for stream in &program.streams {
            let Body::Role(role) = stream.body else { continue };
            program.roles[role.index()].calls.push(Call::once(done));
            expected += 1;
        }
        for binding in &mut program.bindings {
            assert_eq!(binding.slots.len(), 7);
            binding.slots.push(finished.0);
        }
        let pools = (0..platform.pools.len() as u32).chain([finished.0]);
        let everything = program.binding(pools, None);
        let all = |index: usize| hold(index as u16, platform.pools[index].units, u8::MAX);
        let wait = wait(platform.pools.len() as u16, expected);
        let ops = [wait].into_iter().chain((0..platform.pools.len()).map(all)).collect();
        stream(&mut program, "auditor", everything, ops);
        assert_eq!(simulated(&platform, &program).end, End::Completed, "seed {seed}");
    }
}

/// At 4 s a stream is halted that has an engine, has acquired 3 bytes, of which another released 2 at 3 s, and is copying.
/// What it still holds goes back, once: at 9 s somebody gets the engine and the whole store. The link has carried 4 s of
/// the copy.
#[test]
fn a_halted_stream_gives_back_what_it_holds() {
    let (mut platform, mut p) = (Platform::default(), program());
    let (link, store) = (platform.fluid("link", 1e12, BUSY), platform.store("store", 4));
    let (engines, route) = (platform.pool("engines", 1), platform.route([Demand::on(link)]));
    let copy = Activity::moving(10_000_000_000_000, 2, BUSY);
    let costs = p.cost_table(vec![copy, lasting(3), lasting(4), lasting(9)], vec![2, 1, 4]);
    // Slots: 0 store, 1 engines, 2 route, 3 the producer (stream 0).
    let binding = p.binding([store.0, engines.0, route.0, 0], Some(costs));
    let [two, one, all] = [0, 1, 2].map(|size| acquire(&mut p, 0, size, Shortage::Fail));
    let [free_two, free_all] = [0, 2].map(|size| release(&mut p, 0, size));
    stream(&mut p, "producer", binding, vec![hold(1, 1, 0), two, one, run(0)]);
    stream(&mut p, "consumer", binding, vec![run(1), free_two]);
    stream(&mut p, "supervisor", binding, vec![run(2), Op::Halt { stream: 3, call: 1 }]);
    let drop_engine = Op::Drop { pool: 1, units: 1 };
    stream(&mut p, "next", binding, vec![run(3), hold(1, 1, 0), all, free_all, drop_engine]);
    assert_eq!(ends(&platform, &p), [4.0, 3.0, 4.0, 9.0]);
    let run = simulated(&platform, &p);
    assert_eq!(run.fluids[0].served, 4_000_000_000_000);
    assert_eq!(run.stores[0].held, [0]);
    assert_carried(&platform, &p, "halted");
}
