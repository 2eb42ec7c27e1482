//! How far kernels are off as a class and one by one, with constants of their own device and with those of another.
//!
//! A step adds up many kernels, in which errors of single shapes cancel, but not what all shapes of a class share. So the
//! logarithms of `predicted / measured` are taken apart: their mean is the bias of the class, their deviation around it the
//! scatter of shapes. With its own constants a device is judged on rows that nothing was fitted on. Others are tried on all
//! its rows, as none of them was fitted on those: how far they are off is what a device without a table must expect. Only
//! the start that explains a table stays, as it is a property of the way it was timed.

use super::{Calibrated, Measured, constants};
use hw_models::kernels::{KernelClass, KernelError, KernelModel, SPREADS_HEADER};
use hw_models::provenance::Provenance;

/// Errors of a class of kernels on a device with constants of one, in logarithms of `predicted / measured`.
#[derive(Clone, Debug, PartialEq)]
pub struct Offset {
    /// The device that was measured, by its name in the catalogue.
    pub device: String,
    /// The class of kernels.
    pub class: KernelClass,
    /// The device whose constants predict.
    pub constants: String,
    /// Measurements that nothing was fitted on.
    pub rows: usize,
    /// The mean.
    pub bias: f64,
    /// The standard deviation around it.
    pub scatter: f64,
}

/// The offsets of all pairs of devices of which two rows of a class or more were measured, in the order found.
///
/// # Errors
/// Where a model cannot time a kernel that was measured on its device.
pub fn offsets(measured: &[Measured], found: &[Calibrated]) -> Result<Vec<Offset>, KernelError> {
    let mut offsets = Vec::new();
    for on in found {
        for from in found.iter().filter(|from| from.class == on.class) {
            let errors =
                if from.device == on.device { on.unseen.clone() } else { carried(measured, on, from)? };
            let [rows, one_less] = [errors.len(), errors.len().saturating_sub(1)];
            if one_less == 0 {
                continue;
            }
            let bias = errors.iter().sum::<f64>() / rows as f64;
            let squares: f64 = errors.iter().map(|error| (error - bias).powi(2)).sum();
            let scatter = (squares / one_less as f64).sqrt();
            let (device, constants) = (on.device.clone(), from.device.clone());
            offsets.push(Offset { device, class: on.class, constants, rows, bias, scatter });
        }
    }
    Ok(offsets)
}

/// Errors on a device with another's constants of the class.
fn carried(measured: &[Measured], on: &Calibrated, from: &Calibrated) -> Result<Vec<f64>, KernelError> {
    let mut model: KernelModel = on.model.clone();
    model.parameters.replace(constants::replacing(&on.model, &from.model, on.class, Provenance::written())?);
    model.parameters.corrections.remove(&on.class);
    let sets = measured.iter().filter(|set| set.device == on.device && set.class == on.class);
    sets.flat_map(|set| &set.samples).map(|sample| sample.without(on.growth).log_error(&model)).collect()
}

/// The table of offsets, as the catalogue has it.
pub fn spreads(offsets: &[Offset]) -> String {
    let row = |Offset { device, class, constants, rows, bias, scatter }: &Offset| {
        format!("{device},{class},{constants},{rows},{bias:.3},{scatter:.3}")
    };
    std::iter::once(SPREADS_HEADER.to_owned()).chain(offsets.iter().map(row)).map(|row| row + "\n").collect()
}
