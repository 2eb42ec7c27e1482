//! Objectives of a search in words.

use crate::quantity;
use crate::summary::RunSummary;

/// Title of a column.
pub(crate) fn title(objective: &str) -> String {
    match objective {
        "cost" => "cost per million".to_owned(),
        "energy" => "energy of a sample".to_owned(),
        other => other.replace('_', " "),
    }
}

/// Value of a run by an objective. `None`: it has none.
pub(crate) fn value(objective: &str, run: &RunSummary) -> Option<f64> {
    match objective {
        "step_time" => run.step_time(),
        "time_per_sample" => run.samples_per_s.map(f64::recip),
        "cost" => run.campaign.as_ref()?.cost.as_ref()?.per_unit(),
        "energy" => {
            let samples = run.samples_per_s.zip(run.step_time()).map_or(1.0, |(rate, time)| rate * time);
            Some(run.power.as_ref()?.step_energy_j / samples)
        }
        "peak_memory" => run.worst_device().map(|device| device.peak_bytes as f64),
        _ => None,
    }
}

/// A value by an objective in words; `run` knows the currency of costs.
pub(crate) fn text(objective: &str, value: f64, run: &RunSummary) -> String {
    let currency = || run.campaign.as_ref()?.cost.as_ref().map(|cost| cost.currency.as_str());
    match objective {
        "cost" => format!("{} {}", quantity::count(value * 1e6), currency().unwrap_or_default()),
        "energy" => quantity::joules(value),
        "peak_memory" => quantity::bytes(value as u64),
        _ => quantity::seconds(value),
    }
}
