//! No run is faster than its floor or holds less than it, and none fits that needs more memory than
//! there is.

use reports::summary::RunSummary;

use super::Breach;
use crate::experiment::Experiment;
use crate::plans;

/// Times are sums of rounded picoseconds.
const ROUNDING: f64 = 1e-9;

/// Every run below the floor of its plan.
pub(super) fn breaches(experiment: &Experiment, runs: &[RunSummary]) -> Vec<Breach> {
    let plans = experiment.points().flat_map(|point| {
        let variants: Vec<&str> = experiment.variants().collect();
        variants.into_iter().map(move |variant| (variant, point.clone()))
    });
    let below = |((variant, point), run): ((&str, _), &RunSummary)| {
        let scenario = experiment.resolve(variant, &point).ok()?.scenario;
        let floor = plans::floor(&scenario).ok()??;
        let step = run.step_time()?;
        let least = floor.step.as_secs();
        let wrong =
            |property, detail: String| Breach { property, detail: format!("{}: {detail}", run.label()) };
        if step < least * (1.0 - ROUNDING) {
            return Some(wrong("no step is below its floor", format!("{step} s, floor {least} s")));
        }
        for (stage, memory) in floor.memory.iter().enumerate() {
            let of_stage =
                |device: &str| device.split(", ").next() == Some(format!("stage {stage}").as_str());
            let peaks = run.peak_memory_bytes.iter().filter(|peak| of_stage(&peak.device));
            if let Some(peak) = peaks.min_by_key(|peak| peak.peak_bytes)
                && peak.peak_bytes < memory.held
            {
                let detail = format!("{} holds {} B, floor {} B", peak.device, peak.peak_bytes, memory.held);
                return Some(wrong("no memory holds less than its floor", detail));
            }
        }
        let short = floor.lacking();
        let lacks = || wrong("what is held at least fits", format!("{short} B are lacking, and yet it ran"));
        (short > 0).then(lacks)
    };
    plans.zip(runs).filter_map(below).collect()
}
