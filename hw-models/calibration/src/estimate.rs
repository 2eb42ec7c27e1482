//! Constants of laws from records: relative least squares, what the data tell of each constant, and what the law is off on
//! what it was not fitted to.
//!
//! Constants are searched as logarithms. How well the data tell one is the standard error of its logarithm,
//! `s sqrt((J^T J)^-1_kk)` with `J` the change of the predicted logarithms by those of the constants and `s` what is left
//! over, or by how much the medians of samples scatter if that is more; a constant that no record depends on, or that another one can stand in for, has none and is not told.

use std::collections::BTreeSet;

use super::laws::Law;
use super::measure::Record;
use hw_models::errors::{Errors, huber};
use hw_models::search::minimise;

/// Relative standard error from which a constant is not told by the data.
pub const UNTOLD: f64 = 0.1;

/// Decades of sizes of which one can be left out.
pub const DECADES: usize = 3;

/// What records tell of a law.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// By constant, in the order of the law.
    pub constants: Vec<Told>,
    /// Errors on what was fitted.
    pub fitted: Errors,
    /// Errors on the test quarter: none of its records was fitted.
    pub held_out: Errors,
    /// Records that scatter, or of a device that was changing.
    pub unstable: usize,
    /// Records of a device that was held back, which were not used.
    pub refused: usize,
    /// Median scatter of the records.
    pub scatter: f64,
}

/// A constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// Its value in its unit.
    pub value: f64,
    /// Its relative standard error; none if the records do not depend on it.
    pub error: Option<f64>,
}

impl Told {
    /// Whether the records tell it.
    pub fn is_told(&self) -> bool {
        self.error.is_some_and(|error| error < UNTOLD)
    }
}

/// Fits a law to the records that it says something of; none if there are none that can be used.
pub fn estimate(law: &Law, records: &[Record]) -> Option<Estimate> {
    let about: Vec<&Record> = records.iter().filter(|record| law.tells(&record.of)).collect();
    let sound: Vec<&Record> = about.iter().copied().filter(|record| record.is_sound()).collect();
    let (held_out, mut fitted): (Vec<&Record>, Vec<&Record>) =
        sound.iter().partition(|record| record.judges());
    // Where so few tell the law that it needs them all, none judges.
    let all_needed = fitted.len() <= law.constants.len();
    if all_needed {
        fitted.clone_from(&sound);
    }
    if fitted.is_empty() {
        return None;
    }
    let logs = search(law, &law.usual(), &fitted);
    let values: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
    let errors = standard_errors(law, &logs, &fitted);
    let scatters: Vec<f64> = sound.iter().map(|record| record.scatter()).collect();
    let judged = if all_needed { &[][..] } else { &held_out };
    Some(Estimate {
        constants: values.iter().zip(errors).map(|(&value, error)| Told { value, error }).collect(),
        fitted: off(law, &values, &fitted),
        held_out: off(law, &values, judged),
        unstable: sound.iter().filter(|record| record.is_unstable()).count(),
        refused: about.len() - sound.len(),
        scatter: super::measure::timing::median(&scatters),
    })
}

/// Errors on every decade of the bytes that tasks move, by a fit to the records of all others: how far the law carries beyond
/// what was measured. None where records are of fewer decades than [`DECADES`].
pub fn across_decades(law: &Law, records: &[Record]) -> Option<Errors> {
    let sound: Vec<&Record> =
        records.iter().filter(|record| record.is_sound() && law.tells(&record.of)).collect();
    let decade = |record: &Record| record.of.bytes().checked_ilog10();
    let decades: BTreeSet<u32> = sound.iter().filter_map(|record| decade(record)).collect();
    if decades.len() < DECADES {
        return None;
    }
    let of_decade = |left_out: u32| -> Vec<f64> {
        let (judging, others): (Vec<&Record>, Vec<&Record>) =
            sound.iter().partition(|record| decade(record) == Some(left_out));
        let values: Vec<f64> = search(law, &law.usual(), &others).iter().map(|log| log.exp()).collect();
        judging.into_iter().map(|record| residual(law, &values, record).exp_m1()).collect()
    };
    Some(Errors::of(&decades.into_iter().flat_map(of_decade).collect::<Vec<_>>()))
}

/// A record, and what a law says of it.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'r> {
    /// The record.
    pub record: &'r Record,
    /// Time of one execution by the law (s).
    pub seconds: f64,
    /// Whether nothing was fitted to it.
    pub held_out: bool,
}

