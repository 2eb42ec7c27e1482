//! Fluid sharing against its definition: random platforms, random histories.

use proptest::prelude::*;
use sim_core::fixed::{Rate, Ratio};
use sim_core::id::{CauseId, FluidId};
use sim_core::platform::{Demand, Platform};
use sim_core::sharing::{FlowId, Network, reference, reference::Activity};

/// A network beside the list of what is on it.
struct Pair {
    network: Network,
    capacities: Vec<Rate>,
    active: Vec<(FlowId, Activity)>,
}

impl Pair {
    fn new(capacities: &[Rate]) -> Self {
        let mut platform = Platform::default();
        for (index, capacity) in capacities.iter().enumerate() {
            let fluid = platform.fluid(format!("fluid[{index}]"), 1e9, CauseId(0));
            platform.fluids[fluid.index()].capacity = *capacity;
        }
        platform.ports = 4;
        Self { network: Network::new(&platform), capacities: capacities.to_vec(), active: Vec::new() }
    }

    fn start(&mut self, activity: Activity) {
        let flow = self.network.start(&activity.demands, activity.cap);
        self.active.push((flow, activity));
    }

    fn stop(&mut self, index: usize) {
        let (flow, _) = self.active.swap_remove(index);
        self.network.stop(flow);
    }

    fn set_cap(&mut self, index: usize, cap: Rate) {
        self.active[index].1.cap = cap;
        self.network.set_cap(self.active[index].0, cap);
    }

    fn set_capacity(&mut self, fluid: usize, capacity: Rate) {
        self.capacities[fluid] = capacity;
        self.network.set_capacity(FluidId::from(fluid), capacity);
    }

    /// Re-shares; the rates in the order of `active`. What was not reported has not changed.
    fn rates(&mut self) -> Vec<Rate> {
        let before: Vec<Rate> = self.active.iter().map(|(flow, _)| self.network.rate(*flow)).collect();
        let changed = self.network.reshare().to_vec();
        assert!(changed.is_sorted());
        let rates: Vec<Rate> = self.active.iter().map(|(flow, _)| self.network.rate(*flow)).collect();
        for (index, (flow, _)) in self.active.iter().enumerate() {
            assert!(changed.contains(flow) || before[index] == rates[index], "an unreported change");
        }
        rates
    }

    fn describe(&self) -> String {
        let demand = |d: &Demand| {
            let Demand { fluid, coefficient, weight, port, prior, multiplicity } = d;
            let (port, prior) = (port.map_or(-1, |p| i64::from(p.0)), u8::from(*prior));
            format!(
                "fluid {} a {} v {} m {multiplicity} port {port} prior {prior}",
                fluid.0, coefficient.0, weight.0
            )
        };
        let line = |(flow, a): &(FlowId, Activity)| {
            format!("\n  {flow:?} cap {} on {:?}", a.cap.0, a.demands.iter().map(demand).collect::<Vec<_>>())
        };
        format!("{:?}{}", self.capacities, self.active.iter().map(line).collect::<String>())
    }

    fn check(&mut self) {
        let rates = self.rates();
        let activities: Vec<Activity> = self.active.iter().map(|(_, activity)| activity.clone()).collect();
        if let Some(expected) = reference::rates(&self.capacities, &activities) {
            assert_eq!(rates, expected, "{}", self.describe());
        }
        reference::verify(&self.capacities, &activities, &rates, 1e-6)
            .unwrap_or_else(|why| panic!("{why}; {rates:?}; {}", self.describe()));
    }
}

/// What random activities may be like.
#[derive(Clone, Copy)]
struct Mix {
    fluids: u32,
    uniform: bool,
    ports: bool,
    priors: bool,
}

fn activity(mix: Mix) -> impl Strategy<Value = Activity> {
    let demand =
        (0..mix.fluids, 1..4u32, 1..4u32, 1..3u32, any::<bool>(), prop::option::weighted(0.3, 0..4u32));
    let cap = prop_oneof![Just(Rate::UNLIMITED), (1..200u64).prop_map(Rate), (1..1u64 << 40).prop_map(Rate)];
    (prop::collection::vec(demand, 1..5), cap, 1..3u32, 1..3u32).prop_map(move |(demands, cap, v, a)| {
        let mut demands: Vec<Demand> = demands
            .into_iter()
            .map(|(fluid, weight, coefficient, multiplicity, prior, port)| Demand {
                fluid: FluidId(fluid),
                weight: Ratio(if mix.uniform { v * weight << 12 } else { weight << 13 }),
                coefficient: Ratio(if mix.uniform { a * weight << 12 } else { coefficient << 13 }),
                multiplicity,
                prior: mix.priors && prior,
                port: port.filter(|_| mix.ports).map(sim_core::id::PortId),
            })
            .collect();
        demands.sort_by_key(|demand| demand.fluid);
        demands.dedup_by_key(|demand| demand.fluid);
        Activity { demands, cap }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Start(Activity),
    Stop(prop::sample::Index),
    Cap(prop::sample::Index, Rate),
    Capacity(prop::sample::Index, Rate),
    Reshare,
}

fn steps(mix: Mix) -> impl Strategy<Value = Vec<Step>> {
    let capacity = prop_oneof![(1..400u64).prop_map(Rate), (1..1u64 << 41).prop_map(Rate)];
    let step = prop_oneof![
        4 => activity(mix).prop_map(Step::Start),
        3 => any::<prop::sample::Index>().prop_map(Step::Stop),
        1 => (any::<prop::sample::Index>(), (1..1u64 << 40).prop_map(Rate)).prop_map(|(i, cap)| Step::Cap(i, cap)),
        1 => (any::<prop::sample::Index>(), capacity).prop_map(|(i, capacity)| Step::Capacity(i, capacity)),
        4 => Just(Step::Reshare),
    ];
    prop::collection::vec(step, 1..60)
}

fn play(capacities: &[Rate], steps: Vec<Step>) {
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
}

fn capacities(fluids: usize) -> impl Strategy<Value = Vec<Rate>> {
    let capacity = prop_oneof![(1..400u64).prop_map(Rate), (1..1u64 << 41).prop_map(Rate)];
    prop::collection::vec(capacity, fluids)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_uniform_network_equals_the_reference_after_any_history(
        capacities in capacities(6),
        steps in steps(Mix { fluids: 6, uniform: true, ports: false, priors: false }),
    ) {
        play(&capacities, steps);
    }

    #[test]
    fn prior_demands_equal_the_reference_or_satisfy_the_condition(
        capacities in capacities(4),
        steps in steps(Mix { fluids: 4, uniform: true, ports: false, priors: true }),
    ) {
        play(&capacities, steps);
    }

    #[test]
    fn any_network_satisfies_the_condition(
        capacities in capacities(4),
        steps in steps(Mix { fluids: 4, uniform: false, ports: true, priors: true }),
    ) {
        play(&capacities, steps);
    }
}
