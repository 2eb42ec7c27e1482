//! A hardware file: what calibrating a device found, constant by constant, and how well it is known.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::estimate::{Beside, across_decades, estimate};
use super::laws::{Law, Unit, laws};
use super::measure::{Heading, Identity, Outcome, Record};
use super::{
    Calibrated, Errors, FoundCollectives, FoundKernels, found_collectives,
    measure::timing::DRIFT,
    power,
    recorded_kernels::{self, Gaps},
};
use hw_models::kernels::KernelModel;
use hw_models::power::BoardPower;

/// The form of hardware files that this version writes and reads.
pub const FORM: u32 = 1;
/// The fact of a device that names its entry in the catalogue.
pub const CATALOGUE: &str = "catalogue";

/// What calibrating a device found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// The form of this file.
    pub form: u32,
    /// The version of foretrain that measured.
    pub foretrain: String,
    /// When.
    pub date: String,
    /// What was measured: the constants hold for it, with this driver.
    pub device: Identity,
    /// The GPU by its name in the catalogue, which scenarios know it by; absent for a host, or a GPU that is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// How far the slowest look at the sentinels was from the fastest, relative to it; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<f64>,
    /// Whether no change of the device was noticed meanwhile.
    pub steady: bool,
    /// By name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub laws: IndexMap<String, Found>,
    /// Kernels of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<FoundKernels>,
    /// Power of the board of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<BoardPower>,
    /// Collectives of a GPU with others of its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collectives: Option<FoundCollectives>,
}

/// What records tell of a law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// By name.
    pub constants: IndexMap<String, Constant>,
    /// How they were found.
    pub method: String,
    /// Errors on what was fitted.
    pub fitted: Errors,
    /// Errors on the quarter that nothing was fitted to.
    pub held_out: Errors,
    /// Errors on every decade of sizes by a fit to the others; absent where tasks are of fewer than three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decades: Option<Errors>,
    /// Median scatter of the samples of a record, relative.
    pub scatter: f64,
    /// Records that scatter by more than samples should, or of a device that was changing.
    pub unstable: usize,
    /// Records of a device that was held back: none was used.
    pub refused: usize,
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Its value.
    pub value: f64,
    /// The unit of the value.
    pub unit: Unit,
    /// Its relative standard error; absent where the records do not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Whether the records tell it: a scenario takes no other.
    pub told: bool,
}

impl Hardware {
    /// What the records of a run tell; `model_of` gives the kernels of a GPU of the catalogue.
    pub fn of(
        heading: &Heading,
        outcome: &Outcome,
        model_of: impl FnOnce(&str) -> Option<KernelModel>,
    ) -> Self {
        let gpu = heading.device.facts.get(CATALOGUE);
        let model = gpu.and_then(|gpu| Some((gpu, model_of(gpu)?)));
        let model = model.as_ref();
        let laws: IndexMap<String, Found> =
            laws().filter_map(|law| Some((law.name.to_owned(), Found::of(law, &outcome.records)?))).collect();
        let gap = |law: &str| told(&laws, law, "gap").unwrap_or(0.0) * 1e-6;
        let gaps = Gaps { graph: gap("gap.graph"), stream: gap("gap.stream") };
        let kernels = model
            .and_then(|(gpu, model)| recorded_kernels::fitted(heading, &outcome.records, gpu, model, gaps));
        let power = model.and_then(|(_, model)| power::fitted(heading, &outcome.records, model));
        let collectives = FoundCollectives::of(&outcome.records, |law| values(&laws, law));
        Self {
            form: FORM,
            foretrain: heading.foretrain.clone(),
            date: heading.date.clone(),
            device: heading.device.clone(),
            gpu: gpu.cloned(),
            drift: Some(rounded(outcome.drift)),
            steady: outcome.drift <= DRIFT,
            laws,
            kernels,
            power,
            collectives,
        }
    }

    /// The records of collectives that judge, beside tables of the others: how far off the [tables](Self::collectives) are on sizes
    /// that were not timed.
    pub fn unseen_collectives<'r>(&self, records: &'r [Record]) -> Vec<Beside<'r>> {
        found_collectives::unseen(records, |law| values(&self.laws, law))
    }

    /// What tables tell of the kernels of a GPU of the catalogue. They say nothing of its driver.
    pub fn of_tables(gpu: &str, found: &[Calibrated], foretrain: &str, date: &str) -> Self {
        Self {
            form: FORM,
            foretrain: foretrain.to_owned(),
            date: date.to_owned(),
            device: Identity { name: gpu.to_owned(), driver: "not told".to_owned(), ..Identity::default() },
            gpu: Some(gpu.to_owned()),
            drift: None,
            steady: true,
            laws: IndexMap::new(),
            kernels: Some(FoundKernels::of(gpu, found)),
            power: None,
            collectives: None,
        }
    }
}

/// A constant of a law, in its unit, if it was found and the records tell it.
fn told(found: &IndexMap<String, Found>, law: &str, constant: &str) -> Option<f64> {
    found.get(law)?.constants.get(constant).filter(|constant| constant.told).map(|constant| constant.value)
}

/// Values of the constants of a law, or the usual ones where it was not found.
fn values(found: &IndexMap<String, Found>, law: &Law) -> Vec<f64> {
    let values = |found: &Found| found.constants.values().map(|constant| constant.value).collect();
    found.get(law.name).map_or_else(|| law.usual(), values)
}

impl Found {
    fn of(law: &Law, records: &[Record]) -> Option<Self> {
        let estimate = estimate(law, records)?;
        let constants = law.constants.iter().zip(&estimate.constants).map(|(constant, told)| {
            let (value, error) = (rounded(told.value), told.error.map(rounded));
            (constant.name.to_owned(), Constant { value, unit: constant.unit, error, told: told.is_told() })
        });
        Some(Self {
            constants: constants.collect(),
            method: format!(
                "relative least squares with Huber's loss on the medians of {} tasks",
                estimate.fitted.samples
            ),
            fitted: estimate.fitted,
            held_out: estimate.held_out,
            decades: across_decades(law, records),
            scatter: rounded(estimate.scatter),
            unstable: estimate.unstable,
            refused: estimate.refused,
        })
    }
}

/// To four significant digits.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
