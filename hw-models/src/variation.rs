//! Parts of one kind differ from rank to rank, and the slowest is waited for: hosts from step to
//! step, GPUs in the clocks that they hold at their limit of power.
//!
//! ```text
//! time of a step of n ranks / mean of one rank = 1 + s e(n)
//! e(n) = integral over x of [x > 0] - F(x)^n, F the normal distribution: 0, 0.564, 1.029, 1.424 for 1, 2, 4, 8
//! ```
//!
//! e is the expected largest of n standard normals (Tippett, Biometrika 17, 1925). Collectives tie
//! all ranks of a step to each other. A rank ahead of others waits at the next collective; time
//! that it lost it makes up for only until then.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use crate::provenance::Provenance;

/// Step of the integral, and the bound beyond which F^n is 0 or 1 to a double for any number of ranks.
const STEP: f64 = 1.0 / 256.0;
const BOUND: f64 = 9.0;

/// How far parts of one kind differ.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Standard deviation of the time that a part takes for the work of a step, relative to its
    /// mean.
    pub share: f64,
    /// Where it is from.
    pub provenance: Provenance,
}

impl Variation {
    /// Factor by which the slowest of some parts is slower than one is on average: 1 for one part.
    pub fn slowest_of(&self, parts: u64) -> f64 {
        1.0 + self.share * expected_largest(parts)
    }
}

/// The expected largest of `n` standard normals, which searches ask for with every plan.
fn expected_largest(n: u64) -> f64 {
    static KNOWN: Mutex<BTreeMap<u64, f64>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry(n).or_insert_with(|| integral(n))
}

/// The integral e(n). Both integrals are sums at midpoints, which for smooth functions that end at
/// 0 are exact to many digits.
fn integral(n: u64) -> f64 {
    if n <= 1 {
        return 0.0;
    }
    let mut below = 0.0;
    let mut sum = 0.0;
    let steps = (2.0 * BOUND / STEP) as u32;
    for step in 0..steps {
        let x = -BOUND + (f64::from(step) + 0.5) * STEP;
        let part = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt() * STEP;
        let share = (below + part / 2.0).min(1.0).powf(n as f64);
        sum += f64::from(u8::from(x > 0.0)) - share;
        below += part;
    }
    sum * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_normals_as_in_tables() {
        // Tippett's table, and 1 / sqrt(pi) and 3 / (2 sqrt(pi)) exactly.
        let pi = std::f64::consts::PI;
        for (n, expected) in [
            (1, 0.0),
            (2, 1.0 / pi.sqrt()),
            (3, 1.5 / pi.sqrt()),
            (5, 1.162_96),
            (10, 1.538_75),
            (1000, 3.241_44),
        ] {
            let found = expected_largest(n);
            assert!((found - expected).abs() < 2e-5, "{n}: {found}, not {expected}");
        }
    }

    #[test]
    fn more_parts_are_slower_and_one_is_as_it_is() {
        let text = "{ share: 0.1, provenance: { origin: estimate, source: made up, confidence: low } }";
        let variation: Variation = serde_yaml::from_str(text).expect("a variation");
        assert!((variation.slowest_of(1) - 1.0).abs() < 1e-12);
        let of: Vec<f64> = (0..17).map(|doublings| variation.slowest_of(1 << doublings)).collect();
        assert!(of.is_sorted(), "{of:?}");
    }
}
