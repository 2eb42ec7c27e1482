//! Relative errors of predictions, and the loss that fits minimise.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Statistics of signed relative errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// How many samples.
    pub samples: usize,
    /// Mean absolute error.
    pub mean: f64,
    /// Median absolute error.
    pub median: f64,
    /// 90th percentile of the absolute error, by nearest rank: under 10 samples the worst one.
    pub p90: f64,
    /// 95th percentile of the absolute error, by nearest rank: under 20 samples the worst one.
    pub p95: f64,
    /// Worst absolute error.
    pub worst: f64,
    /// Mean signed error, positive when predictions are slow.
    pub bias: f64,
}

impl Errors {
    /// Statistics of signed relative errors; zeros for none.
    pub fn of(signed: &[f64]) -> Self {
        let mut absolute: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        absolute.sort_by(f64::total_cmp);
        let samples = absolute.len();
        let at = |fraction: f64| {
            let rank = (fraction * samples as f64).ceil() as usize;
            absolute.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        let mean = |values: &[f64]| values.iter().fold(0.0, |sum, value| sum + value) / samples.max(1) as f64;
        Self {
            samples,
            mean: mean(&absolute),
            median: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            worst: at(1.0),
            bias: mean(signed),
        }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mean, median, p95, worst, bias] =
            [self.mean, self.median, self.p95, self.worst, self.bias].map(|share| 100.0 * share);
        write!(
            f,
            "n {}, MAPE {mean:.1} %, median {median:.1} %, p95 {p95:.1} %, worst {worst:.0} %, bias {bias:+.1} %",
            self.samples
        )
    }
}

/// Quadratic up to here.
const KNEE: f64 = 0.2;

/// Huber's loss (Annals of Mathematical Statistics, 1964) of `ln(predicted / measured)`, so that a kernel of 5 us counts
/// as much as one of 50 ms: quadratic as far as 20 % and linear beyond, where a library's odd choice of kernel steers
/// little.
pub(super) fn huber(residual: f64) -> f64 {
    let size = residual.abs();
    if size <= KNEE { size * size } else { KNEE * (2.0 * size - KNEE) }
}
