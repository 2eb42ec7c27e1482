//! Folding: one flow with a multiplicity stands for identical ones, bit for bit, whatever they are like.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim_core::fixed::Rate;
use sim_core::id::{FluidId, PortId};
use sim_core::platform::Demand;

use super::reference::Activity;
use super::{Mix, Pair, activity};

/// Fluids that every rank has for itself, and fluids that all ranks share.
const PRIVATE: u32 = 3;
const SHARED: u32 = 3;

/// The activities of `ranks` equal ranks; folded, only those of the first, for all.
fn rank_activities(ranks: u32, kinds: &[Activity], folded: bool) -> Vec<Activity> {
    let representatives = if folded { 1 } else { ranks };
    let on_rank = |rank: u32, kind: &Activity| {
        let place = |demand: &Demand| {
            let mut demand = *demand;
            // A port belongs to one rank; what it divides does not change by folding.
            demand.port = demand
                .port
                .filter(|_| demand.fluid.0 < PRIVATE)
                .map(|port| PortId(port.0 % 2 + 2 * (rank % 2)));
            if demand.fluid.0 < PRIVATE {
                demand.fluid = FluidId(SHARED + rank * PRIVATE + demand.fluid.0);
            } else {
                demand.fluid = FluidId(demand.fluid.0 - PRIVATE);
                demand.multiplicity *= if folded { ranks } else { 1 };
            }
            demand
        };
        Activity { demands: kind.demands.iter().map(place).collect(), cap: kind.cap }
    };
    (0..representatives).flat_map(|rank| kinds.iter().map(move |kind| on_rank(rank, kind))).collect()
}

fn check(seed: u64, mix: Mix) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let ranks = rng.random_range(2..=if mix.ports { 2 } else { 7 });
    let capacities: Vec<Rate> =
        (0..PRIVATE + SHARED).map(|_| Rate(rng.random_range(1 << 28..1 << 38))).collect();
    let kinds: Vec<Activity> = (0..rng.random_range(1..8))
        .map(|_| {
            let mut demands: Vec<_> = (0..rng.random_range(1..4))
                .map(|_| {
                    let (prior, port) = (rng.random_range(0..3) == 0, Some(rng.random_range(0..2)));
                    let fluid = rng.random_range(0..mix.fluids);
                    (fluid, rng.random_range(1..4), rng.random_range(1..4), 1, prior, port)
                })
                .collect();
            demands.dedup_by_key(|demand| demand.0);
            activity(mix, (rng.random_range(1..3), 1), &demands, Rate(rng.random_range(1 << 26..1 << 39)))
        })
        .collect();
    let run = |folded: bool| {
        let shared = capacities[PRIVATE as usize..].iter();
        let private = capacities[..PRIVATE as usize].iter().cycle().take((ranks * PRIVATE) as usize);
        let mut pair = Pair::new(&shared.chain(private).copied().collect::<Vec<_>>());
        rank_activities(ranks, &kinds, folded).into_iter().for_each(|activity| pair.start(activity));
        pair.rates()
    };
    let (unfolded, folded) = (run(false), run(true));
    for (index, rate) in unfolded.iter().enumerate() {
        assert_eq!(*rate, folded[index % kinds.len()], "seed {seed}, {mix:?}");
    }
}

#[test]
fn folded_equals_unfolded_bit_for_bit() {
    for seed in 0..1500 {
        for (uniform, ports, priors) in [
            (true, false, false),
            (false, false, false),
            (false, true, false),
            (true, false, true),
            (false, true, true),
        ] {
            check(seed, Mix { fluids: PRIVATE + SHARED, uniform, ports, priors });
        }
    }
}

#[test]
fn ids_of_fluids_do_not_matter() {
    for seed in 0..500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mix = Mix { fluids: 5, uniform: false, ports: true, priors: true };
        let capacities: Vec<Rate> = (0..5).map(|_| Rate(rng.random_range(1 << 28..1 << 38))).collect();
        let activities: Vec<Activity> = (0..10)
            .map(|_| {
                let demands: Vec<_> = (0..3)
                    .map(|_| {
                        let port = (rng.random_range(0..4) == 0).then(|| rng.random_range(0..4));
                        (
                            rng.random_range(0..5),
                            rng.random_range(1..4),
                            rng.random_range(1..4),
                            1,
                            rng.random(),
                            port,
                        )
                    })
                    .collect();
                activity(mix, (1, 1), &demands, Rate(rng.random_range(1 << 26..1 << 39)))
            })
            .collect();
        let run = |mirrored: bool| {
            let place = |fluid: u32| if mirrored { 4 - fluid } else { fluid };
            let mut pair =
                Pair::new(&(0..5).map(|fluid| capacities[place(fluid) as usize]).collect::<Vec<_>>());
            for mut activity in activities.clone() {
                activity.demands.iter_mut().for_each(|demand| demand.fluid = FluidId(place(demand.fluid.0)));
                pair.start(activity);
            }
            pair.rates()
        };
        assert_eq!(run(false), run(true), "seed {seed}");
    }
}
