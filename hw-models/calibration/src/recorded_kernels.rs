//! Constants of kernels from the records of a GPU, by the fit that tables of others' measurements go through.
//!
//! Kernels are timed as differences of graphs, or in batches of milliseconds, so that unlike there the start of one is
//! found too: no launch is in it. What products hold that follow each other without end is that of the sustained one.

use super::hardware::rounded;
use super::measure::{Data, Heading, Phase, Record, Sustained, Task, Work};
use super::{Calibrated, FoundKernels, Measured, Sample, fit};
use hw_models::kernels::{Dtype, KernelClass, KernelModel};
use hw_models::provenance::Origin;

/// Fits the kernels among records, from the constants of `gpu`, which `model` has; none if there are none that it can time.
pub(super) fn fitted(
    heading: &Heading,
    records: &[Record],
    gpu: &str,
    model: &KernelModel,
) -> Option<FoundKernels> {
    let measured = measured(heading, records, gpu, model);
    let mut found: Vec<Calibrated> = fit(&measured, |_| Some(model.clone())).flatten().collect();
    let rate = rate_held(records);
    found.iter_mut().for_each(|one| take_over(one, rate));
    let mut kernels = FoundKernels::of(gpu, &found);
    for (name, judged) in &mut kernels.classes {
        let of_class = |record: &&Record| class(record).is_some_and(|class| class.to_string() == *name);
        let of_class: Vec<&Record> = records.iter().filter(of_class).collect();
        judged.unstable = of_class.iter().filter(|record| record.is_unstable()).count();
        judged.refused = of_class.iter().filter(|record| !record.is_sound()).count();
    }
    (!found.is_empty()).then_some(kernels)
}

/// Starts that were fitted, where the constants come from, and what products `held`, of a type.
fn take_over(one: &mut Calibrated, held: Option<(Dtype, f64)>) {
    let Calibrated { class, model, kernels, .. } = one;
    let parameters = &model.parameters;
    for (dtype, gemm) in kernels.gemm.iter_mut().chain(&mut kernels.batched) {
        let fitted = match class {
            KernelClass::Batched(_) => parameters.batched(*dtype),
            _ => parameters.gemm(*dtype),
        };
        gemm.start_us = fitted.map_or(gemm.start_us, |fitted| fitted.start_us);
        gemm.provenance.origin = Origin::MeasuredHere;
        if let (Some((of, rate)), Ok(peak)) = (held, model.peak(*dtype)) {
            gemm.continuous = if of == *dtype { Some(rounded(rate / peak)) } else { gemm.continuous };
        }
    }
    for (class, stream) in &mut kernels.stream {
        stream.start_us = parameters.stream(*class).map_or(stream.start_us, |fitted| fitted.start_us);
        stream.provenance.origin = Origin::MeasuredHere;
    }
    if let Some(attention) = &mut kernels.attention {
        attention.provenance.origin = Origin::MeasuredHere;
    }
    if let Some(grouped) = &mut kernels.grouped {
        grouped.provenance.origin = Origin::MeasuredHere;
    }
}

/// Sound records of kernels as a table of measurements, by class.
fn measured(heading: &Heading, records: &[Record], gpu: &str, model: &KernelModel) -> Vec<Measured> {
    let source = format!("{}, driver {}, {}", heading.device.name, heading.device.driver, heading.date);
    let mut sets: Vec<Measured> = Vec::new();
    for (at, record) in records.iter().enumerate().filter(|(_, record)| record.is_sound()) {
        let Some(shape) = record.of.kernel().filter(|shape| shape.cost(model).is_ok()) else { continue };
        let sample = Sample::new(shape, record.seconds(), record.hash(), at as u64 + 1);
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
    // What was found of passes holds for attention, whose tensors come as fast as theirs.
    sets.sort_by_key(|set| !matches!(set.class, KernelClass::Stream(_)));
    sets
}

fn class(record: &Record) -> Option<KernelClass> {
    record.of.kernel().map(|shape| shape.class())
}

/// Products that the board holds without end: their type and rate (FLOP/s).
fn rate_held(records: &[Record]) -> Option<(Dtype, f64)> {
    let (product, record) = held(records, |work| work.square().copied())?;
    Some((product.dtype, product.flops() / record.seconds()))
}

/// The first sound record of a load of random numbers that was held, of work that `of` takes.
pub(super) fn held<T>(records: &[Record], of: impl Fn(Work) -> Option<T>) -> Option<(T, &Record)> {
    records.iter().filter(|record| record.is_sound()).find_map(|record| match record.of {
        Task::Sustained(Sustained { work, data: Data::Random, phase: Phase::Held }) => {
            Some((of(work)?, record))
        }
        _ => None,
    })
}
