//! How far a step time may be off, by what the models that it rests on were off on what nothing was fitted to.
//!
//! ```text
//! half-width of ln T = sqrt(sum over models (w s)^2)
//! ```
//!
//! w is a model's share of the work and communication of the slowest rank (what waits for others waits for the same work
//! there), s what nine of ten of its held-out measurements are within. Kernels of one class are off together, as they share a
//! library and a clock; classes, collectives, transfers and the host are off independently.

use std::collections::BTreeMap;

use hw_models::kernels::KernelClass;
use sim_core::time::Time;
use workloads::account::TimeModel;

use crate::catalogue;

/// Copies and messages follow a rate and a latency; fits of sweeps over sizes leave 3 to 7 % on the mean.
const TRANSFER: f64 = 0.1;
/// What issuing an operator takes differs between hosts by about this, as the rows of vTrain show that its constant is fitted
/// on.
const HOST: f64 = 0.2;

/// The ends of an interval that nine of ten measurements of a step of `step_s` should lie in, where `spent` tells which
/// models the time of a rank with this GPU is from. None where nothing was timed.
pub(super) fn interval(
    step_s: f64,
    gpu: &str,
    spent: impl Iterator<Item = (TimeModel, Time)>,
) -> Option<[f64; 2]> {
    let mut times: BTreeMap<TimeModel, u64> = BTreeMap::new();
    for (model, time) in spent {
        *times.entry(model).or_default() += time.0;
    }
    let all: u64 = times.values().sum();
    let part = |(&model, &time): (&TimeModel, &u64)| (time as f64 / all as f64 * spread(gpu, model)).powi(2);
    let half = times.iter().map(part).sum::<f64>().sqrt();
    (all > 0).then(|| [step_s * (-half).exp(), step_s * half.exp()])
}

fn spread(gpu: &str, model: TimeModel) -> f64 {
    let kernels = |class: KernelClass| catalogue::spreads().of(catalogue::devices(), gpu, class);
    match model {
        TimeModel::Kernel(class) => kernels(class),
        TimeModel::CollectiveTable => catalogue::collective_spreads().table,
        TimeModel::CollectiveFormula => catalogue::collective_spreads().formula,
        TimeModel::Transfer => TRANSFER,
        TimeModel::Host => HOST,
    }
}
