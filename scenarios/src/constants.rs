//! The constants that a scenario is simulated with.

use std::sync::Arc;

use calibration::overlay::{Overlay, Replaced};
use hw_models::catalogue::{Catalogue, Gpu, LinkKind};
use hw_models::collectives::CollectiveCatalogue;
use hw_models::copies::CopyCatalogue;
use hw_models::framework::Framework;
use hw_models::host::HostCosts;
use hw_models::kernels::{KernelCatalogue, KernelClass, Spread};
use hw_models::machine::{Machine, MachineError, PartClass, Settings};
use indexmap::IndexMap;
use workloads::memo::{Memo, Recent};

use crate::catalogue;

/// Constants of the catalogue, or the catalogue with hardware files laid over it.
/// Copies share what they hold, and what plans have found with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants {
    overlay: Option<Arc<Overlay>>,
    /// Parts of every machine at another speed, by its factor.
    speed: Option<(PartClass, f64)>,
    /// Frameworks on faster or slower hosts. `None`: those of the catalogue.
    frameworks: Option<Arc<IndexMap<String, Framework>>>,
    memo: Arc<Memo>,
    /// Few: those of a hundred thousand GPUs take hundreds of megabytes.
    machines: Arc<Recent<Settings, Machine, 2>>,
}

/// Hardware that may be faster or slower than it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speed {
    /// A class of parts of machines.
    Parts(PartClass),
    /// Processors of hosts, as they issue work.
    Host,
}

impl PartialEq for Constants {
    fn eq(&self, other: &Self) -> bool {
        self.overlay == other.overlay
            && self.speed == other.speed
            && self.frameworks.as_ref().map(Arc::as_ptr) == other.frameworks.as_ref().map(Arc::as_ptr)
    }
}

impl Constants {
    /// Those of an overlay.
    pub(crate) fn of(overlay: Overlay) -> Self {
        Self { overlay: Some(Arc::new(overlay)), ..Self::default() }
    }

    /// Constants of hardware some of whose parts are `factor` times as fast.
    pub(crate) fn at_speed(&self, of: Speed, factor: f64) -> Self {
        let mut overlay = self.all().clone();
        let (mut speed, mut frameworks) = (None, None);
        match of {
            Speed::Parts(class) => {
                if let PartClass::Links(kind @ (LinkKind::NvLink | LinkKind::Pcie)) = class {
                    overlay.collectives = overlay.collectives.at_speed(kind == LinkKind::NvLink, factor);
                }
                speed = Some((class, factor));
            }
            Speed::Host => {
                overlay.host = overlay.host.at_speed(factor);
                let all = self.frameworks().iter();
                let faster = all.map(|(name, framework)| (name.clone(), framework.at_speed(factor)));
                frameworks = Some(Arc::new(faster.collect()));
            }
        }
        Self { overlay: Some(Arc::new(overlay)), speed, frameworks, ..Self::default() }
    }

    /// Frameworks by name.
    pub(crate) fn frameworks(&self) -> &IndexMap<String, Framework> {
        self.frameworks.as_deref().unwrap_or_else(|| catalogue::frameworks())
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
        let make = || {
            let machine = Machine::of(self.devices(), settings)?;
            let machine = match self.speed {
                None => machine,
                Some((class, factor)) => machine.at_speed(class, factor),
            };
            Ok((settings.clone(), machine))
        };
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
