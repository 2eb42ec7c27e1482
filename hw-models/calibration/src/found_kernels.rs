//! Kernels of a GPU in a hardware file: constants and corrections as the catalogue has them, and their errors by class.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Calibrated, Errors, constants};
use hw_models::kernels::{Corrections, DeviceKernels, KernelClass, KernelError};

/// What was found for the kernels of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundKernels {
    /// By class of kernels, `gemm-bf16`.
    pub classes: IndexMap<String, FoundClass>,
    /// Constants of the formulas.
    pub constants: DeviceKernels,
    /// Corrections near measured shapes, as a table: see [`CORRECTIONS_HEADER`](hw_models::kernels::CORRECTIONS_HEADER).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub corrections: String,
}

/// How well a class of kernels is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundClass {
    /// Where the measurements are from.
    pub sources: Vec<String>,
    /// Errors on what was fitted.
    pub fitted: Errors,
    /// Errors on the quarter that nothing was fitted to.
    pub held_out: Errors,
    /// Errors of the formula alone on that quarter.
    pub formula_alone: Errors,
    /// Errors on that quarter of what was known before, the catalogue's constants and corrections, but the start that explains
    /// the measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<Errors>,
    /// Records that scatter by more than samples should, or of a device that was changing.
    #[serde(default)]
    pub unstable: usize,
    /// Records of a device that was held back: none was used.
    #[serde(default)]
    pub refused: usize,
}

impl FoundKernels {
    /// What was found of one GPU.
    pub fn of(gpu: &str, found: &[Calibrated]) -> Self {
        let own: Vec<Calibrated> = found.iter().filter(|one| one.device == gpu).cloned().collect();
        let class = |one: &Calibrated| {
            let Calibrated { sources, fitted, held_out, uncorrected: formula_alone, before, .. } =
                one.clone();
            let catalogue = Some(before);
            let (unstable, refused) = (0, 0);
            let found = FoundClass { sources, fitted, held_out, formula_alone, catalogue, unstable, refused };
            (one.class.to_string(), found)
        };
        Self {
            classes: own.iter().map(class).collect(),
            constants: constants::devices(&own).swap_remove(gpu).unwrap_or_default(),
            corrections: constants::corrections(&own),
        }
    }

    /// What measured shapes add on this GPU, by class; a class of which no shape adds anything has no anchors.
    ///
    /// # Errors
    /// A class that there is not, or a row that is not as the header says, in words.
    pub fn corrections(&self, gpu: &str) -> Result<BTreeMap<KernelClass, Corrections>, String> {
        let unknown = |name: &String| format!("there are no kernels of class `{name}`");
        let class = |name: &String| KernelClass::named(name).ok_or_else(|| unknown(name));
        let mut all: BTreeMap<KernelClass, Corrections> = self
            .classes
            .keys()
            .map(|name| Ok((class(name)?, Corrections::default())))
            .collect::<Result<_, String>>()?;
        let rows = Corrections::of_device(&self.corrections, gpu);
        all.extend(rows.map_err(|error: KernelError| error.to_string())?);
        Ok(all)
    }
}
