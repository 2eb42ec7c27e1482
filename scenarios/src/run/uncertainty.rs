//! The errors that the time of a step rests on, by what models and steps were off on what nothing was fitted to.
//!
//! ```text
//! ln T is off by h HOSTS + (1 - h) (sum over models w b + sum over shapes v s
//!                                   + f FABRIC + r RECURRENT + GENERATION + PLAN)
//! ```
//!
//! h is the host's share of the critical path: there the step is as slow as the host. The rest is off as the work and
//! communication of the slowest rank are (what waits for others waits for the same work there). w is a model's share of it
//! and b its bias, what all its kernels are off by together, as they share a library, a clock and constants that may be
//! another GPU's. v is the share of one shape and s how shapes scatter around the bias, each on its own. f is the share of what
//! crosses from a node to another, r that of recurrent layers. Errors in capitals are of whole
//! steps ([`StepSpreads`]); [`Uncertainty`] adds them all up.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use calibration::overlay::COLLECTIVES;
use hw_models::catalogue::Gpu;
use hw_models::kernels::Spread;
use indexmap::IndexMap;
use reports::summary::{CommonError, NINE_OF_TEN, Shape, Uncertainty};
use sim_core::time::Time;
use workloads::account::{Account, TimeModel};

use super::step_spreads::StepSpreads;
use crate::catalogue;
use crate::constants::Constants;
use crate::schema::Launch;

/// Nine of ten copies and messages: they follow a rate and a latency, and fits of sweeps over sizes leave 3 to 7 % on the mean.
const TRANSFER: f64 = 0.1;

/// What tells how far the models of a run are off.
#[derive(Clone, Copy)]
pub(super) struct Evidence<'a> {
    pub(super) constants: &'a Constants,
    /// The GPU of its ranks, by its name and its entry.
    pub(super) gpu: (&'a str, &'a Gpu),
    pub(super) launch: Launch,
}

/// The errors of a step. `host` is the host's share of the critical path, `spent` tells what the time of a rank with this GPU is
/// from. None where nothing was timed.
pub(super) fn uncertainty(
    evidence: Evidence<'_>,
    host: f64,
    spent: impl Iterator<Item = (Account, Time)>,
) -> Option<Uncertainty> {
    let spent: Vec<_> = spent.collect();
    let all: u64 = spent.iter().map(|(_, time)| time.0).sum();
    if all == 0 {
        return None;
    }
    let mut errors = IndexMap::new();
    let mut shapes: BTreeMap<u64, Shape> = BTreeMap::new();
    let mut add = |name: String, weight: f64, deviation: f64| {
        errors.entry(name).or_insert(CommonError { weight: 0.0, deviation }).weight += weight;
    };
    let steps = catalogue::step_spreads();
    add(StepSpreads::HOSTS.to_owned(), host, evidence.hosts(steps));
    let generation = StepSpreads::of_generation(&evidence.gpu.1.architecture);
    let deviation = steps.of(&generation);
    add(generation, 1.0 - host, deviation);
    for (account, time) in spent {
        let share = (1.0 - host) * time.0 as f64 / all as f64;
        let Spread { bias, scatter } = evidence.spread(account.model);
        add(evidence.name(account.model), share, bias);
        if let Some(circumstance) = account.circumstance {
            let name = StepSpreads::of_circumstance(circumstance);
            add(name.to_owned(), share, steps.of(name));
        }
        let shape = shapes.entry(evidence.number(account)).or_insert(Shape { share: 0.0, scatter });
        shape.share += share;
    }
    Some(Uncertainty { errors, plan: steps.of(StepSpreads::PLANS), shapes })
}

impl Evidence<'_> {
    /// How far a model is off; where a calibration of the machine is laid over the catalogue, as far as that was.
    fn spread(self, model: TimeModel) -> Spread {
        let together = |within: f64| Spread { bias: within / NINE_OF_TEN, scatter: 0.0 };
        match model {
            TimeModel::Kernel(class) => self.constants.spread(self.gpu, class),
            TimeModel::CollectiveTable => {
                let here = self.constants.within(COLLECTIVES);
                together(here.unwrap_or(catalogue::collective_spreads().table))
            }
            TimeModel::CollectiveFormula => together(catalogue::collective_spreads().formula),
            TimeModel::Transfer => together(TRANSFER),
            TimeModel::Host => Spread { bias: self.hosts(catalogue::step_spreads()), scatter: 0.0 },
        }
    }

    /// How far hosts are off. Where work is issued as graphs, and launches of these were measured here, as far as those were; how
    /// operators are dispatched one by one is never measured.
    fn hosts(self, steps: &StepSpreads) -> f64 {
        let [base, node] =
            ["graph.launch.base", "graph.launch.node"].map(|constant| self.constants.within(constant));
        let graphs = base.zip(node).filter(|_| self.launch == Launch::Graph);
        graphs.map_or(steps.of(StepSpreads::HOSTS), |(base, node)| base.max(node) / NINE_OF_TEN)
    }

    /// The name of what a model is off by: kernels of a class by GPU.
    fn name(self, model: TimeModel) -> String {
        match model {
            TimeModel::Kernel(class) => format!("{class} on {}", self.gpu.0),
            TimeModel::CollectiveTable => "collectives by table".to_owned(),
            TimeModel::CollectiveFormula => "collectives by formula".to_owned(),
            TimeModel::Transfer => "copies and messages".to_owned(),
            TimeModel::Host => StepSpreads::HOSTS.to_owned(),
        }
    }

    /// The number of a shape on this GPU in every plan.
    fn number(self, account: Account) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one((self.gpu.0, account.shape))
    }
}

