//! Constants of matrix products from the records of a GPU, by the fit that tables of others' measurements go through.
//!
//! Products are timed as differences of graphs, or in batches of milliseconds, so that unlike there the start of a kernel is
//! found too: no launch is in it. What products hold that follow each other without end is that of the sustained one.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::errors::Errors;
use super::hardware::rounded;
use super::measure::{Data, Heading, Phase, Record, Sustained, Task};
use super::{KernelShape, Measured, Sample, corrections, fit, split};
use crate::kernels::{DeviceKernels, Dtype, KernelClass, KernelModel};
use crate::provenance::Origin;

/// What records tell of a GPU's matrix products.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// The GPU of the catalogue whose constants the fit began with.
    pub gpu: String,
    /// Constants, as the catalogue has them for a device.
    pub kernels: DeviceKernels,
    /// What measured shapes add, as `corrections.csv` of the catalogue has it.
    pub corrections: String,
    /// By class of kernels.
    pub classes: IndexMap<String, Judged>,
}

/// How well a class is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// Errors on what was fitted.
    pub fitted: Errors,
    /// Errors on the quarter that nothing was fitted to.
    pub held_out: Errors,
    /// Errors of the formula alone on that quarter.
    pub formula_alone: Errors,
    /// Records that scatter by more than samples should, or of a device that was changing.
    pub unstable: usize,
    /// Records of a device that was held back: none was used.
    pub refused: usize,
}

impl Products {
    /// Fits the products among records, from the constants of `gpu`, which `model` has; none if there are none that it can time.
    pub fn of(heading: &Heading, records: &[Record], gpu: &str, model: &KernelModel) -> Option<Self> {
        let measured = measured(heading, records, gpu, model);
        let mut found = Vec::new();
        let held = held(records);
        for one in fit(&measured, |_| Some(model.clone())).flatten() {
            let mut one = one;
            for (dtype, gemm) in one.kernels.gemm.iter_mut().chain(&mut one.kernels.batched) {
                let parameters = &one.model.parameters;
                let fitted = match one.class {
                    KernelClass::Batched(_) => parameters.batched(*dtype),
                    _ => parameters.gemm(*dtype),
                };
                gemm.start_us = fitted.map_or(gemm.start_us, |fitted| fitted.start_us);
                gemm.provenance.origin = Origin::MeasuredHere;
                if let (Some((of, rate)), Ok(peak)) = (held, model.peak(*dtype)) {
                    gemm.continuous = if of == *dtype { Some(rounded(rate / peak)) } else { gemm.continuous };
                }
            }
            found.push(one);
        }
        let mut kernels = DeviceKernels::default();
        found.iter().for_each(|one| kernels.replace(one.kernels.clone()));
        let classes = found.iter().map(|one| {
            let of_class = records.iter().filter(|record| class(record) == Some(one.class));
            let count =
                |wanted: fn(&Record) -> bool| of_class.clone().filter(|record| wanted(record)).count();
            let judged = Judged {
                fitted: one.fitted,
                held_out: one.held_out,
                formula_alone: one.uncorrected,
                unstable: count(Record::is_unstable),
                refused: count(|record| !record.is_sound()),
            };
            (one.class.to_string(), judged)
        });
        let classes: IndexMap<String, Judged> = classes.collect();
        let products = Self { gpu: gpu.to_owned(), kernels, corrections: corrections(&found), classes };
        (!found.is_empty()).then_some(products)
    }
}

/// Sound records of products as a table of measurements, by class.
fn measured(heading: &Heading, records: &[Record], gpu: &str, model: &KernelModel) -> Vec<Measured> {
    let source = format!("{}, driver {}, {}", heading.device.name, heading.device.driver, heading.date);
    let mut sets: Vec<Measured> = Vec::new();
    for (at, record) in records.iter().enumerate().filter(|(_, record)| record.is_sound()) {
        let Task::Product(product) = record.of else { continue };
        let shape = KernelShape::Gemm(product);
        if shape.cost(model).is_err() {
            continue;
        }
        let hash = split::hash(&[record.of.to_string()]);
        let sample = Sample { shape, seconds: record.seconds(), hash, line: at as u64 + 1 };
        let class = shape.class();
        match sets.iter_mut().find(|set| set.class == class) {
            Some(set) => set.samples.push(sample),
            None => sets.push(Measured {
                device: gpu.to_owned(),
                class,
                sources: vec![source.clone()],
                samples: vec![sample],
            }),
        }
    }
    sets
}

fn class(record: &Record) -> Option<KernelClass> {
    match record.of {
        Task::Product(product) => Some(KernelShape::Gemm(product).class()),
        _ => None,
    }
}

/// What the board holds of products that follow each other without end: their type and rate (FLOP/s).
fn held(records: &[Record]) -> Option<(Dtype, f64)> {
    records.iter().filter(|record| record.is_sound()).find_map(|record| match record.of {
        Task::Sustained(Sustained { product, data: Data::Random, phase: Phase::Held }) => {
            Some((product.dtype, product.flops() / record.seconds()))
        }
        _ => None,
    })
}
