//! Small random networks through random histories.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim_core::fixed::{Rate, Ratio};
use sim_core::id::FluidId;
use sim_core::platform::Demand;

use super::reference::{self, Activity};
use super::{Mix, Pair, TOLERANCE, activity};

#[derive(Clone, Debug)]
enum Step {
    Start(Activity),
    Stop(prop::sample::Index),
    Cap(prop::sample::Index, Rate),
    Capacity(prop::sample::Index, Rate),
    Reshare,
}

/// A few quanta, where rounding decides, or real ones.
fn capacity(quanta: bool) -> BoxedStrategy<Rate> {
    let real = (1u64 << 28..1 << 41).prop_map(Rate);
    if quanta { prop_oneof![(1..400u64).prop_map(Rate), real].boxed() } else { real.boxed() }
}

fn activities(mix: Mix, quanta: bool) -> impl Strategy<Value = Activity> {
    let demand =
        (0..mix.fluids, 1..4u32, 1..4u32, 1..3u32, any::<bool>(), prop::option::weighted(0.3, 0..4u32));
    let cap = prop_oneof![Just(Rate::UNLIMITED), capacity(quanta)];
    (prop::collection::vec(demand, 1..5), cap, (1..3u32, 1..3u32))
        .prop_map(move |(demands, cap, ratio)| activity(mix, ratio, &demands, cap))
}

fn steps(mix: Mix, quanta: bool) -> impl Strategy<Value = Vec<Step>> {
    steps_of(activities(mix, quanta), quanta)
}

fn steps_of(activities: impl Strategy<Value = Activity>, quanta: bool) -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let step = prop_oneof![
        4 => activities.prop_map(Step::Start),
        3 => index().prop_map(Step::Stop),
        1 => (index(), capacity(quanta)).prop_map(|(i, cap)| Step::Cap(i, cap)),
        1 => (index(), capacity(quanta)).prop_map(|(i, capacity)| Step::Capacity(i, capacity)),
        4 => Just(Step::Reshare),
    ];
    prop::collection::vec(step, 1..60)
}

fn play(capacities: &[Rate], steps: Vec<Step>) -> Pair {
    let mut pair = Pair::new(capacities);
    for step in steps {
        let active = pair.active.len();
        match step {
            Step::Start(activity) => pair.start(activity),
            Step::Stop(index) if active > 0 => pair.stop(index.index(active)),
            Step::Cap(index, cap) if active > 0 => pair.set_cap(index.index(active), cap),
            Step::Capacity(index, capacity) => pair.set_capacity(index.index(capacities.len()), capacity),
            Step::Reshare => pair.check(),
            Step::Stop(_) | Step::Cap(..) => {}
        }
    }
    pair.check();
    pair
}

/// The rates are those of the same flows started at once, in another order, on fresh fluids.
fn is_forgetful(pair: &mut Pair) {
    let mut fresh = Pair::new(&pair.capacities);
    pair.active.iter().rev().for_each(|(_, activity)| fresh.start(activity.clone()));
    let mut rates = fresh.rates();
    rates.reverse();
    assert_eq!(rates, pair.rates(), "{}", pair.describe());
}

/// One more flow comes and goes.
fn is_restored(pair: &mut Pair, visitor: Activity) {
    let before = pair.rates();
    pair.start(visitor);
    pair.check();
    pair.stop(pair.active.len() - 1);
    assert_eq!(pair.rates(), before, "{}", pair.describe());
}

