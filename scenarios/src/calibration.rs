//! Constants of kernels from measured tables: those that come with foretrain, or a user's own.

use calibration::hardware::Hardware;
use calibration::{self, Calibrated, Errors, Measured, Sample, Table, TableError, fit};
use hw_models::kernels::KernelClass;
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::calibration::FitPoint;
use reports::summary::SCHEMA_VERSION;
use serde::Serialize;
use serde_json::Value;

use crate::catalogue;
use crate::run::{Progress, in_parallel};
pub use crate::validation::{kernel_table as embedded, kernel_tables as embedded_names};

/// What was found, in the order of the tables.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    schema_version: u32,
    version: String,
    /// The tables.
    tables: Vec<String>,
    /// By device and class of kernels.
    pub classes: Vec<Class>,
    /// What could not be fitted.
    pub left_out: Vec<LeftOut>,
    #[serde(skip)]
    found: Vec<Calibrated>,
    #[serde(skip)]
    measured: Vec<Measured>,
}

/// What was found for one class of kernels of one device.
#[derive(Clone, Debug, Serialize)]
pub struct Class {
    /// The device, by its name in the catalogue.
    pub device: String,
    /// The class.
    pub kernels: String,
    /// Where the measurements are from.
    pub sources: Vec<String>,
    /// The constants of its formula.
    pub constants: IndexMap<String, f64>,
    /// How many measured shapes correct the formula near them.
    pub corrections: usize,
    /// Errors on what was fitted.
    pub fitted: Errors,
    /// Errors on the quarter of the rows that nothing was fitted on.
    pub held_out: Errors,
    /// The same of the formula without corrections.
    pub formula_alone: Errors,
    /// The same of the catalogue's constants and corrections, with the start that explains the tables: what foretrain's own
    /// tables give again.
    pub catalogue: Errors,
}

/// Rows that were read and not fitted.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// The device, as the tables call it.
    pub device: String,
    /// The class.
    pub kernels: String,
    /// How many.
    pub rows: usize,
    /// Why.
    pub reason: String,
}

/// How to calibrate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Devices at a time; none: one per processor.
    pub jobs: Option<usize>,
    /// The version of foretrain.
    pub version: String,
}

/// Fits the constants of every class of kernels of every device in the tables. None if `progress` stopped it.
///
/// # Errors
/// All that is wrong with any of the tables.
pub fn calibrate(
    tables: &[Table],
    options: &Options,
    progress: &dyn Progress,
) -> Result<Option<Calibration>, Vec<TableError>> {
    let measured = calibration::measured(tables)?;
    progress.begin(measured.len() as u64);
    let mut devices: IndexMap<&str, Vec<&Measured>> = IndexMap::new();
    for set in &measured {
        devices.entry(&set.device).or_default().push(set);
    }
    // Grouped products are factors on single ones, in whichever table those are.
    for sets in devices.values_mut() {
        sets.sort_by_key(|set| matches!(set.class, KernelClass::Grouped(_)));
    }
    let devices: Vec<_> = devices.into_iter().collect();
    let of_devices = || devices.par_iter().map(|(device, sets)| of_device(device, sets, progress)).collect();
    let fitted: Option<Vec<_>> = in_parallel(options.jobs, of_devices);
    let Some(fitted) = fitted else { return Ok(None) };
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for one in fitted.into_iter().flatten() {
        match one {
            Ok(calibrated) => found.push(calibrated),
            Err(rows) => left_out.push(rows),
        }
    }
    Ok(Some(Calibration {
        schema_version: SCHEMA_VERSION,
        version: options.version.clone(),
        tables: tables.iter().map(|table| table.name.clone()).collect(),
        classes: found.iter().map(Class::of).collect(),
        left_out,
        found,
        measured,
    }))
}

/// None if it was stopped.
fn of_device(
    device: &str,
    sets: &[&Measured],
    progress: &dyn Progress,
) -> Option<Vec<Result<Calibrated, LeftOut>>> {
    let model = match catalogue::kernels_of(device) {
        Ok(model) => model,
        Err(reason) => return Some(sets.iter().map(|set| Err(LeftOut::of(set, &reason))).collect()),
    };
    let mut fits = fit(sets.iter().copied(), |_| Some(model.clone()));
    let one = |set: &&Measured| {
        if progress.stop() {
            return None;
        }
        let found = fits.next()?.map_err(|error| LeftOut::of(set, &error.to_string()));
        progress.done();
        Some(found)
    };
    sets.iter().map(one).collect()
}

impl Calibration {
    /// A hardware file for every device, as of a date.
    pub fn hardware(&self, date: &str) -> impl Iterator<Item = Hardware> {
        let mut devices: Vec<&str> = self.found.iter().map(|one| one.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        devices.into_iter().map(|device| Hardware::of_tables(device, &self.found, &self.version, date))
    }

    /// The rows that a class of kernels of a device was fitted to and judged by.
    pub fn beside(&self, device: &str, kernels: &str) -> Vec<FitPoint> {
        let is_it = |of: &str, class: KernelClass| of == device && class.to_string() == kernels;
        let Some(found) = self.found.iter().find(|one| is_it(&one.device, one.class)) else {
            return Vec::new();
        };
        let row = |sample: &Sample| {
            Some(FitPoint {
                task: sample.shape.to_string(),
                measured_s: sample.seconds,
                predicted_s: sample.shape.cost(&found.model).ok()?.alone().as_secs(),
                held_out: sample.held_out(),
                unstable: false,
            })
        };
        let sets = self.measured.iter().filter(|set| is_it(&set.device, set.class));
        sets.flat_map(|set| &set.samples).filter_map(row).collect()
    }
}

impl Class {
    fn of(found: &Calibrated) -> Self {
        let corrections = found.model.parameters.corrections.get(&found.class);
        Self {
            device: found.device.clone(),
            kernels: found.class.to_string(),
            sources: found.sources.clone(),
            constants: constants(found),
            corrections: corrections.map_or(0, |corrections| corrections.anchors.len()),
            fitted: found.fitted,
            held_out: found.held_out,
            formula_alone: found.uncorrected,
            catalogue: found.before,
        }
    }
}

/// The numbers among the constants, by their names in the catalogue.
fn constants(found: &Calibrated) -> IndexMap<String, f64> {
    let written = found.constants().ok().and_then(|constants| serde_json::to_value(constants).ok());
    let Some(Value::Object(fields)) = written else { return IndexMap::new() };
    fields.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

impl LeftOut {
    fn of(set: &Measured, reason: &str) -> Self {
        let (device, kernels) = (set.device.clone(), set.class.to_string());
        Self { device, kernels, rows: set.samples.len(), reason: reason.to_owned() }
    }
}
