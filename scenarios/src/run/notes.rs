//! Notes for readers who compare a run with others.

use reports::summary::{Epoch, RunSummary};

use crate::schema::{Scenario, StageLayers};

/// Notes on a run of a scenario that has been measured.
pub(super) fn notes(scenario: &Scenario, summary: &RunSummary) -> Vec<String> {
    let above_peak = summary.mfu.is_some_and(|mfu| mfu > 1.0).then(|| ABOVE_PEAK.to_owned());
    let not_modelled = scenario.model.not_modelled().iter().cloned();
    let epoch = summary.epoch.as_ref().map(Epoch::in_words);
    not_modelled.chain(above_peak).chain(layers(scenario)).chain(epoch).collect()
}

/// Layers of stages that were balanced.
fn layers(scenario: &Scenario) -> Option<String> {
    let Some(StageLayers::Balanced(layers)) = &scenario.parallelism.stage_layers else { return None };
    let listed: Vec<String> = layers.iter().map(|layers| layers.get().to_string()).collect();
    Some(format!("balanced layers, in the order of stages and their chunks: {}", listed.join(", ")))
}

/// Convolutions count as sums over their filters, whatever algorithm is chosen.
const ABOVE_PEAK: &str = "model FLOPs utilisation exceeds 100 %: it counts convolutions as sums over their filters, and Winograd \
                          kernels multiply less";
