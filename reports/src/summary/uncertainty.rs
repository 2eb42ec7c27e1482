//! By how much the time of a step may be off, and the ratio of the times of two plans.
//!
//! ```text
//! ln(measured / ours) = sum over errors w E + sum over shapes v S + sum over shapes sqrt(v) Z
//! ```
//!
//! An error E is the same for all plans that it touches (a model of kernels, a library, a generation of GPUs), w its weight in
//! the logarithm of the time. v is the share of the time in one shape, S how far that shape is off on its own, and Z what is
//! between kernels, of which plans have the more in common the more they do alike. All are independent, with mean 0: an
//! interval of 1.645 standard deviations either way holds nine of ten normal errors. In a ratio what both share cancels.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::RunSummary;

/// Standard deviations within which nine of ten normal errors are.
pub const NINE_OF_TEN: f64 = 1.645;

/// The errors that the time of a step has. Standard deviations are of logarithms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uncertainty {
    /// Errors by name.
    pub errors: IndexMap<String, CommonError>,
    /// Standard deviation of what a plan is off on its own, between its kernels.
    pub plan: f64,
    /// Shapes of the work by a number that is theirs in every plan.
    pub shapes: BTreeMap<u64, Shape>,
}

/// An error that plans share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommonError {
    /// Its weight in the logarithm of the time, 1 for all of it.
    pub weight: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// Work of one shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Its share of the time.
    pub share: f64,
    /// Standard deviation of what single shapes are off by.
    pub scatter: f64,
}

/// The time of a plan over that of another, for the same work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Simulated, below 1 where the plan is faster.
    pub ratio: f64,
    /// Interval in which nine of ten measurements of it should lie: errors that both plans share cancel.
    pub interval: [f64; 2],
    /// Share of measurements in which the plan that is simulated as the slower one is slower.
    #[serde(default = "certain")]
    pub certainty: f64,
}

/// Results that do not say it are of a time when all were.
const fn certain() -> f64 {
    1.0
}

/// Certainty from which on two plans are told apart: an end of the interval of nine in ten.
const APART: f64 = 0.95;

impl Ratio {
    /// Ratio of a run's step to another's; none where either has no time or errors that are not known.
    pub fn of(run: &RunSummary, first: &RunSummary) -> Option<Self> {
        let (ours, theirs) = (run.step_time_uncertainty.as_ref()?, first.step_time_uncertainty.as_ref()?);
        Some(ours.ratio_to(theirs, run.step_time()? / first.step_time()?))
    }

    /// A ratio of which no more than its interval is known.
    pub fn within(ratio: f64, interval: [f64; 2]) -> Self {
        let [least, most] = interval.map(f64::ln);
        let deviation = (most - least) / (2.0 * NINE_OF_TEN);
        Self { ratio, interval, certainty: certainty(ratio.ln().abs(), deviation) }
    }

    /// True where either plan may be the faster one: their errors reach farther than their difference.
    pub fn is_tie(&self) -> bool {
        self.certainty < APART
    }
}

/// Probability that a difference has the sign that it is simulated with.
fn certainty(difference: f64, deviation: f64) -> f64 {
    if deviation > 0.0 { normal(difference / deviation) } else { 1.0 }
}

/// Probability that a normal error is below a positive number of its standard deviations, to 1e-7: Abramowitz and Stegun,
/// Handbook of Mathematical Functions, formula 26.2.17.
fn normal(deviations: f64) -> f64 {
    const TAIL: [f64; 5] = [0.319_381_53, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * deviations);
    let density = (-deviations * deviations / 2.0).exp() / std::f64::consts::TAU.sqrt();
    1.0 - density * t * TAIL.iter().rev().fold(0.0, |sum, factor| sum * t + factor)
}

impl Uncertainty {
    /// Ends of the interval in which nine of ten measurements of a time (s) should lie.
    pub fn interval(&self, time_s: f64) -> [f64; 2] {
        nine_of_ten(time_s, self.variance_of_ratio(&Self::default()).sqrt())
    }

