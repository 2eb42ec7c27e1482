//! Fluid sharing: named cases with their digits, and random networks against the definition.

mod cases;
mod large;
mod random;
mod reference;
mod settling;
mod symmetry;

use sim_core::fixed::{RATIO_BITS, Rate, Ratio};
use sim_core::id::{CauseId, FluidId};
use sim_core::platform::{Demand, Platform};
use sim_core::sharing::{FlowId, Network};

use reference::Activity;

/// Relative tolerance of the condition where levels of different fluids cannot be compared exactly.
const TOLERANCE: f64 = 1e-6;

/// A network beside the list of what is on it.
struct Pair {
    network: Network,
    capacities: Vec<Rate>,
    active: Vec<(FlowId, Activity)>,
}

impl Pair {
    /// Fluids of these capacities, and four ports.
    fn new(capacities: &[Rate]) -> Self {
        let mut platform = Platform { ports: 4, ..Platform::default() };
        for (index, capacity) in capacities.iter().enumerate() {
            let fluid = platform.fluid(format!("fluid[{index}]"), 1.0, CauseId(0));
            platform.fluids[fluid.index()].capacity = *capacity;
        }
        Self { network: Network::new(&platform), capacities: capacities.to_vec(), active: Vec::new() }
    }

    fn start(&mut self, activity: Activity) {
        // Half of them along routes, where nothing may hinder them.
        let flow = if self.active.len().is_multiple_of(2) {
            let route = self.network.route(&activity.demands);
            self.network.start_on(Some(route), activity.cap)
        } else {
            self.network.start(&activity.demands, activity.cap)
        };
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

    /// Re-shares; the rates in the order of `active`. What is not reported must not have changed.
    fn rates(&mut self) -> Vec<Rate> {
        let before = self.current();
        let changed = self.network.reshare().to_vec();
        assert!(changed.is_sorted());
        let rates = self.current();
        for (index, (flow, _)) in self.active.iter().enumerate() {
            let reported = changed.binary_search(flow).is_ok();
            assert!(reported || before[index] == rates[index], "the rate of {flow:?} changed unreported");
        }
        rates
    }

    fn current(&self) -> Vec<Rate> {
        self.active.iter().map(|(flow, _)| self.network.rate(*flow)).collect()
    }

    /// Re-shares and compares with the definition: bit for bit where the solution is unique, else by the
    /// condition; where prior demands feed back on themselves only that nothing is overloaded.
    fn check(&mut self) {
        let rates = self.rates();
        let activities = self.activities();
        if let Some(expected) = reference::rates(&self.capacities, &activities) {
            assert_eq!(rates, expected, "{}", self.describe());
        }
        for fluid in (0..self.capacities.len()).map(FluidId::from) {
            let carried = |(activity, rate): (&Activity, &Rate)| -> u128 {
                let own = activity.demands.iter().filter(|demand| demand.fluid == fluid);
                let units = |d: &Demand| u128::from(d.coefficient.0) * u128::from(d.multiplicity);
                own.map(|demand| units(demand) * u128::from(rate.0)).sum()
            };
            let carried: u128 = activities.iter().zip(&rates).map(carried).sum();
            assert_eq!(u128::from(self.network.load(fluid).0), carried >> RATIO_BITS, "{}", self.describe());
        }
        let tolerance = if self.feeds_back() { 1.0 } else { TOLERANCE };
        reference::verify(&self.capacities, &activities, &rates, tolerance)
            .unwrap_or_else(|why| panic!("{why}; {rates:?}; {}", self.describe()));
    }

    fn activities(&self) -> Vec<Activity> {
        self.active.iter().map(|(_, activity)| activity.clone()).collect()
    }

    /// Whether a flow that takes what prior demands leave crosses other fluids too.
    fn feeds_back(&self) -> bool {
        let all = || self.active.iter().map(|(_, activity)| activity);
        let drained = |fluid| all().flat_map(|a| &a.demands).any(|d| d.prior && d.fluid == fluid);
        all().any(|a| a.demands.len() > 1 && a.demands.iter().any(|d| !d.prior && drained(d.fluid)))
    }

    fn describe(&self) -> String {
        let demand = |d: &Demand| {
            let Demand { fluid, coefficient, weight, port, prior, multiplicity } = d;
            let port = port.map_or(-1, |port| i64::from(port.0));
            let prior = if *prior { " prior" } else { "" };
            format!("{}: a {} v {} m {multiplicity} port {port}{prior}", fluid.0, coefficient.0, weight.0)
        };
        let line = |(flow, a): &(FlowId, Activity)| {
            let demands: Vec<String> = a.demands.iter().map(demand).collect();
            format!("\n  {flow:?} cap {} on {demands:?}", a.cap.0)
        };
        format!("{:?}{}", self.capacities, self.active.iter().map(line).collect::<String>())
    }
}

/// What random activities may be like.
#[derive(Clone, Copy, Debug)]
struct Mix {
    fluids: u32,
    uniform: bool,
    ports: bool,
    priors: bool,
}

/// Fluid, weight, coefficient, multiplicity, whether it is prior, port.
type RawDemand = (u32, u32, u32, u32, bool, Option<u32>);

/// Turns random numbers into an activity: demands as (fluid, weight, coefficient, multiplicity, prior, port).
fn activity(mix: Mix, ratio: (u32, u32), demands: &[RawDemand], cap: Rate) -> Activity {
    let mut demands: Vec<Demand> = demands
        .iter()
        .map(|&(fluid, weight, coefficient, multiplicity, prior, port)| Demand {
            fluid: FluidId(fluid % mix.fluids),
            weight: Ratio(if mix.uniform { (ratio.0 * weight) << 12 } else { weight << 13 }),
            coefficient: Ratio(if mix.uniform { (ratio.1 * weight) << 12 } else { coefficient << 13 }),
            multiplicity,
            prior: mix.priors && prior,
            port: port.filter(|_| mix.ports).map(sim_core::id::PortId),
        })
        .collect();
    demands.sort_by_key(|demand| demand.fluid);
    demands.dedup_by_key(|demand| demand.fluid);
    Activity { demands, cap }
}
