//! Constants from measured kernels: relative least squares by the simplex search of Nelder and Mead (Computer Journal,
//! 1965), which is deterministic and needs no derivatives of a model full of ceilings.
//!
//! Parameters are searched as logarithms, which keeps them positive. The residual of a sample is `ln(predicted /
//! measured)`, so that a kernel of 5 us counts as much as one of 50 ms; its loss is Huber's (Annals of Mathematical
//! Statistics, 1964), quadratic as far as 20 % and linear beyond: a library's odd choice of kernel steers little.
//!
//! The start of kernels that were timed by events on the host contains the launch path and is no constant of the device.

use super::{Attention, Gemm, KernelCost, KernelError, KernelModel, Layout, Pass, Stream};

/// A measured kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<T> {
    /// What was run.
    pub shape: T,
    /// How long it took (s).
    pub seconds: f64,
}

/// Relative errors of predictions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Mean absolute error.
    pub mean: f64,
    /// Median absolute error.
    pub median: f64,
    /// 95th percentile of the absolute error.
    pub p95: f64,
    /// Mean signed error, positive when predictions are slow.
    pub bias: f64,
    /// How many samples.
    pub samples: usize,
}

/// A shape that the kernel model can time.
pub trait Kernel {
    /// Its cost.
    ///
    /// # Errors
    /// As the model's function for this shape.
    fn cost(&self, model: &KernelModel) -> Result<KernelCost, KernelError>;
}

impl Kernel for Gemm {
    fn cost(&self, model: &KernelModel) -> Result<KernelCost, KernelError> {
        model.gemm(self)
    }
}

impl Kernel for Attention {
    fn cost(&self, model: &KernelModel) -> Result<KernelCost, KernelError> {
        model.attention(self)
    }
}

impl Kernel for Stream {
    fn cost(&self, model: &KernelModel) -> Result<KernelCost, KernelError> {
        model.stream(self)
    }
}

/// Fits the parameters of the samples' type of matrix product. What no sample shows stays as it is in the model: the
/// factor of a layout, that of dimensions out of alignment, and the exponent where full tiles always fill the GPU.
///
/// # Errors
/// When the model cannot time a sample.
pub fn gemm(model: &KernelModel, samples: &[Sample<Gemm>]) -> Result<KernelModel, KernelError> {
    let Some(first) = samples.first() else { return Ok(model.clone()) };
    let shows = |layout| samples.iter().any(|sample| sample.shape.layout == layout);
    let (input, weight) = (shows(Layout::InputGradient), shows(Layout::WeightGradient));
    let small = samples.iter().any(|sample| sample.shape.tiles([128, 128]) < u64::from(model.facts.sms));
    let misaligned = samples.iter().any(|sample| !sample.shape.aligned());
    let p = model.parameters.gemm(first.shape.dtype)?.clone();
    let factor = |shown, known| if shown { 1.0 } else { known };
    let start = [
        0.8,
        if small { 0.25 } else { p.exponent },
        100.0,
        5.0,
        factor(input, p.input_gradient),
        factor(weight, p.weight_gradient),
        factor(misaligned, p.misaligned),
    ];
    let free = [true, small, true, true, input, weight, misaligned];
    search(model, samples, &start, &free, |model, x| {
        let mut fitted = p.clone();
        (fitted.e_max, fitted.exponent, fitted.prologue_k) = (x[0].min(1.0), x[1].min(1.0), x[2].min(1024.0));
        fitted.start_us = x[3];
        (fitted.input_gradient, fitted.weight_gradient) = (x[4].min(1.5), x[5].min(1.5));
        fitted.misaligned = x[6].min(1.0);
        model.parameters.gemm.insert(first.shape.dtype, fitted);
    })
}

/// Fits one pass of flash attention; the start of the kernel is that of the model.
///
/// # Errors
/// When the model cannot time a sample.
pub fn attention(model: &KernelModel, samples: &[Sample<Attention>]) -> Result<KernelModel, KernelError> {
    let Some(first) = samples.first() else { return Ok(model.clone()) };
    search(model, samples, &[0.6, 0.5], &[true, true], |model, x| {
        let fitted = match first.shape.pass {
            Pass::Forward => &mut model.parameters.attention.forward,
            Pass::Backward => &mut model.parameters.attention.backward,
        };
        (fitted.e_max, fitted.tail) = (x[0].min(1.0), x[1].min(1.0));
    })
}

