//! Layers and stages that recompute exist.

use super::Check;
use super::profiled::STAGES;
use crate::schema::{Count, Scenario, StageSet};

impl Check<'_> {
    /// No more layers of a chunk recompute than it has at most.
    pub(super) fn recomputing_layers(&mut self, scenario: &Scenario, layers: u32) {
        let recomputed = scenario.techniques.recompute.as_ref().and_then(|recompute| recompute.layers);
        if let Some(recomputed) = recomputed.map(Count::get).filter(|&count| count > layers.into()) {
            let message = format!("{recomputed} layers cannot recompute: a chunk of a stage has {layers}");
            let parts = ["model.transformer.layers", "parallelism.pipeline", "parallelism.schedule"];
            let help = format!("use at most {layers}, or leave `layers` out for all");
            self.report_with("techniques.recompute.layers", &parts, message, help);
        }
    }

    /// Stages of a profiled pipeline that are listed exist.
    pub(super) fn recomputing_stages(&mut self, scenario: &Scenario, stages: u64) {
        if let Some(recompute) = &scenario.techniques.recompute
            && let Some(StageSet::Listed(listed)) = &recompute.stages
            && let Some(position) = listed.iter().position(|stage| stage.get() >= stages)
        {
            let path = format!("techniques.recompute.stages.{position}");
            let about = [(&*path, String::new()), (STAGES, format!("stages 0 to {}", stages - 1))];
            let message = format!("there is no stage {} to recompute on", listed[position].get());
            self.report(&about, message, "stages are counted from 0");
        }
    }
}