    /// Ends of the interval in which nine of ten measurements of `ratio` should lie, that of this plan's time to another's.
    pub fn interval_of_ratio(&self, other: &Self, ratio: f64) -> [f64; 2] {
        nine_of_ten(ratio, self.variance_of_ratio(other).sqrt())
    }

    /// This plan's time over another's, `ratio`.
    ///
    /// Which plan is faster hangs on the difference of their times, to which work that both do in equal time adds
    /// nothing, however wrong that time is:
    ///
    /// ```text
    /// t - t' = sum over errors of (w t - w' t') (1 + error),      w: share of the time that an error scales
    /// ```
    pub fn ratio_to(&self, other: &Self, ratio: f64) -> Ratio {
        let deviation = self.variance_of_difference(other, ratio).sqrt();
        let certainty = certainty((ratio - 1.0).abs(), deviation);
        Ratio { ratio, interval: self.interval_of_ratio(other, ratio), certainty }
    }

    /// Variance of the logarithm of the ratio to another plan's time; to the empty one, of the time itself.
    pub fn variance_of_ratio(&self, other: &Self) -> f64 {
        self.variance_of_difference(other, 1.0)
    }

    /// Variance of the difference to another plan's time, which is 1 where this one's is `time`.
    fn variance_of_difference(&self, other: &Self, time: f64) -> f64 {
        let kernels = self.shapes_beside(other).map(|[ours, theirs]| {
            let kernel = (time * ours.share - theirs.share) * ours.scatter.max(theirs.scatter);
            let between = time * ours.share.sqrt() * self.plan - theirs.share.sqrt() * other.plan;
            kernel.powi(2) + between.powi(2)
        });
        self.common_variance(other, time) + kernels.sum::<f64>()
    }

    /// Variance that errors of both plans have in their ratio, without those of shapes.
    pub fn variance_in_common(&self, other: &Self) -> f64 {
        self.common_variance(other, 1.0)
    }

    fn common_variance(&self, other: &Self, time: f64) -> f64 {
        let names: BTreeSet<&String> = self.errors.keys().chain(other.errors.keys()).collect();
        let variance = |name: &String| {
            let [ours, theirs] = [self, other].map(|plan| plan.errors.get(name).copied().unwrap_or_default());
            ((time * ours.weight - theirs.weight) * ours.deviation.max(theirs.deviation)).powi(2)
        };
        names.into_iter().map(variance).sum()
    }

    /// How much plans do apart: 0 for the same shapes with the same shares, 2 for none in common.
    pub fn apart(&self, other: &Self) -> f64 {
        let shapes = self.shapes_beside(other);
        shapes.map(|[ours, theirs]| (ours.share.sqrt() - theirs.share.sqrt()).powi(2)).sum()
    }

    /// Shapes of either plan.
    fn shapes_beside<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = [Shape; 2]> + 'a {
        let shapes: BTreeSet<u64> = self.shapes.keys().chain(other.shapes.keys()).copied().collect();
        shapes
            .into_iter()
            .map(move |shape| [self, other].map(|plan| plan.shapes.get(&shape).copied().unwrap_or_default()))
    }
}

