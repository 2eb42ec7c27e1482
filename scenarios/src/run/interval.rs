//! How far a step time may be off, by what the models that it rests on were off on what nothing was fitted to.
//!
//! ```text
//! half-width of ln T = 1.645 sqrt((h HOST)^2 + (1 - h)^2 sum over models ((w b)^2 + sum over shapes (v s)^2))
//! ```
//!
//! h is the host's share of the critical path: there the step is as slow as the host. The rest is off as the work and
//! communication of the slowest rank are (what waits for others waits for the same work there). w is a model's share of it
//! and b its bias, the standard deviation of what all its kernels are off by together, as they share a library, a clock and
//! constants that may be another GPU's. v is the share of one shape and s how shapes scatter around the bias, each on its
//! own: what many shapes are off by averages. Models are off independently, which puts 90 % of a normal error inside.

use std::collections::BTreeMap;

use calibration::overlay::COLLECTIVES;
use hw_models::catalogue::Gpu;
use hw_models::kernels::Spread;
use sim_core::time::Time;
use workloads::account::{Account, TimeModel};

use crate::catalogue;
use crate::constants::Constants;
use crate::schema::Launch;

/// Hosts of one kind issue operators faster or slower by this (standard deviation of the
/// logarithm): so far are the rows of vTrain off that do not judge, of those that are mostly the
/// host's, per share of it in their path. A test derives it again.
pub const HOST: f64 = 0.13;
/// Nine of ten normal errors are within so many standard deviations.
const NINE_OF_TEN: f64 = 1.645;
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

/// The ends of an interval that nine of ten measurements of a step of `step_s` should lie in. `host` is the host's share of
/// the critical path, `spent` tells what the time of a rank with this GPU is from. None where nothing was timed.
pub(super) fn interval(
    step_s: f64,
    evidence: Evidence<'_>,
    host: f64,
    spent: impl Iterator<Item = (Account, Time)>,
) -> Option<[f64; 2]> {
    let mut times: BTreeMap<TimeModel, BTreeMap<u32, u64>> = BTreeMap::new();
    for (account, time) in spent {
        *times.entry(account.model).or_default().entry(account.shape).or_default() += time.0;
    }
    let all: u64 = times.values().flat_map(BTreeMap::values).sum();
    let part = |(&model, shapes): (&TimeModel, &BTreeMap<u32, u64>)| {
        let share = |time: u64| time as f64 / all as f64;
        let Spread { bias, scatter } = evidence.spread(model);
        let apart = shapes.values().map(|&time| (share(time) * scatter).powi(2));
        (share(shapes.values().sum()) * bias).powi(2) + apart.sum::<f64>()
    };
    let devices = times.iter().map(part).sum::<f64>().sqrt();
    let half = NINE_OF_TEN * (host * evidence.spread(TimeModel::Host).bias).hypot((1.0 - host) * devices);
    (all > 0).then(|| [step_s * (-half).exp(), step_s * half.exp()])
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
            TimeModel::Host => self.graphs().map_or(Spread { bias: HOST, scatter: 0.0 }, together),
        }
    }

    /// What nine of ten launches of graphs are within, where that is how work is issued and it was measured here. How operators
    /// are dispatched one by one was not.
    fn graphs(self) -> Option<f64> {
        let [base, node] =
            ["graph.launch.base", "graph.launch.node"].map(|constant| self.constants.within(constant));
        base.zip(node).filter(|_| self.launch == Launch::Graph).map(|(base, node)| base.max(node))
    }
}

#[cfg(test)]
mod tests {
    use hw_models::kernels::{Dtype, KernelClass};
    use hw_models::provenance::Origin;

    use super::*;

    const GPU: &str = "b200-sxm-180gb";
    const PRODUCTS: TimeModel = TimeModel::Kernel(KernelClass::Gemm(Dtype::Bf16));

    fn usual(constants: &Constants) -> Evidence<'_> {
        Evidence { constants, gpu: (GPU, &catalogue::devices().gpus[GPU]), launch: Launch::Eager }
    }

    /// Half the width of `ln T`.
    fn half(host: f64, spent: &[(TimeModel, u32, u64)]) -> f64 {
        let account = |&(model, shape, time): &(TimeModel, u32, u64)| {
            (Account { communication: None, model, shape, origin: Origin::Estimate }, Time(time))
        };
        let [least, most] = interval(2.0, usual(&Constants::default()), host, spent.iter().map(account))
            .expect("something was timed");
        assert!((least * most - 4.0).abs() < 1e-9, "the ends are as far off as factors");
        (most / 2.0).ln()
    }

    #[test]
    fn shapes_average_and_biases_do_not() {
        let Spread { bias, scatter } = usual(&Constants::default()).spread(PRODUCTS);
        assert!(bias > 0.0 && scatter > 0.0);
        let close =
            |found: f64, sigma: f64| assert!((found - 1.645 * sigma).abs() < 1e-9, "{found}, {sigma}");
        close(half(0.0, &[(PRODUCTS, 0, 7)]), bias.hypot(scatter));
        // Four shapes that take as long: half the scatter. One of them in two parts is one still.
        let four = [(PRODUCTS, 0, 2), (PRODUCTS, 1, 2), (PRODUCTS, 2, 2), (PRODUCTS, 3, 1), (PRODUCTS, 3, 1)];
        close(half(0.0, &four), bias.hypot(scatter / 2.0));
        let table = crate::catalogue::collective_spreads().table / 1.645;
        let with_table = [(PRODUCTS, 0, 3), (TimeModel::CollectiveTable, 1, 1)];
        close(half(0.0, &with_table), (0.75 * bias.hypot(scatter)).hypot(0.25 * table));
        close(half(1.0, &four), HOST);
        close(half(0.5, &[(TimeModel::CollectiveTable, 1, 1)]), 0.5 * HOST.hypot(table));
    }

    #[test]
    fn a_step_of_nothing_has_no_interval() {
        assert_eq!(interval(1.0, usual(&Constants::default()), 0.0, std::iter::empty()), None);
    }
}
