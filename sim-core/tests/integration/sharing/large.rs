//! Hundreds of hosts in one component, where a stale level would show.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim_core::fixed::Rate;
use sim_core::id::FluidId;
use sim_core::platform::Demand;

use super::Pair;
use super::reference::Activity;

const HOSTS: u32 = 512;
const LEAVES: u32 = HOSTS / 8;

/// Up and down of every host at `host` quanta, then of every leaf at twice that.
fn tree(host: u64) -> Pair {
    let hosts = (0..2 * HOSTS).map(|_| Rate(host));
    Pair::new(&hosts.chain((0..2 * LEAVES).map(|_| Rate(2 * host))).collect::<Vec<_>>())
}

fn transfer(from: u32, to: u32, cap: Rate) -> Activity {
    let mut fluids = vec![2 * from, 2 * to + 1];
    if from / 8 != to / 8 {
        fluids.extend([2 * (HOSTS + from / 8), 2 * (HOSTS + to / 8) + 1]);
    }
    Activity { demands: fluids.into_iter().map(|fluid| Demand::on(FluidId(fluid))).collect(), cap }
}

fn random_transfer(rng: &mut ChaCha8Rng, local: bool) -> Activity {
    let from = rng.random_range(0..HOSTS);
    let (first, count) = if local { (from / 8 * 8, 8) } else { (0, HOSTS) };
    let to = first + (from - first + rng.random_range(1..count)) % count;
    let cap = if rng.random_range(0..4) == 0 { Rate(rng.random_range(1..1 << 30)) } else { Rate::UNLIMITED };
    transfer(from, to, cap)
}

/// `slots` flows, some of them replaced in every instant; every instant equals the reference.
fn churn(seed: u64, host: u64, slots: usize, local: u32, replaced: usize, instants: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut pair = tree(host);
    for _ in 0..slots {
        let is_local = rng.random_range(0..100) < local;
        pair.start(random_transfer(&mut rng, is_local));
    }
    pair.check();
    for _ in 0..instants {
        for _ in 0..rng.random_range(1..=replaced) {
            pair.stop(rng.random_range(0..pair.active.len()));
            let is_local = rng.random_range(0..100) < local;
            pair.start(random_transfer(&mut rng, is_local));
        }
        pair.check();
    }
}

#[test]
fn dense_traffic_equals_the_reference() {
    churn(1, 1 << 30, 600, 0, 1, 60);
    churn(2, 1 << 30, 1500, 0, 1, 25);
    churn(3, 1 << 30, 1024, 0, 40, 25);
}

#[test]
fn dense_traffic_of_few_quanta_where_levels_tie_equals_the_reference() {
    churn(4, 12, 600, 0, 1, 60);
    churn(5, 100, 1200, 0, 3, 25);
}

#[test]
fn a_fluid_nearly_empty_before_is_shared_when_a_large_change_overfills_it() {
    const EACH: u64 = 50;
    const HUBS: u64 = 8;
    let on = |fluid: u64| Demand::on(FluidId(fluid as u32));
    let largest = Rate::MAX_CAPACITY;
    let mut capacities = vec![Rate(100 * EACH); 1 + HUBS as usize];
    capacities.push(largest);
    let mut pair = Pair::new(&capacities);
    for _ in 0..EACH {
        // The slowest are many, so that the change counts as large when they have been freed.
        (0..10).for_each(|_| pair.start(Activity { demands: vec![on(0)], cap: Rate::UNLIMITED }));
        for hub in 1..=HUBS {
            pair.start(Activity { demands: vec![on(hub), on(1 + HUBS)], cap: Rate::UNLIMITED });
        }
    }
    assert_eq!(pair.rates()[9..11], [Rate(10), Rate(100)]);
    for (step, capacity) in [(2, largest), (3, Rate(100 * EACH)), (4, Rate(largest.0 / 3))] {
        pair.set_capacity(0, Rate(step * 100 * EACH));
        (1..=HUBS).for_each(|hub| pair.set_capacity(hub as usize, capacity));
        let fair = capacity.0.min(largest.0 / HUBS) / EACH;
        assert_eq!(pair.rates()[9..11], [Rate(step * 10), Rate(fair)]);
        pair.check();
    }
}

#[test]
fn what_prior_demands_leave_is_shared_anew_everywhere_after_large_changes() {
    const CROWD: u64 = 100;
    let on = |fluid: u32| vec![Demand::on(FluidId(fluid))];
    let prior = |fluid: u32| vec![Demand::on(FluidId(fluid)).prior()];
    let mut pair = Pair::new(&[Rate(CROWD), Rate(1_000), Rate(9_000)]);
    pair.start(Activity { demands: prior(1), cap: Rate(100) });
    pair.start(Activity { demands: prior(2), cap: Rate(100) });
    pair.start(Activity { demands: on(1), cap: Rate::UNLIMITED });
    pair.start(Activity { demands: on(2), cap: Rate::UNLIMITED });
    (0..CROWD).for_each(|_| pair.start(Activity { demands: on(0), cap: Rate::UNLIMITED }));
    pair.check();
    for step in 2..5 {
        pair.set_capacity(0, Rate(step * CROWD));
        pair.set_cap(0, Rate(100 * step));
        pair.set_cap(1, Rate(100 * step));
        assert_eq!(pair.rates()[2..5], [Rate(1_000 - 100 * step), Rate(9_000 - 100 * step), Rate(step)]);
        pair.check();
    }
}

#[test]
fn mostly_local_traffic_equals_the_reference() {
    churn(6, 1 << 30, 800, 90, 2, 60);
    churn(7, 1 << 30, 800, 100, 2, 30);
}

#[test]
fn a_ring_in_step_moves_as_one_and_leaves_nothing_behind() {
    let mut pair = tree(1 << 30);
    for _ in 0..3 {
        (0..HOSTS).for_each(|host| pair.start(transfer(host, (host + 1) % HOSTS, Rate::UNLIMITED)));
        assert_eq!(pair.rates(), vec![Rate(1 << 30); HOSTS as usize]);
        (0..HOSTS).for_each(|_| pair.stop(0));
    }
    assert!(pair.rates().is_empty());
    assert_eq!(pair.network.load(FluidId(0)), Rate(0));
}