/// Fits the achieved fraction and the start of a class of streaming kernels.
///
/// # Errors
/// When the model cannot time a sample.
pub fn stream(model: &KernelModel, samples: &[Sample<Stream>]) -> Result<KernelModel, KernelError> {
    let Some(first) = samples.first() else { return Ok(model.clone()) };
    let p = model.parameters.stream(first.shape.class)?.clone();
    search(model, samples, &[0.8, 5.0], &[true, true], |model, x| {
        let mut fitted = p.clone();
        (fitted.achieved, fitted.start_us) = (x[0].min(1.0), x[1]);
        model.parameters.stream.insert(first.shape.class, fitted);
    })
}

/// Errors of a model on samples.
///
/// # Errors
/// When the model cannot time a sample.
pub fn errors<T: Kernel>(model: &KernelModel, samples: &[Sample<T>]) -> Result<Errors, KernelError> {
    let mut signed = Vec::with_capacity(samples.len());
    for sample in samples {
        signed.push(sample.shape.cost(model)?.alone().as_secs() / sample.seconds - 1.0);
    }
    Ok(Errors::of(&signed))
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
        let mean = |values: &[f64]| values.iter().sum::<f64>() / samples.max(1) as f64;
        Self { mean: mean(&absolute), median: at(0.5), p95: at(0.95), bias: mean(signed), samples }
    }
}

/// Quadratic up to here.
const KNEE: f64 = 0.2;

fn huber(residual: f64) -> f64 {
    let size = residual.abs();
    if size <= KNEE { size * size } else { KNEE * (2.0 * size - KNEE) }
}

/// Searches the `free` ones of the parameters that `set` writes into a model.
fn search<T: Kernel>(
    model: &KernelModel,
    samples: &[Sample<T>],
    start: &[f64],
    free: &[bool],
    set: impl Fn(&mut KernelModel, &[f64]),
) -> Result<KernelModel, KernelError> {
    for sample in samples {
        sample.shape.cost(model)?;
    }
    let searched: Vec<usize> = (0..start.len()).filter(|&i| free[i]).collect();
    let with = |logs: &[f64]| {
        let mut values = start.to_vec();
        for (&i, log) in searched.iter().zip(logs) {
            values[i] = log.exp();
        }
        let mut model = model.clone();
        set(&mut model, &values);
        model
    };
    let loss = |logs: &[f64]| {
        let model = with(logs);
        samples
            .iter()
            .map(|sample| {
                let predicted =
                    sample.shape.cost(&model).map_or(f64::INFINITY, |cost| cost.alone().as_secs());
                huber((predicted / sample.seconds).ln())
            })
            .sum::<f64>()
    };
    let logs: Vec<f64> = searched.iter().map(|&i| start[i].max(1e-6).ln()).collect();
    // Started again from its result, as a simplex may collapse on the way.
    let once = minimise(&logs, 0.2, &loss);
    Ok(with(&minimise(&once, 0.05, &loss)))
}

/// Steps of a search.
const STEPS: usize = 400;

/// The simplex search of Nelder and Mead with their coefficients 1, 2, 1/2, 1/2.
pub(crate) fn minimise(start: &[f64], edge: f64, f: &impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut simplex: Vec<(f64, Vec<f64>)> = vec![(f(start), start.to_vec())];
    for i in 0..start.len() {
        let mut corner = start.to_vec();
        corner[i] += edge;
        simplex.push((f(&corner), corner));
    }
    let last = start.len();
    for _ in 0..STEPS {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        let centre: Vec<f64> = (0..last)
            .map(|i| simplex[..last].iter().map(|corner| corner.1[i]).sum::<f64>() / last as f64)
            .collect();
        let along = |t: f64| {
            let point: Vec<f64> =
                centre.iter().zip(&simplex[last].1).map(|(c, worst)| c + t * (c - worst)).collect();
            (f(&point), point)
        };
        let reflected = along(1.0);
        if reflected.0 < simplex[0].0 {
            let expanded = along(2.0);
            simplex[last] = if expanded.0 < reflected.0 { expanded } else { reflected };
        } else if reflected.0 < simplex[last - 1].0 {
            simplex[last] = reflected;
        } else {
            let contracted = along(if reflected.0 < simplex[last].0 { 0.5 } else { -0.5 });
            if contracted.0 < simplex[last].0.min(reflected.0) {
                simplex[last] = contracted;
            } else {
                shrink(&mut simplex, f);
            }
        }
    }
    simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
    simplex.swap_remove(0).1
}

fn shrink(simplex: &mut [(f64, Vec<f64>)], f: &impl Fn(&[f64]) -> f64) {
    let best = simplex[0].1.clone();
    for corner in &mut simplex[1..] {
        for (x, b) in corner.1.iter_mut().zip(&best) {
            *x = b + 0.5 * (*x - b);
        }
        corner.0 = f(&corner.1);
    }
}
