//! Kernels of devices with what they were found to take.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, PoisonError};

use hw_models::kernels::{GpuFacts, KernelCost, KernelError, KernelModel, Libraries};

use sim_core::time::Time;

use super::{HardwareError, alone, found};
use crate::model::reuse::Reuse;
use crate::model::transformer::Work;
use crate::passes::fusion::{KernelTimes, OfGpu, name_of};

/// Devices of one catalogue.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    known: Mutex<Vec<(DeviceKind, Arc<Device>)>>,
    timed: Mutex<Vec<Arc<TimedDevice>>>,
}

/// Facts that tell devices of a catalogue apart: a machine may change those of its nodes, or
/// describe its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeviceKind {
    pub(super) name: String,
    pub(super) like: Option<String>,
    pub(super) architecture: String,
    pub(super) facts: GpuFacts,
    pub(super) libraries: Libraries,
    /// Times of kernels that were measured on it.
    pub(super) measured: OfGpu,
}

/// The kernels of a device, with what they were found to take.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) model: KernelModel,
    measured: OfGpu,
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
        let mut devices = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = devices.iter().find(|(known, _)| *known == kind) {
            return Ok(Arc::clone(known));
        }
        let measured = kind.measured.clone();
        let device = Arc::new(Device { model: make()?, measured, known: Mutex::default() });
        devices.push((kind, Arc::clone(&device)));
        Ok(device)
    }

    /// The times of a device behind a gap, one for all who ask.
    pub(super) fn timed(&self, device: Arc<Device>, gap: Time) -> Arc<TimedDevice> {
        let mut all = self.timed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().find(|known| Arc::ptr_eq(&known.device, &device) && known.gap == gap);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        all.push(Arc::new(TimedDevice { device, gap }));
        Arc::clone(&all[all.len() - 1])
    }
}

/// The kernels of a device, each behind the gap that a way to launch leaves.
#[derive(Debug)]
pub(crate) struct TimedDevice {
    device: Arc<Device>,
    gap: Time,
}

impl KernelTimes for TimedDevice {
    fn seconds(&self, work: &Work) -> Option<f64> {
        let cost = self.device.cost_of(*work).ok()??;
        Some((self.gap.saturating_add(cost.alone())).as_secs())
    }

    fn gap(&self) -> f64 {
        self.gap.as_secs()
    }

    fn is_measured(&self, work: &Work) -> bool {
        self.device.measured(work).is_some()
    }

    fn least(&self, work: &Work) -> f64 {
        if let Some(measured) = self.device.measured(work) {
            return self.gap.saturating_add(measured).as_secs();
        }
        let dtype = match work.anchor() {
            Work::Gemm(gemm) => Some(gemm.dtype),
            Work::Convolution(convolution) => Some(convolution.dtype),
            _ => None,
        };
        let bytes = match work {
            Work::Stream(stream) => work.bytes().saturating_sub(stream.bytes_cached),
            _ => work.bytes(),
        };
        self.gap.as_secs() + self.device.model.least_seconds(bytes, (work.flops(), dtype))
    }

    fn cached(&self, bytes: u64, distance: u64) -> u64 {
        self.device.model.cached(bytes, distance)
    }
}

impl Device {
    /// Cost of a [`kernel`](super::kernel), found once.
    pub(super) fn cost(&self, work: &Work, reused: &[Reuse]) -> Result<Option<Arc<KernelCost>>, KernelError> {
        self.cost_of(found(&self.model, work, reused))
    }

    /// Time of a kernel that was measured.
    pub(super) fn measured(&self, work: &Work) -> Option<Time> {
        if self.measured.is_empty() { None } else { self.measured.get(&name_of(work)).copied() }
    }

    /// Cost of work with what it finds in the cache.
    fn cost_of(&self, work: Work) -> Result<Option<Arc<KernelCost>>, KernelError> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cost) = known().get(&work) {
            return Ok(Some(Arc::clone(cost)));
        }
        let estimated = alone(&self.model, &work)?;
        let cost = match self.measured(&work) {
            Some(time) => estimated.map(|cost| cost.taking(time, self.model.facts.hbm_bytes_per_s)),
            None => estimated,
        };
        let cost = cost.map(Arc::new);
        if let Some(cost) = &cost {
            known().insert(work, Arc::clone(cost));
        }
        Ok(cost)
    }
}
