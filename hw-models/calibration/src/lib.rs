//! Constants of kernels from measured tables, by code: what is committed in `catalogue/kernels.yaml` and
//! `catalogue/corrections.csv` follows from `measurements/kernels` through [`fit`].
//!
//! Rows of a table are split by their inputs ([`split`]): a quarter judges, nothing is fitted on it. The others are fitted:
//! first the parameters of the formula, by relative least squares over at most [`MOST`] of a device and class, evenly
//! spread over the tables, then the corrections near all of them, by a Gaussian process over what is left. Errors are those
//! of the model as it judges: corrected near measured shapes, no shape overridden by its own measurement.
//!
//! The start of kernels that were timed by events on the host contains the launch path and is no constant of the device:
//! it is fitted with the rest, as the table cannot be explained without, but `kernels.yaml` does not take it over.
//!
//! A table of copies that start after 7 us and reach 60 % of a T4's memory:
//!
//! ```
//! use calibration::Table;
//! use hw_models::catalogue::Catalogue;
//! use hw_models::kernels::{GpuFacts, KERNELS, KernelCatalogue, KernelModel, StreamClass};
//!
//! let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str)?;
//! let kernels: KernelCatalogue = serde_yaml::from_str(KERNELS)?;
//! let gpu = &catalogue.gpus["t4"];
//! let t4 = KernelModel::new(GpuFacts::of(gpu, 1.0), kernels.parameters("t4", &gpu.architecture)?);
//!
//! let mut text = String::from("# source: made up\ngpu,op,rows,cols,latency_ms\n");
//! for rows in [60, 100, 200, 300, 600, 1000, 2000, 3000] {
//!     let seconds = 7e-6 + f64::from(rows * 8192 * 8) / (0.6 * t4.facts.hbm_bytes_per_s);
//!     text += &format!("t4,relu,{rows},8192,{}\n", 1e3 * seconds);
//! }
//! let table = Table::read("mine.csv", text.as_bytes())?;
//! let measured = calibration::measured(&[table]).expect("columns of a known table");
//! let found = calibration::fit(&measured, |_| Some(t4.clone())).next().expect("one class")?;
//! let copies = found.model.parameters.stream(StreamClass::Elementwise).expect("fitted");
//! assert!((copies.achieved - 0.6).abs() < 0.01 && (copies.start_us - 7.0).abs() < 0.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod constants;
#[cfg(feature = "devices")]
pub mod devices;
pub mod estimate;
mod formats;
mod found_collectives;
mod found_kernels;
mod gathers;
mod gaussian;
mod growth;
pub mod hardware;
pub mod interference;
mod kernels;
pub mod laws;
pub mod measure;
mod offsets;
pub mod overlay;
mod power;
mod recorded_kernels;
pub mod split;
mod table;
mod tiles;

use std::collections::BTreeMap;

use gaussian::Unexplained;
use hw_models::kernels::{Anchor, Correct, DeviceKernels, KernelClass, KernelError, KernelModel};
use hw_models::provenance::{Confidence, Origin, Provenance};

pub use constants::{Constants, corrections, devices};
pub use formats::{Measured, measured};
pub use found_collectives::{FoundCollectives, FoundTable};
pub use found_kernels::{FoundClass, FoundKernels};
pub use gathers::Gather;
pub use growth::Growth;
pub use hw_models::errors::Errors;
pub use kernels::{KernelShape, Sample};
pub use offsets::{Offset, offsets, spreads};
pub use table::{Row, Table, TableError};
pub use tiles::{
    EpilogueSample, ImageSample, SpaceFigures, TileSample, clblast, divide, epilogues, fit_tiles,
    image_convolutions, space_figures, triton,
};

/// Most rows of a device and class that parameters, of a formula or a covariance, are fitted to.
pub const MOST: usize = 200;

/// Least share of the formula's time that the blocks of a kernel are taken to have.
const LEAST: f64 = 0.25;

/// What was found for one class of kernels of one device.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The device, by its name in the catalogue.
    pub device: String,
    /// The class of kernels.
    pub class: KernelClass,
    /// Where the measurements are from: the `# source:` lines of their tables.
    pub sources: Vec<String>,
    /// The model with the parameters and corrections found.
    pub model: KernelModel,
    /// What of the catalogue they replace.
    pub kernels: DeviceKernels,
    /// Errors on what was fitted.
    pub fitted: Errors,
    /// Errors on the test quarter.
    pub held_out: Errors,
    /// Errors of the formula alone on the test quarter.
    pub uncorrected: Errors,
    /// Errors of what was known before on the test quarter: constants and corrections of the model that the fit began with, but
    /// the start that explains the table.
    pub before: Errors,
    /// `ln(predicted / measured)` of rows that nothing was fitted on: the test quarter, or where that has fewer than two,
    /// every row by a fit to all others.
    pub unseen: Vec<f64>,
    /// Growth of launches, which the errors are without.
    pub growth: Growth,
}

