//! Two hardware files, constant by constant.

use calibration::hardware::{Constant, Hardware};
use calibration::overlay::NINE_OF_TEN;
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

/// A constant in two files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Its name with that of its law, `memory.copy.all`; of kernels `gemm.bf16.e_max`.
    pub constant: String,
    /// The unit of both values; empty for a plain number.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub unit: &'static str,
    /// In the first file; absent if that does not tell it.
    pub before: Option<f64>,
    /// In the second file; absent if that does not tell it.
    pub after: Option<f64>,
    /// From the first to the second, relative to the first.
    pub change: Option<f64>,
    /// Whether the change is beyond the errors of both: larger than that of nine in ten repetitions would be. Absent where an
    /// error is not known.
    pub beyond: Option<bool>,
}

/// A constant as one file tells it.
#[derive(Clone, Copy)]
struct Told {
    value: f64,
    unit: &'static str,
    /// Its relative standard error.
    error: Option<f64>,
}

/// Every constant that either file tells, in the order of the first.
pub fn differences(before: &Hardware, after: &Hardware) -> Vec<Difference> {
    let (before, after) = (told(before), told(after));
    let only_after = after.keys().filter(|name| !before.contains_key(*name));
    let names = before.keys().chain(only_after);
    names.map(|name| Difference::of(name, before.get(name).copied(), after.get(name).copied())).collect()
}

impl Difference {
    fn of(constant: &str, before: Option<Told>, after: Option<Told>) -> Self {
        let change = before.zip(after).map(|(before, after)| after.value / before.value - 1.0);
        let errors = before.and_then(|told| told.error).zip(after.and_then(|told| told.error));
        Self {
            constant: constant.to_owned(),
            unit: before.or(after).map_or("", |told| told.unit),
            before: before.map(|told| told.value),
            after: after.map(|told| told.value),
            change: change.filter(|change| change.is_finite()),
            beyond: change.zip(errors).map(|(change, (a, b))| change.abs() > NINE_OF_TEN * a.hypot(b)),
        }
    }
}

/// The constants that a file tells, by name.
fn told(hardware: &Hardware) -> IndexMap<String, Told> {
    let mut all = IndexMap::new();
    for (law, found) in &hardware.laws {
        for (name, constant) in found.constants.iter().filter(|(_, constant)| constant.told) {
            let Constant { value, unit, error, .. } = *constant;
            all.insert(format!("{law}.{name}"), Told { value, unit: unit.symbol(), error });
        }
    }
    // Nobody knows their errors one by one.
    let of_kernels = kernel_constants(hardware).into_iter();
    all.extend(of_kernels.map(|(name, value)| (name, Told { value, unit: "", error: None })));
    all
}

/// The constants of kernels in a file, by name: `gemm.bf16.e_max`.
pub fn kernel_constants(hardware: &Hardware) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    let kernels = hardware.kernels.as_ref().map(|kernels| serde_json::to_value(&kernels.constants));
    if let Some(Ok(constants)) = kernels {
        numbers(&constants, String::new(), &mut all);
    }
    all
}

fn numbers(value: &Value, path: String, all: &mut Vec<(String, f64)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                numbers(field, format!("{path}{dot}{name}"), all);
            }
        }
        other => {
            if let Some(value) = other.as_f64() {
                all.push((path, value));
            }
        }
    }
}
