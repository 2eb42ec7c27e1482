//! The constants that a scenario is simulated with.

use std::sync::Arc;

use calibration::overlay::{Overlay, Replaced};
use hw_models::catalogue::{Catalogue, Gpu};
use hw_models::collectives::CollectiveCatalogue;
use hw_models::copies::CopyCatalogue;
use hw_models::host::HostCosts;
use hw_models::kernels::{KernelCatalogue, KernelClass, Spread};
use hw_models::machine::{Machine, MachineError, Settings};
use workloads::memo::{Memo, Recent};

use crate::catalogue;

/// Constants of the catalogue, or the catalogue with hardware files laid over it.
/// Copies share what they hold, and what plans have found with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants {
    overlay: Option<Arc<Overlay>>,
    memo: Arc<Memo>,
    /// Few: those of a hundred thousand GPUs take hundreds of megabytes.
    machines: Arc<Recent<Settings, Machine, 2>>,
}

impl PartialEq for Constants {
    fn eq(&self, other: &Self) -> bool {
        self.overlay == other.overlay
    }
}

impl Constants {
    /// Those of an overlay.
    pub(crate) fn of(overlay: Overlay) -> Self {
        Self { overlay: Some(Arc::new(overlay)), ..Self::default() }
    }

    /// What was laid over the catalogue.
    pub(crate) fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_deref()
    }

    /// Memory of the plans that use them.
    pub(crate) fn memo(&self) -> &Memo {
        &self.memo
    }

    /// The machine that settings describe.
    ///
    /// # Errors
    /// All that is wrong with the description.
    pub(crate) fn machine(&self, settings: &Settings) -> Result<Arc<Machine>, Vec<MachineError>> {
        let make = || Ok((settings.clone(), Machine::of(self.devices(), settings)?));
        self.machines.get(|known| known == settings, make)
    }

    fn all(&self) -> &Overlay {
        self.overlay().unwrap_or_else(|| catalogue::overlay())
    }

    /// GPUs, nodes, links, network interfaces, fabrics and drives.
    pub(crate) fn devices(&self) -> &Catalogue {
        &self.all().devices
    }

    /// Kernels.
    pub(crate) fn kernels(&self) -> &KernelCatalogue {
        &self.all().kernels
    }

    /// Collectives and messages.
    pub(crate) fn collectives(&self) -> &CollectiveCatalogue {
        &self.all().collectives
    }

    /// Costs of issuing work.
    pub(crate) fn host(&self) -> &HostCosts {
        &self.all().host
    }

    /// Starts of copies.
    pub(crate) fn copies(&self) -> &CopyCatalogue {
        &self.all().copies
    }

    /// How far kernels of a class on a GPU are off, by its name and its entry.
    pub(crate) fn spread(&self, gpu: (&str, &Gpu), class: KernelClass) -> Spread {
        self.all().spreads.of(self.devices(), gpu, class)
    }

    /// What nine of ten measurements of a constant are within, relative to the prediction, where it was measured here.
    pub(crate) fn within(&self, constant: &str) -> Option<f64> {
        self.overlay()?.replaced.get(constant).map(|Replaced { within, .. }| *within)
    }
}