/// The records that a law with constants of these `values` is beside; `judged`: those of the test quarter were held out,
/// see [`Estimate::held_out`].
pub fn beside<'r>(law: &Law, values: &[f64], records: &'r [Record], judged: bool) -> Vec<Beside<'r>> {
    let one = |record: &'r Record| {
        let seconds = (law.seconds)(values, &record.of)?;
        Some(Beside { record, seconds, held_out: judged && record.judges() })
    };
    records.iter().filter(|record| record.is_sound()).filter_map(one).collect()
}

fn residual(law: &Law, values: &[f64], record: &Record) -> f64 {
    (law.seconds)(values, &record.of).map_or(0.0, |seconds| (seconds / record.seconds()).ln())
}

fn off(law: &Law, values: &[f64], records: &[&Record]) -> Errors {
    let signed: Vec<f64> = records.iter().map(|record| residual(law, values, record).exp_m1()).collect();
    Errors::of(&signed)
}

/// Losses that differ by no more are those of one place, as far as a search can tell.
const EQUALLY: f64 = 1.01;

/// The logarithms of the constants that fit best, searched from the usual ones, from a tenth and ten times all of them, and of
/// each alone: a constant that only some records depend on may be out of the others' sight.
fn search(law: &Law, usual: &[f64], records: &[&Record]) -> Vec<f64> {
    let loss = |logs: &[f64]| {
        let values: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
        records.iter().map(|record| huber(residual(law, &values, record))).sum::<f64>()
    };
    let from = |moved: &dyn Fn(usize) -> f64| {
        let start: Vec<f64> = usual.iter().enumerate().map(|(k, value)| (value * moved(k)).ln()).collect();
        let once = minimise(&start, 0.7, &loss);
        minimise(&once, 0.1, &loss)
    };
    let mut found = vec![from(&|_| 1.0)];
    for factor in [0.1, 10.0] {
        found.push(from(&|_| factor));
        found.extend((0..usual.len()).map(|alone| from(&|k| if k == alone { factor } else { 1.0 })));
    }
    // Of places that are equally low, for constants that the records do not tell apart, the one that is nearest to the usual ones.
    let lowest = found.iter().map(|logs| loss(logs)).fold(f64::INFINITY, f64::min);
    found.into_iter().find(|logs| loss(logs) <= EQUALLY * lowest).unwrap_or_default()
}

/// Step of a logarithm for its derivative.
const STEP: f64 = 1e-4;

/// Relative standard errors of constants; none where the records do not tell one from nothing or from others.
fn standard_errors(law: &Law, logs: &[f64], records: &[&Record]) -> Vec<Option<f64>> {
    let constants = logs.len();
    let at = |logs: &[f64]| -> Vec<f64> {
        let values: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
        records.iter().map(|record| residual(law, &values, record)).collect()
    };
    let left = at(logs);
    let jacobian: Vec<Vec<f64>> = (0..constants)
        .map(|k| {
            let mut moved = logs.to_vec();
            moved[k] += STEP;
            at(&moved).iter().zip(&left).map(|(after, before)| (after - before) / STEP).collect()
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let normal: Vec<Vec<f64>> =
        jacobian.iter().map(|a| jacobian.iter().map(|b| dot(a, b)).collect()).collect();
    let freedom = records.len().saturating_sub(constants).max(1) as f64;
    // Where there are no more records than constants nothing is left over, and yet they scatter.
    let scattered = records.iter().map(|record| record.median_error().powi(2)).sum::<f64>();
    let variance = (dot(&left, &left) / freedom).max(scattered / records.len().max(1) as f64);
    (0..constants).map(|k| inverse_diagonal(&normal, k).map(|inverse| (variance * inverse).sqrt())).collect()
}

/// Share of its own square that a constant must keep beside the others.
const KEPT: f64 = 1e-6;

/// `(A^-1)_kk` of a symmetric matrix: what is left of `A_kk` once the others are eliminated, inverted (the Schur
/// complement); none if next to nothing is.
fn inverse_diagonal(matrix: &[Vec<f64>], k: usize) -> Option<f64> {
    let mut a = matrix.to_vec();
    let own = a[k][k];
    for pivot in (0..a.len()).filter(|&pivot| pivot != k) {
        let scale = a[pivot][pivot];
        if scale <= KEPT * matrix[pivot][pivot] {
            continue;
        }
        let eliminated = a[pivot].clone();
        for (_, row) in a.iter_mut().enumerate().filter(|(row, _)| *row != pivot) {
            let factor = row[pivot] / scale;
            row.iter_mut().zip(&eliminated).for_each(|(x, by)| *x -= factor * by);
        }
    }
    (own > 0.0 && a[k][k] > KEPT * own).then(|| 1.0 / a[k][k])
}
