//! Corrections near measured shapes: a Gaussian process over what a fitted model leaves unexplained.
//!
//! `ln(measured / model)` of the fitted rows is regressed on the logarithms of their shapes with the kernel of
//! [`Corrections`] and noise on the diagonal (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006,
//! equation 2.23). Length and noise are those of a small grid with the least leave-one-out loss, which has a closed form
//! (section 5.4.2): no row outside of the fit is looked at. Where even the best of them is no better than no correction,
//! there is none.

use super::errors::huber;
use crate::kernels::{Anchor, Corrections};

/// Lengths tried (in logarithms of a dimension).
const LENGTHS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// Noise tried, relative to the variance of the process.
const NOISES: [f64; 4] = [0.1, 0.3, 1.0, 3.0];

/// The corrections that explain the anchors' `log_ratio`; their weights are overwritten.
pub(super) fn corrections(anchors: Vec<Anchor>) -> Corrections {
    let n = anchors.len();
    let ratios: Vec<f64> = anchors.iter().map(|anchor| anchor.log_ratio).collect();
    let uncorrected = ratios.iter().map(|&ratio| huber(ratio)).sum::<f64>();
    let mut best = Corrections { length: 1.0, anchors };
    for anchor in &mut best.anchors {
        anchor.weight = 0.0;
    }
    let mut least = uncorrected;
    for length in LENGTHS {
        let trial = Corrections { length, anchors: std::mem::take(&mut best.anchors) };
        let kernel = |i: usize, j: usize| trial.kernel(&trial.anchors[i], &trial.anchors[j]);
        let covariance: Vec<f64> = (0..n * n).map(|at| kernel(at / n, at % n)).collect();
        best.anchors = trial.anchors;
        for noise in NOISES {
            let mut noisy = covariance.clone();
            for i in 0..n {
                noisy[i * n + i] += noise;
            }
            let inverse = invert(noisy, n);
            let weights: Vec<f64> =
                (0..n).map(|i| (0..n).map(|j| inverse[i * n + j] * ratios[j]).sum()).collect();
            let loss = (0..n).map(|i| huber(weights[i] / inverse[i * n + i])).sum::<f64>();
            if loss < least {
                least = loss;
                best.length = length;
                for (anchor, &weight) in best.anchors.iter_mut().zip(&weights) {
                    anchor.weight = weight;
                }
            }
        }
    }
    best
}

/// Inverse of a positive definite matrix (row-major), by Gauss and Jordan's elimination, which needs no pivots there.
fn invert(mut matrix: Vec<f64>, n: usize) -> Vec<f64> {
    for k in 0..n {
        let pivot = matrix[k * n + k].recip();
        matrix[k * n + k] = 1.0;
        for value in &mut matrix[k * n..(k + 1) * n] {
            *value *= pivot;
        }
        let row = matrix[k * n..(k + 1) * n].to_vec();
        for i in (0..n).filter(|&i| i != k) {
            let factor = std::mem::replace(&mut matrix[i * n + k], 0.0);
            for (value, above) in matrix[i * n..(i + 1) * n].iter_mut().zip(&row) {
                *value -= factor * above;
            }
        }
    }
    matrix
}
