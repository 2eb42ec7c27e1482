//! The page of a calibration.

use hw_models::calibration::estimate::{Beside, beside};
use hw_models::calibration::hardware::{Found, Hardware};
use hw_models::calibration::laws::laws;
use hw_models::calibration::measure::{Record, Task};
use hw_models::calibration::{FoundClass, KernelShape};
use hw_models::kernels::{Correct, KernelModel};
use reports::calibration::{self, Calibration, Constant, FitPoint, Law};

use scenarios::catalogue::kernels_of;
use scenarios::hardware::kernel_constants;

use crate::cli::output::{REPORT, page};
use crate::cli::trouble::Trouble;

/// The page, as bytes.
///
/// # Errors
/// A plot that cannot be drawn.
pub(super) fn of(hardware: &Hardware, records: &[Record]) -> Result<Vec<u8>, Trouble> {
    let known = laws().filter_map(|law| Some((law, hardware.laws.get(law.name)?)));
    let calibration = Calibration {
        version: hardware.foretrain.clone(),
        device: hardware.device.name.clone(),
        driver: hardware.device.driver.clone(),
        facts: hardware.device.facts.clone(),
        date: hardware.date.clone(),
        drift: hardware.drift,
        steady: hardware.steady,
        laws: known
            .map(|(law, found)| of_law(law, found, records))
            .chain(of_kernels(hardware, records))
            .collect(),
    };
    page(REPORT, |out| calibration::html(out, &calibration))
}

/// Classes of kernels that were timed: they are laws with corrections near measured shapes.
fn of_kernels(hardware: &Hardware, records: &[Record]) -> Vec<Law> {
    let (Some(kernels), Some(gpu)) = (&hardware.kernels, &hardware.gpu) else { return Vec::new() };
    let Some(model) = model(hardware, gpu) else { return Vec::new() };
    let constants = kernel_constants(hardware);
    let of_class = |(name, found): (&String, &FoundClass)| {
        let point = |record: &Record| {
            let Task::Product(product) = record.of else { return None };
            let shape = KernelShape::Gemm(product);
            (record.is_sound() && shape.class().to_string() == *name).then_some(())?;
            Some(FitPoint {
                task: record.of.to_string(),
                measured_s: record.seconds(),
                predicted_s: shape.cost(&model).ok()?.alone().as_secs(),
                held_out: record.judges(),
                unstable: record.is_unstable(),
            })
        };
        // Constants of `gemm-bf16` are called `gemm.bf16.e_max`.
        let beginning = name.replacen('-', ".", 1) + ".";
        let own = constants
            .iter()
            .filter_map(|(constant, value)| Some((constant.strip_prefix(&beginning)?, value)));
        Law {
            name: name.clone(),
            method: format!(
                "relative least squares, corrected near measured shapes; held out {}",
                found.held_out
            ),
            constants: own
                .map(|(name, &value)| Constant {
                    name: name.to_owned(),
                    value,
                    told: true,
                    ..Constant::default()
                })
                .collect(),
            points: records.iter().filter_map(point).collect(),
            refused: found.refused,
        }
    };
    kernels.classes.iter().map(of_class).collect()
}

/// The kernels of a GPU as they were judged.
fn model(hardware: &Hardware, gpu: &str) -> Option<KernelModel> {
    let mut model = kernels_of(gpu).ok()?.correcting(Correct::Near);
    let kernels = hardware.kernels.as_ref()?;
    model.parameters.replace(kernels.constants.clone());
    model.parameters.corrections.extend(kernels.corrections(gpu).ok()?);
    Some(model)
}

fn of_law(law: &hw_models::calibration::laws::Law, found: &Found, records: &[Record]) -> Law {
    let values: Vec<f64> = found.constants.values().map(|constant| constant.value).collect();
    let constants = found.constants.iter().map(|(name, constant)| Constant {
        name: name.clone(),
        value: constant.value,
        unit: constant.unit.symbol().to_owned(),
        error: constant.error,
        told: constant.told,
    });
    let point = |Beside { record, seconds, held_out }: Beside<'_>| FitPoint {
        task: record.of.to_string(),
        measured_s: record.seconds(),
        predicted_s: seconds,
        held_out,
        unstable: record.is_unstable(),
    };
    let points = beside(law, &values, records, found.held_out.samples > 0);
    Law {
        name: law.name.to_owned(),
        method: found.method.clone(),
        constants: constants.collect(),
        points: points.into_iter().map(point).collect(),
        refused: found.refused,
    }
}
