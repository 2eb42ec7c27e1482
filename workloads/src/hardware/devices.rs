//! Kernels of devices with what they were found to take.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, PoisonError};

use hw_models::kernels::{GpuFacts, KernelCost, KernelError, KernelModel, Libraries};

use super::{HardwareError, alone, found};
use crate::model::reuse::Reuse;
use crate::model::transformer::Work;

/// Devices of one catalogue.
#[derive(Debug, Default)]
pub(crate) struct Devices(Mutex<Vec<(DeviceKind, Arc<Device>)>>);

/// Facts that tell devices of a catalogue apart: a machine may change those of its nodes, or
/// describe its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeviceKind {
    pub(super) name: String,
    pub(super) like: Option<String>,
    pub(super) architecture: String,
    pub(super) facts: GpuFacts,
    pub(super) libraries: Libraries,
}

/// The kernels of a device, with what they were found to take.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) model: KernelModel,
    known: Mutex<Known>,
}

/// By work, with what it finds in the cache.
type Known = HashMap<Work, Arc<KernelCost>, BuildHasherDefault<DefaultHasher>>;

impl Devices {
    /// The kernels of a device, made unless they are known.
    pub(super) fn get(
        &self,
        kind: DeviceKind,
        make: impl FnOnce() -> Result<KernelModel, HardwareError>,
    ) -> Result<Arc<Device>, HardwareError> {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = devices.iter().find(|(known, _)| *known == kind) {
            return Ok(Arc::clone(known));
        }
        let device = Arc::new(Device { model: make()?, known: Mutex::default() });
        devices.push((kind, Arc::clone(&device)));
        Ok(device)
    }
}

impl Device {
    /// Cost of a [`kernel`](super::kernel), found once.
    pub(super) fn cost(&self, work: &Work, reused: &[Reuse]) -> Result<Option<Arc<KernelCost>>, KernelError> {
        let work = found(&self.model, work, reused);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cost) = known().get(&work) {
            return Ok(Some(Arc::clone(cost)));
        }
        let cost = alone(&self.model, &work)?.map(Arc::new);
        if let Some(cost) = &cost {
            known().insert(work, Arc::clone(cost));
        }
        Ok(cost)
    }
}
