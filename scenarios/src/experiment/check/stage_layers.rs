//! Layers of stages that are not listed.

use super::Check;
use crate::plans;
use crate::schema::{Count, Scenario, StageLayers};

const STAGE_LAYERS: &str = "parallelism.stage_layers";

impl Check<'_> {
    /// Lists the layers of stages that are to be balanced. Asked only where nothing else is wrong.
    pub(super) fn stage_layers(&mut self, scenario: &mut Scenario) {
        match &scenario.parallelism.stage_layers {
            Some(StageLayers::Even) => scenario.parallelism.stage_layers = None,
            Some(StageLayers::Balanced(_)) if self.findings.is_empty() => {
                // What keeps it from being priced keeps it from being built, which is said there.
                let Ok(layers) = plans::balanced(scenario) else { return };
                let is_even = layers.iter().all(|it| layers.first() == Some(it));
                let balanced = || layers.iter().filter_map(|&layers| Count::new(layers.into())).collect();
                scenario.parallelism.stage_layers = (!is_even).then(|| StageLayers::Balanced(balanced()));
                if !is_even {
                    let reason = "balanced: the slowest stage is as fast as it can be";
                    self.derived.insert(STAGE_LAYERS.into(), reason.to_owned());
                }
            }
            _ => {}
        }
    }
}