const UNIFORM: Mix = Mix { fluids: 6, uniform: true, ports: false, priors: false };
const UNIFORM_PRIOR: Mix = Mix { fluids: 4, priors: true, ..UNIFORM };
const UNEQUAL: Mix = Mix { fluids: 4, uniform: false, ports: true, priors: false };
const ANY: Mix = Mix { priors: true, ..UNEQUAL };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_uniform_network_equals_the_reference_after_any_history(
        capacities in prop::collection::vec(capacity(true), 6),
        steps in steps(UNIFORM, true),
        visitor in activities(UNIFORM, true),
    ) {
        let mut pair = play(&capacities, steps);
        is_forgetful(&mut pair);
        is_restored(&mut pair, visitor);
    }

    /// The fixed point solves what only a wide fluid beside makes irregular, as the sweep would solve it.
    #[test]
    fn a_demand_that_cannot_hold_its_flow_changes_nothing_however_it_is_weighted(
        capacities in prop::collection::vec(capacity(true), 6),
        mut activities in prop::collection::vec(activities(UNIFORM, true), 1..12),
        weighted in prop::collection::vec(any::<bool>(), 12),
    ) {
        // Where a level is less than a quantum of rate, several of them are one rate to the fixed point.
        for demand in activities.iter_mut().flat_map(|activity| &mut activity.demands) {
            let Demand { weight, coefficient, .. } = *demand;
            (demand.weight, demand.coefficient) = (weight.max(coefficient), weight.min(coefficient));
        }
        let plain = reference::rates(&capacities, &activities).expect("they are uniform");
        let wide = vec![Rate::MAX_CAPACITY; activities.len()];
        let mut pair = Pair::new(&[capacities, wide].concat());
        for (at, activity) in activities.into_iter().enumerate() {
            let mut demands = activity.demands.clone();
            let weight = Ratio(3 * demands[0].weight.0);
            demands.extend(weighted[at].then(|| Demand {
                fluid: FluidId::from(6 + at),
                weight,
                ..demands[0]
            }));
            pair.start(Activity { demands, ..activity });
        }
        prop_assert_eq!(pair.rates(), plain, "{}", pair.describe());
    }

    #[test]
    fn prior_demands_equal_the_reference_after_any_history(
        capacities in prop::collection::vec(capacity(true), 4),
        steps in steps(UNIFORM_PRIOR, true),
        visitor in activities(UNIFORM_PRIOR, true),
    ) {
        let mut pair = play(&capacities, steps);
        is_forgetful(&mut pair);
        is_restored(&mut pair, visitor);
    }

    #[test]
    fn a_network_that_is_not_uniform_satisfies_the_condition(
        capacities in prop::collection::vec(capacity(false), 4),
        steps in steps(UNEQUAL, false),
        visitor in activities(UNEQUAL, false),
    ) {
        let mut pair = play(&capacities, steps);
        is_forgetful(&mut pair);
        is_restored(&mut pair, visitor);
    }

    /// Flows that are not uniform come and go among many that are.
    #[test]
    fn a_network_that_is_uniform_in_parts_satisfies_the_condition(
        capacities in prop::collection::vec(capacity(false), 12),
        steps in steps_of(
            prop_oneof![
                4 => activities(Mix { fluids: 12, ..UNIFORM_PRIOR }, false),
                1 => activities(Mix { fluids: 12, ..ANY }, false),
            ],
            false,
        ),
    ) {
        is_forgetful(&mut play(&capacities, steps));
    }

    /// A step has the same few flows come and go, so that most components are not solved but remembered.
    #[test]
    fn what_was_met_before_is_shared_as_if_met_for_the_first_time(
        capacities in prop::collection::vec((1u64 << 30..1 << 38).prop_map(Rate), 4),
        menu in prop::collection::vec(activities(ANY, false), 4),
        steps in prop::collection::vec((0..12usize, any::<prop::sample::Index>()), 1..40),
    ) {
        let mut pair = Pair::new(&capacities);
        for (step, index) in steps {
            match step {
                0..6 => pair.start(menu[step % menu.len()].clone()),
                6 => {
                    let fluid = index.index(capacities.len());
                    let other = Rate(capacities[fluid].0 / 2);
                    pair.set_capacity(fluid, if pair.capacities[fluid] == other { capacities[fluid] } else { other });
                }
                7 if !pair.active.is_empty() => {
                    let at = index.index(pair.active.len());
                    let cap = if pair.active[at].1.cap == capacities[0] { Rate::UNLIMITED } else { capacities[0] };
                    pair.set_cap(at, cap);
                }
                _ if !pair.active.is_empty() => pair.stop(index.index(pair.active.len())),
                _ => {}
            }
            is_forgetful(&mut pair);
        }
    }

    #[test]
    fn nothing_is_overloaded_whatever_comes(
        capacities in prop::collection::vec(capacity(true), 4),
        steps in steps(ANY, true),
        visitor in activities(ANY, true),
    ) {
        let mut pair = play(&capacities, steps);
        is_forgetful(&mut pair);
        is_restored(&mut pair, visitor);
    }
}

/// Every component settles, whatever its demands are like, and its rates satisfy the condition.
#[test]
fn prior_demands_that_feed_back_satisfy_the_condition() {
    let mut networks = 0;
    for seed in 0..20_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mix = Mix { fluids: rng.random_range(2..6), ..ANY };
        let capacities: Vec<Rate> =
            (0..mix.fluids).map(|_| Rate(rng.random_range(1 << 30..1 << 38))).collect();
        let mut pair = Pair::new(&capacities);
        for _ in 0..rng.random_range(2..20) {
            let demands: Vec<_> = (0..rng.random_range(1..4))
                .map(|_| {
                    let (prior, port) = (rng.random_range(0..3) == 0, rng.random_range(0..3) == 0);
                    let port = port.then(|| rng.random_range(0..4));
                    (
                        rng.random_range(0..mix.fluids),
                        rng.random_range(1..5),
                        rng.random_range(1..5),
                        1,
                        prior,
                        port,
                    )
                })
                .collect();
            let cap = Rate(rng.random_range(1 << 28..1 << 39));
            pair.start(activity(mix, (1, 1), &demands, cap));
        }
        let rates = pair.rates();
        networks += usize::from(pair.feeds_back());
        assert_eq!(pair.network.unsettled(), 0, "seed {seed}: {}", pair.describe());
        reference::verify(&capacities, &pair.activities(), &rates, TOLERANCE)
            .unwrap_or_else(|why| panic!("seed {seed}: {why}; {rates:?}; {}", pair.describe()));
    }
    assert!(networks > 10_000);
}