/// Ends of the interval around `value` in which nine of ten lie, where the logarithm is normal with
/// this standard deviation.
pub fn nine_of_ten(value: f64, deviation: f64) -> [f64; 2] {
    let half = (NINE_OF_TEN * deviation).exp();
    [value / half, value * half]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(weight: f64, shapes: &[(u64, f64)]) -> Uncertainty {
        let error = CommonError { weight, deviation: 0.1 };
        let shape = |&(number, share): &(u64, f64)| (number, Shape { share, scatter: 0.2 });
        Uncertainty {
            errors: IndexMap::from([("products".to_owned(), error)]),
            plan: 0.05,
            shapes: shapes.iter().map(shape).collect(),
        }
    }

    #[test]
    fn errors_add_up_in_quadrature() {
        // 0.5 of 0.1; shapes of 0.8 and 0.2 of 0.2; all of 0.05.
        let alone = plan(0.5, &[(1, 0.8), (2, 0.2)]);
        let expected: f64 = 0.0025 + 0.04 * (0.64 + 0.04) + 0.0025;
        let [least, most] = alone.interval(2.0);
        assert!(((most / 2.0).ln() - 1.645 * expected.sqrt()).abs() < 1e-12);
        assert!((least * most - 4.0).abs() < 1e-12, "as far off either way, as factors");
    }

    #[test]
    fn a_ratio_is_as_uncertain_as_plans_differ() {
        let [a, b] = [plan(0.5, &[(1, 0.5), (2, 0.5)]), plan(0.3, &[(3, 1.0)])];
        assert_eq!(a.interval_of_ratio(&a, 1.0), [1.0, 1.0]);
        // Nothing in common but the products, of which b has less.
        let expected: f64 = (0.2_f64 * 0.1).powi(2) + 0.04 * (0.25 + 0.25 + 1.0) + 2.0 * 0.0025;
        let [_, most] = a.interval_of_ratio(&b, 1.0);
        assert!((most.ln() - 1.645 * expected.sqrt()).abs() < 1e-12);
        let [least, _] = b.interval_of_ratio(&a, 1.0);
        assert!((least * most - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_difference_within_the_errors_that_plans_do_not_share_is_a_tie() {
        // Two classes of kernels, each off by a factor of its own. Both plans spend as much in products; the second copies less.
        let plan = |copies: f64| {
            let error = |weight, deviation| CommonError { weight, deviation };
            let errors = [("products", error(0.6, 0.3)), ("copies", error(copies, 0.2))];
            let errors = errors.map(|(name, error)| (name.to_owned(), error));
            Uncertainty { errors: IndexMap::from(errors), ..Uncertainty::default() }
        };
        let ratio = |ratio: f64| Ratio::within(ratio, plan(0.4).interval_of_ratio(&plan(0.3), ratio));
        // Products cancel: a tenth of the time is off by 20 %, two standard deviations are 4 %.
        assert!(ratio(1.03).is_tie() && ratio(0.97).is_tie() && !ratio(1.04).is_tie());
        for (deviations, share) in [(0.0, 0.5), (1.0, 0.841_344_7), (1.645, 0.950_015_1), (2.0, 0.977_249_9)]
        {
            for sign in [1.0_f64, -1.0] {
                let found = ratio((sign * 0.02 * deviations).exp()).certainty;
                assert!((found - share).abs() < 1e-6, "{deviations}: {found}");
            }
        }
        assert_eq!(Ratio::within(1.01, [1.01; 2]).certainty, 1.0);
    }

    /// Products take 1 s in both plans, off by a factor of 3; copies take 0.5 s in the one that has any. However long the
    /// products, who copies is slower: 0.5 s off by 20 % are five standard deviations.
    #[test]
    fn work_that_both_plans_do_alike_decides_nothing() {
        let plan = |products, copies| {
            let error = |weight, deviation| CommonError { weight, deviation };
            let errors = [("products", error(products, 1.1)), ("copies", error(copies, 0.2))];
            let errors = errors.map(|(name, error)| (name.to_owned(), error));
            Uncertainty { errors: IndexMap::from(errors), ..Uncertainty::default() }
        };
        let (copying, other) = (plan(2.0 / 3.0, 1.0 / 3.0), plan(1.0, 0.0));
        let slower = copying.ratio_to(&other, 1.5);
        assert!(slower.interval[0] < 1.0 && slower.certainty > 0.999_999, "{slower:?}");
        let faster = other.ratio_to(&copying, 1.0 / 1.5);
        assert!((faster.certainty - slower.certainty).abs() < 1e-12);
    }
}
