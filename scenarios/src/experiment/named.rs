//! The files that a scenario names.

use super::calibrations::Calibrations;
use super::configs::Configs;
use super::files::Files;
use super::layers::Layers;
use crate::text::source::Sources;

/// What they say, or what is wrong with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    pub(super) configs: Configs,
    pub(super) calibrations: Calibrations,
}

impl Named {
    /// Reads the files that any layer names.
    pub(super) fn read(files: &dyn Files, layers: &Layers, sources: &mut Sources) -> Self {
        Self {
            configs: Configs::read(files, layers, sources),
            calibrations: Calibrations::read(files, layers, sources),
        }
    }
}
