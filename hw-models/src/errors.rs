//! Relative errors of predictions, and the loss that fits minimise.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
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
    /// Between these is the mean of other samples of the kind in 19 of 20 cases: the bootstrap's percentile interval (Efron and
    /// Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). Absent under five samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// Samples under which resamples repeat themselves too often to tell an interval.
const FEWEST: usize = 5;
/// Resamples of a bootstrap, and the seed that they follow from.
const RESAMPLES: usize = 1_000;
const SEED: u64 = 1;
/// Share of the resamples that lies beyond either end of the interval.
const BEYOND: f64 = 0.025;

impl Errors {
    /// Statistics of signed relative errors; zeros for none.
    pub fn of(signed: &[f64]) -> Self {
        let mut absolute: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        absolute.sort_by(f64::total_cmp);
        let at = |share| nearest_rank(&absolute, share);
        Self {
            samples: absolute.len(),
            mean: mean(&absolute),
            median: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            worst: at(1.0),
            bias: mean(signed),
            interval: (absolute.len() >= FEWEST).then(|| interval(&absolute)),
        }
    }
}

/// The bootstrap's percentile interval of a mean.
fn interval(values: &[f64]) -> [f64; 2] {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut resampled = || {
        let drawn = values.iter().map(|_| values[random.random_range(0..values.len())]);
        drawn.sum::<f64>() / values.len() as f64
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resampled()).collect();
    means.sort_by(f64::total_cmp);
    [BEYOND, 1.0 - BEYOND].map(|share| nearest_rank(&means, share))
}

/// The value of sorted ones that so large a share of them does not exceed; zero for none.
fn nearest_rank(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |sum, value| sum + value) / values.len().max(1) as f64
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mean, median, p95, worst, bias] =
            [self.mean, self.median, self.p95, self.worst, self.bias].map(|share| 100.0 * share);
        let interval = self.interval.map(|ends| ends.map(|share| 100.0 * share));
        let interval = interval.map_or_else(String::new, |[low, high]| format!(" ({low:.1} to {high:.1})"));
        write!(
            f,
            "n {}, MAPE {mean:.1} %{interval}, median {median:.1} %, p95 {p95:.1} %, worst {worst:.0} %, bias {bias:+.1} %",
            self.samples
        )
    }
}

/// Quadratic up to here.
const KNEE: f64 = 0.2;

/// Distance of predictions from measurements, in pairs: the sum of the absolute logarithms of their
/// ratios; infinite where a prediction is not positive.
pub fn log_distance(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    pairs
        .map(
            |(predicted, measured)| {
                if predicted > 0.0 { (predicted / measured).ln().abs() } else { f64::INFINITY }
            },
        )
        .sum()
}

/// Huber's loss (Annals of Mathematical Statistics, 1964) of `ln(predicted / measured)`, so that a kernel of 5 us counts
/// as much as one of 50 ms: quadratic as far as 20 % and linear beyond, where a library's odd choice of kernel steers
/// little.
pub fn huber(residual: f64) -> f64 {
    let size = residual.abs();
    if size <= KNEE { size * size } else { KNEE * (2.0 * size - KNEE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_that_of_other_samples_of_the_kind() {
        // Of so many errors of 0 and of 2 % the mean is 1 % within 1.96 / 20 of it, by the normal limit of the binomial.
        let signed: Vec<f64> = (0..400).map(|at| if at % 2 == 0 { 0.0 } else { -0.02 }).collect();
        let errors = Errors::of(&signed);
        let [low, high] = errors.interval.unwrap();
        assert!((low - 0.009_02).abs() < 1e-4 && (high - 0.010_98).abs() < 1e-4, "{low} to {high}");
        assert!((errors.mean - 0.01).abs() < 1e-12 && (errors.bias + 0.01).abs() < 1e-12);
        assert_eq!(Errors::of(&signed), errors, "it does not depend on luck");
        assert_eq!(Errors::of(&[0.03; 5]).interval, Some([0.03, 0.03]));
        assert_eq!(Errors::of(&[0.03; 4]).interval, None);
    }
}
