//! Corrections near measured shapes: a Gaussian process over what a fitted model leaves unexplained.
//!
//! `ln(measured / model)` of the fitted rows, both without the start of the kernel, is regressed on the places of their
//! shapes with the covariance of [`Corrections`] and noise on the diagonal (Rasmussen and Williams, "Gaussian Processes for
//! Machine Learning", 2006, equation 2.23). A kernel that hardly outlasts its start tells little of its blocks: its noise
//! grows with the square of the whole time over that of the blocks. Length, noise and the weight of traits are those of a
//! small grid with the least leave-one-out loss over at most [`MOST`](super::MOST) rows, which has a closed form (section
//! 5.4.2): no row outside of the fit is looked at. Where even the best of them is no better than no correction, there is
//! none.

use hw_models::errors::huber;
use hw_models::kernels::{Anchor, Corrections};

/// Lengths tried (in logarithms of a dimension).
const LENGTHS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Weights tried of the traits.
const TRAITS: [f64; 2] = [0.0, 1.0];
/// Noise tried, relative to the variance of the process.
const NOISES: [f64; 5] = [0.01, 0.03, 0.1, 0.3, 1.0];

/// A row to explain.
#[derive(Clone, Debug)]
pub(super) struct Unexplained {
    /// Its shape, place and `log_ratio`; the weight is to be found.
    pub(super) anchor: Anchor,
    /// The whole time over that of the blocks.
    pub(super) diluted: f64,
}

/// The corrections that explain the rows; those of the process are found on every `step`-th of them.
pub(super) fn corrections(rows: &[Unexplained], step: usize) -> Corrections {
    let some: Vec<Unexplained> = rows.iter().step_by(step).cloned().collect();
    let mut least = some.iter().map(|row| huber(row.anchor.log_ratio / row.diluted)).sum::<f64>();
    let mut best = None;
    for traits in TRAITS {
        for length in LENGTHS {
            let process = Corrections { length, traits, anchors: Vec::new() };
            let covariance = Covariance::of(&process, &some);
            for noise in NOISES {
                let (weights, precisions) = covariance.weights(&some, noise);
                let left_out = weights.iter().zip(precisions).zip(&some);
                let loss =
                    left_out.map(|((weight, own), row)| huber(weight / own / row.diluted)).sum::<f64>();
                if loss < least {
                    (least, best) = (loss, Some((process.clone(), noise)));
                }
            }
        }
    }
    let Some((process, noise)) = best else { return Corrections { length: 1.0, ..Corrections::default() } };
    let (weights, _) = Covariance::of(&process, rows).weights(rows, noise);
    let weighted = rows.iter().zip(weights).map(|(row, weight)| Anchor { weight, ..row.anchor.clone() });
    Corrections { anchors: weighted.collect(), ..process }
}

/// A covariance matrix, row by row.
struct Covariance(Vec<Vec<f64>>);

impl Covariance {
    /// Below the diagonal and on it.
    fn of(process: &Corrections, rows: &[Unexplained]) -> Self {
        let places: Vec<_> = rows.iter().map(|row| &row.anchor.place).collect();
        let of_row = |i: usize| (0..=i).map(|j| process.covariance(places[i], places[j])).collect();
        Self((0..rows.len()).map(of_row).collect())
    }

    /// With noise on the diagonal: the weights of the rows, and the diagonal of the inverse.
    fn weights(&self, rows: &[Unexplained], noise: f64) -> (Vec<f64>, Vec<f64>) {
        let mut lower = self.0.clone();
        for (i, row) in rows.iter().enumerate() {
            lower[i][i] += noise * row.diluted * row.diluted;
        }
        factor(&mut lower);
        let inverse = inverted(&lower);
        let n = rows.len();
        let (mut weights, mut precisions) = (vec![0.0; n], vec![0.0; n]);
        // The inverse of the matrix is that of its factor, transposed, by itself.
        for inverse in &inverse {
            let along = inverse.iter().zip(rows).map(|(x, row)| x * row.anchor.log_ratio).sum::<f64>();
            for (j, x) in inverse.iter().enumerate() {
                weights[j] += x * along;
                precisions[j] += x * x;
            }
        }
        (weights, precisions)
    }
}

/// Cholesky's factor of a positive definite matrix given below its diagonal, in its place.
fn factor(lower: &mut [Vec<f64>]) {
    for i in 0..lower.len() {
        let (above, rest) = lower.split_at_mut(i);
        let row = &mut rest[0];
        for (j, other) in above.iter().enumerate() {
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        row[i] = (row[i] - dot(&row[..i], &row[..i])).sqrt();
    }
}

/// The inverse of a lower triangle, row by row.
fn inverted(lower: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut inverse: Vec<Vec<f64>> = Vec::with_capacity(lower.len());
    for (i, row) in lower.iter().enumerate() {
        let mut found = vec![0.0; i + 1];
        for (known, &times) in inverse.iter().zip(row) {
            for (x, y) in found.iter_mut().zip(known) {
                *x -= times * y;
            }
        }
        found[i] = 1.0;
        for x in &mut found {
            *x /= row[i];
        }
        inverse.push(found);
    }
    inverse
}

/// In four sums, as one would wait for itself.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        for i in 0..4 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_and_its_inverse_are_those_of_the_matrix() {
        // [[4, 2], [2, 5]] = [[2, 0], [1, 2]] times its transpose.
        let mut lower = vec![vec![4.0], vec![2.0, 5.0]];
        factor(&mut lower);
        assert_eq!(lower, [vec![2.0], vec![1.0, 2.0]]);
        assert_eq!(inverted(&lower), [vec![0.5], vec![-0.25, 0.5]]);
    }
}
