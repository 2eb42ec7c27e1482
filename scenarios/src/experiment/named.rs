//! Facts that all scenarios of an experiment share: the files and presets that they name, and which
//! of them can be built.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::calibrations::Calibrations;
use super::configs::Configs;
use super::files::Files;
use super::graph_files::GraphFiles;
use super::layers::Layers;
use super::measured_kernels::MeasuredKernels;
use super::movement_plans::MovementPlans;
use super::presets::Presets;
use super::traces::Traces;
use crate::schema::Scenario;
use crate::text::source::Sources;

/// Scenarios that are remembered to be buildable.
const REMEMBERED: usize = 16;

/// Contents of the files, or what is wrong with them, and the presets.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    pub(super) configs: Configs,
    pub(super) calibrations: Calibrations,
    pub(super) traces: Traces,
    pub(super) graphs: GraphFiles,
    pub(super) movement_plans: MovementPlans,
    pub(super) kernels: MeasuredKernels,
    pub(super) presets: Presets,
    pub(super) buildable: Buildable,
}

/// The scenarios that were last found buildable: each is resolved several times on its way to a
/// run.
#[derive(Clone, Debug, Default)]
pub(super) struct Buildable(Arc<Mutex<VecDeque<Scenario>>>);

impl Buildable {
    /// True for a scenario that is known to be buildable.
    pub(super) fn knows(&self, scenario: &Scenario) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(scenario)
    }

    /// Remembers a scenario, and forgets the oldest.
    pub(super) fn remember(&self, scenario: &Scenario) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.truncate(REMEMBERED - 1);
        known.push_front(scenario.clone());
    }
}

impl Named {
    /// Reads the files that any layer names.
    pub(super) fn read(files: &dyn Files, layers: &Layers, sources: &mut Sources) -> Self {
        Self {
            configs: Configs::read(files, layers, sources),
            calibrations: Calibrations::read(files, layers, sources),
            traces: Traces::read(files, layers, sources),
            graphs: GraphFiles::read(files, layers, sources),
            movement_plans: MovementPlans::read(files, layers, sources),
            kernels: MeasuredKernels::read(files, layers, sources),
            presets: Presets::read(layers, sources),
            buildable: Buildable::default(),
        }
    }
}
