//! Clocks, temperature and power of a GPU, and what holds it back, from NVML.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

use crate::measure::{Conditions, Fabric};
use hw_models::collectives::InsideLink;

/// What a GPU that is held back suffers from. The power cap is none of it: it belongs to what a load does to the board, and a
/// product that is timed without it would be timed wrong.
const HELD_BACK: [(ThrottleReasons, &str); 4] = [
    (ThrottleReasons::HW_SLOWDOWN, "a slowdown of the hardware"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "heat (slowed by the hardware)"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "heat (slowed by the driver)"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "the power supply's brake"),
];

/// Most NVLinks of a GPU (`NVML_NVLINK_MAX_LINKS`).
const NVLINKS: u32 = 18;

/// A GPU as NVML knows it.
pub(super) struct Telemetry {
    nvml: Nvml,
    /// NVML counts GPUs in another order than CUDA: they meet at the address on the bus.
    bus_id: String,
}

impl Telemetry {
    /// None without NVML.
    pub(super) fn of(bus_id: String) -> Option<Self> {
        Some(Self { nvml: Nvml::init().ok()?, bus_id })
    }

    /// Its state at this moment, as far as it tells.
    pub(super) fn conditions(&self) -> Conditions {
        let Ok(gpu) = self.nvml.device_by_pci_bus_id(&*self.bus_id) else { return Conditions::default() };
        let reasons = gpu.current_throttle_reasons().unwrap_or(ThrottleReasons::NONE);
        let held_back = HELD_BACK.iter().filter(|(reason, _)| reasons.contains(*reason));
        Conditions {
            clock_mhz: gpu.clock_info(Clock::SM).ok().map(f64::from),
            memory_clock_mhz: gpu.clock_info(Clock::Memory).ok().map(f64::from),
            temperature_c: gpu.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            power_w: gpu.power_usage().ok().map(|milliwatts| f64::from(milliwatts) * 1e-3),
            throttled_by: held_back.map(|(_, words)| (*words).to_owned()).collect(),
        }
    }

    /// The processes that compute on it. Whoever asks before it computes itself is told of others alone.
    pub(super) fn others(&self) -> Vec<u32> {
        let gpu = self.nvml.device_by_pci_bus_id(&*self.bus_id);
        let running = gpu.and_then(|gpu| gpu.running_compute_processes()).unwrap_or_default();
        running.into_iter().map(|process| process.pid).collect()
    }

    /// Version of the driver.
    pub(super) fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    /// Power that the board may draw (W).
    pub(super) fn power_limit_w(&self) -> Option<f64> {
        let gpu = self.nvml.device_by_pci_bus_id(&*self.bus_id).ok()?;
        Some(f64::from(gpu.enforced_power_limit().ok()?) * 1e-3)
    }

    /// What connects it with the GPU of another address: what its NVLinks end in is known by the addresses there, and a switch is
    /// no GPU. None where that is not told.
    pub(super) fn fabric(&self, other: &str) -> Option<Fabric> {
        let gpu_at = |bus_id: &str| self.nvml.device_by_pci_bus_id(bus_id);
        let [gpu, other] = [gpu_at(&self.bus_id).ok()?, gpu_at(other).ok()?];
        let links = (0..NVLINKS).map(|link| gpu.link_wrapper_for(link));
        let active = links.filter(|link| link.is_active().unwrap_or(false));
        let ends: Vec<String> =
            active.map(|link| Some(link.remote_pci_info().ok()?.bus_id)).collect::<Option<_>>()?;
        let other = other.index().ok()?;
        let of_gpus = ends.iter().map(|end| gpu_at(end).and_then(|gpu| gpu.index()).ok());
        let (switches, direct) = of_gpus.fold((0, 0), |(switches, direct), at| match at {
            None => (switches + 1, direct),
            Some(at) => (switches, direct + u32::from(at == other)),
        });
        Some(match (switches, direct) {
            (0, 0) => Fabric { inside: InsideLink::Pcie, nvlinks: 0 },
            (0, nvlinks) => Fabric { inside: InsideLink::CubeMesh, nvlinks },
            (nvlinks, _) => Fabric { inside: InsideLink::NvSwitch, nvlinks },
        })
    }

    /// Generation and lanes of its link to the host, as far as both ends go; one that is idle may run slower.
    pub(super) fn link(&self) -> Option<(u32, u32)> {
        let gpu = self.nvml.device_by_pci_bus_id(&*self.bus_id).ok()?;
        Some((gpu.max_pcie_link_gen().ok()?, gpu.max_pcie_link_width().ok()?))
    }
}
