//! Constants of kernels from the records of a GPU, by the fit that tables of others' measurements go through.
//!
//! Kernels are timed as differences of graphs, or in batches of milliseconds, so that unlike there
//! the start of one is found too: no launch is in it. The gap between two of them is, and is found
//! apart: a simulated step adds it to every kernel, so that it must not count as their start. What
//! products hold that follow each other without end is that of the sustained one.

use super::hardware::rounded;
use super::measure::timing::IN_GRAPHS;
use super::measure::{Beside, Data, Heading, Phase, Record, Sustained, Task, Work};
use super::{Calibrated, FoundKernels, Measured, Sample, fit, interference};
use hw_models::kernels::{Gemm, KernelClass, KernelModel, StreamClass};
use hw_models::provenance::Origin;

/// Gap between two kernels that follow each other (s).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    /// Gap in a graph.
    pub(super) graph: f64,
    /// Gap in a stream.
    pub(super) stream: f64,
}

/// Fits the kernels among records, from the constants of `gpu`, which `model` has; none if there are none that it can time.
pub(super) fn fitted(
    heading: &Heading,
    records: &[Record],
    gpu: &str,
    model: &KernelModel,
    gaps: Gaps,
) -> Option<FoundKernels> {
    let measured = measured(heading, records, gpu, model, gaps);
    let mut found: Vec<Calibrated> = fit(&measured, |_| Some(model.clone())).flatten().collect();
    let held = product_held(records);
    found.iter_mut().for_each(|one| take_over(one, held));
    let mut kernels = FoundKernels::of(gpu, &found);
    kernels.constants.persistent = found.last().and_then(|one| are_persistent(&one.model, records));
    for (name, judged) in &mut kernels.classes {
        let of_class = |record: &&Record| class(record).is_some_and(|class| class.to_string() == *name);
        let of_class: Vec<&Record> = records.iter().filter(of_class).collect();
        judged.unstable = of_class.iter().filter(|record| record.is_unstable()).count();
        judged.refused = of_class.iter().filter(|record| !record.is_sound()).count();
    }
    (!found.is_empty()).then_some(kernels)
}

/// Starts that were fitted, where the constants come from, and what products hold: `held` is one and
/// its time (s), which has the memory that arithmetic does not hide, too.
fn take_over(one: &mut Calibrated, held: Option<(Gemm, f64)>) {
    let Calibrated { class, model, kernels, .. } = one;
    let parameters = &model.parameters;
    for (dtype, gemm) in kernels.gemm.iter_mut().chain(&mut kernels.batched) {
        let fitted = match class {
            KernelClass::Batched(_) => parameters.batched(*dtype),
            _ => parameters.gemm(*dtype),
        };
        gemm.start_us = fitted.map_or(gemm.start_us, |fitted| fitted.start_us);
        gemm.provenance.origin = Origin::MeasuredHere;
        if let Some((product, seconds)) = held.filter(|(product, _)| product.dtype == *dtype)
            && let (Ok(peak), Ok(passes)) = (model.peak(*dtype), parameters.stream(StreamClass::Elementwise))
        {
            let memory = product.bytes() as f64 / (model.facts.hbm_bytes_per_s * passes.achieved);
            let rate = product.flops() / (seconds - gemm.serial * memory);
            gemm.continuous = Some(rounded(rate / peak));
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
fn measured(
    heading: &Heading,
    records: &[Record],
    gpu: &str,
    model: &KernelModel,
    gaps: Gaps,
) -> Vec<Measured> {
    let source = format!("{}, driver {}, {}", heading.device.name, heading.device.driver, heading.date);
    let mut sets: Vec<Measured> = Vec::new();
    for (at, record) in records.iter().enumerate().filter(|(_, record)| record.is_sound()) {
        let Some(shape) = record.of.kernel().filter(|shape| shape.cost(model).is_ok()) else { continue };
        let sample = Sample::new(shape, gaps.without(record), record.hash(), at as u64 + 1);
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

impl Gaps {
    /// Time of a kernel by its record, without the gap before it (s): half of the record at least.
    fn without(self, record: &Record) -> f64 {
        let gap = if record.executions < IN_GRAPHS { self.stream } else { self.graph };
        (record.seconds() - gap).max(0.5 * record.seconds())
    }
}

fn class(record: &Record) -> Option<KernelClass> {
    record.of.kernel().map(|shape| shape.class())
}

/// True if products are persistent, by what comes closer to how much longer they take beside blocks
/// that hold SMs; `None` if that was not timed.
fn are_persistent(model: &KernelModel, records: &[Record]) -> Option<bool> {
    let beside = interference::measured(records).filter_map(|(task, times)| match task {
        Beside { timed: Work::Product(product), meanwhile: Work::Hold(blocks) } => {
            Some((product, blocks, times))
        }
        _ => None,
    });
    let beside: Vec<(Gemm, u32, f64)> = beside.collect();
    let off = |persistent: bool| {
        let mut model = model.clone();
        model.parameters.persistent = persistent;
        let off = |&(product, blocks, measured): &(Gemm, u32, f64)| {
            let cost = model.gemm(&product).ok()?;
            let left = model.facts.sms.saturating_sub(blocks);
            Some((cost.on(left).as_secs() / cost.alone().as_secs() - measured).abs())
        };
        beside.iter().filter_map(off).sum::<f64>()
    };
    (!beside.is_empty()).then(|| off(true) < off(false))
}

/// The product that the board holds without end, and its time (s).
fn product_held(records: &[Record]) -> Option<(Gemm, f64)> {
    let (product, record) = held(records, |work| work.square().copied())?;
    Some((product, record.seconds()))
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