/// Fits every class of kernels of every device that the tables measured, one after the other as the iterator is asked,
/// in the order of the tables. `model_of` gives the model of a device to start from; a device it does not know is left
/// out. What was found for one class holds for the next ones of the device: grouped products are factors on single ones.
///
/// # Errors
/// An item where a model cannot time a kernel that was measured on its device.
pub fn fit<'a>(
    measured: impl IntoIterator<Item = &'a Measured>,
    model_of: impl Fn(&str) -> Option<KernelModel>,
) -> impl Iterator<Item = Result<Calibrated, KernelError>> {
    let mut models: BTreeMap<&str, KernelModel> = BTreeMap::new();
    measured.into_iter().filter_map(move |set| {
        if !models.contains_key(&*set.device) {
            models.insert(&set.device, model_of(&set.device)?);
        }
        let model = models.get_mut(&*set.device)?;
        Some(calibrated(set, model).inspect(|found| model.parameters.replace(found.kernels.clone())))
    })
}

fn calibrated(set: &Measured, known: &KernelModel) -> Result<Calibrated, KernelError> {
    let fits: Vec<Sample> = set.samples.iter().copied().filter(|sample| !sample.held_out()).collect();
    let growth = Growth::of(&fits, &known.clone().correcting(Correct::Never));
    let samples = set.samples.iter().map(|sample| sample.without(growth));
    let (held_out, others): (Vec<Sample>, Vec<Sample>) = samples.partition(Sample::held_out);
    let (formula, model) = fitted(known, set.class, &others)?;
    let [in_fit, on_others] = [&others, &held_out].map(|samples| kernels::errors(&model, samples));
    let (in_fit, on_others) = (in_fit?, on_others?);
    let source = format!("{}; fitted {in_fit}; held out {on_others}", set.sources.join("; "));
    let provenance = Provenance { origin: Origin::MeasuredElsewhere, source, confidence: Confidence::Medium };
    Ok(Calibrated {
        device: set.device.clone(),
        class: set.class,
        sources: set.sources.clone(),
        kernels: constants::replacing(known, &model, set.class, provenance)?,
        fitted: in_fit,
        held_out: on_others,
        uncorrected: kernels::errors(&formula, &held_out)?,
        before: kernels::errors(&before(known, &model, set.class)?, &held_out)?,
        unseen: unseen(set, known, &model, &held_out)?,
        growth,
        model,
    })
}

/// What was known of a class, with the start that was found.
fn before(known: &KernelModel, found: &KernelModel, class: KernelClass) -> Result<KernelModel, KernelError> {
    let mut model = known.clone().correcting(Correct::Near);
    model.parameters.replace(constants::replacing(found, known, class, Provenance::written())?);
    Ok(model)
}

/// The formula with the parameters that fit samples of a class best, and with what it leaves corrected near them.
fn fitted(
    known: &KernelModel,
    class: KernelClass,
    samples: &[Sample],
) -> Result<(KernelModel, KernelModel), KernelError> {
    let step = samples.len().div_ceil(MOST).max(1);
    let some: Vec<Sample> = samples.iter().copied().step_by(step).collect();
    let formula = kernels::fit(&known.clone().correcting(Correct::Never), &some)?;
    let mut model = formula.clone().correcting(Correct::Near);
    let corrections = gaussian::corrections(&unexplained(&formula, samples)?, step);
    if corrections.anchors.is_empty() {
        model.parameters.corrections.remove(&class);
    } else {
        model.parameters.corrections.insert(class, corrections);
    }
    Ok((formula, model))
}

/// Errors of [`Calibrated::unseen`], where `model` is fitted to all but the test quarter.
fn unseen(
    set: &Measured,
    known: &KernelModel,
    model: &KernelModel,
    held_out: &[Sample],
) -> Result<Vec<f64>, KernelError> {
    if held_out.len() >= 2 {
        return held_out.iter().map(|sample| sample.log_error(model)).collect();
    }
    let one_by_one = (0..set.samples.len()).map(|at| {
        let mut others = set.samples.clone();
        let judging = others.remove(at);
        judging.log_error(&fitted(known, set.class, &others)?.1)
    });
    one_by_one.collect()
}

/// What a formula leaves unexplained of samples.
fn unexplained(formula: &KernelModel, samples: &[Sample]) -> Result<Vec<Unexplained>, KernelError> {
    let mut rows = Vec::with_capacity(samples.len());
    for sample in samples {
        let Some(shape) = sample.shape.among_measured() else { continue };
        let cost = sample.shape.cost(formula)?;
        let (start, of_blocks) = (cost.fixed.as_secs(), cost.of_blocks());
        // What was measured may be under the start.
        let measured = (sample.seconds - start).max(LEAST * of_blocks);
        let place = shape.place(sample.shape.class());
        let anchor = Anchor { shape, place, log_ratio: (measured / of_blocks).ln(), weight: 0.0 };
        rows.push(Unexplained { anchor, diluted: (start + of_blocks) / of_blocks });
    }
    Ok(rows)
}