#[cfg(test)]
mod tests {
    use hw_models::kernels::{Dtype, KernelClass};
    use hw_models::provenance::Origin;
    use workloads::account::Circumstance;

    use super::*;

    const GPU: &str = "b200-sxm-180gb";
    const PRODUCTS: TimeModel = TimeModel::Kernel(KernelClass::Gemm(Dtype::Bf16));

    fn usual(constants: &Constants) -> Evidence<'_> {
        Evidence { constants, gpu: (GPU, &catalogue::devices().gpus[GPU]), launch: Launch::Eager }
    }

    fn spent(spent: &[(TimeModel, u64, u64)], circumstance: Option<Circumstance>) -> Vec<(Account, Time)> {
        let account = |&(model, shape, time): &(TimeModel, u64, u64)| {
            let (communication, origin) = (None, Origin::Estimate);
            (Account { communication, model, shape, circumstance, origin }, Time(time))
        };
        spent.iter().map(account).collect()
    }

    /// The variance of `ln T`, less that of errors of whole steps.
    fn of_models(host: f64, times: &[(TimeModel, u64, u64)]) -> f64 {
        let constants = Constants::default();
        let found = uncertainty(usual(&constants), host, spent(times, None).into_iter());
        let found = found.expect("something was timed");
        let variance = |most: f64| (most.ln() / NINE_OF_TEN).powi(2);
        let steps = catalogue::step_spreads();
        let of_steps = (host * steps.of(StepSpreads::HOSTS)).powi(2)
            + ((1.0 - host) * steps.of("steps on blackwell")).powi(2)
            + (1.0 - host) * steps.of(StepSpreads::PLANS).powi(2);
        variance(found.interval(1.0)[1]) - of_steps
    }

    #[test]
    fn shapes_average_and_biases_do_not() {
        let Spread { bias, scatter } = usual(&Constants::default()).spread(PRODUCTS);
        assert!(bias > 0.0 && scatter > 0.0);
        let close = |found: f64, deviation: f64| {
            assert!((found - deviation.powi(2)).abs() < 1e-9, "{found}, {deviation}");
        };
        close(of_models(0.0, &[(PRODUCTS, 0, 7)]), bias.hypot(scatter));
        // Four shapes that take as long: half the scatter. One of them in two parts is one still.
        let four = [(PRODUCTS, 0, 2), (PRODUCTS, 1, 2), (PRODUCTS, 2, 2), (PRODUCTS, 3, 1), (PRODUCTS, 3, 1)];
        close(of_models(0.0, &four), bias.hypot(scatter / 2.0));
        let table = catalogue::collective_spreads().table / NINE_OF_TEN;
        let with_table = [(PRODUCTS, 0, 3), (TimeModel::CollectiveTable, 1, 1)];
        close(of_models(0.0, &with_table), (0.75 * bias.hypot(scatter)).hypot(0.25 * table));
        // Where hosts decide nothing else counts.
        close(of_models(1.0, &four), 0.0);
        close(of_models(0.5, &[(TimeModel::CollectiveTable, 1, 1)]), 0.5 * table);
    }

    #[test]
    fn circumstances_make_times_less_certain() {
        let constants = Constants::default();
        let half = |circumstance| {
            let spent = spent(&[(TimeModel::CollectiveFormula, 0, 1)], circumstance);
            uncertainty(usual(&constants), 0.0, spent.into_iter()).expect("something was timed").interval(1.0)
                [1]
            .ln()
        };
        for circumstance in [Circumstance::BetweenNodes, Circumstance::Recurrent] {
            let of_steps = catalogue::step_spreads().of(StepSpreads::of_circumstance(circumstance));
            let found = half(Some(circumstance));
            assert!((found - half(None).hypot(NINE_OF_TEN * of_steps)).abs() < 1e-9, "{circumstance:?}");
        }
    }

    #[test]
    fn a_step_of_nothing_has_no_uncertainty() {
        assert_eq!(uncertainty(usual(&Constants::default()), 0.0, std::iter::empty()), None);
    }
}
