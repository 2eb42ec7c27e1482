//! GPUs and drives.

use serde::Deserialize;

use super::Multiprocessor;
use crate::power::BoardPower;
use crate::provenance::Sources;

/// A GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Who makes it, `nvidia`.
    pub vendor: String,
    /// Generation whose kernel constants hold, `ampere`.
    pub architecture: String,
    /// Compute capability, `8.6`. `None`: its multiprocessor is not in the catalogue.
    #[serde(default)]
    pub compute_capability: Option<String>,
    /// Multiprocessor of its compute capability.
    #[serde(skip)]
    pub multiprocessor: Option<Multiprocessor>,
    /// Streaming multiprocessors, or compute units.
    pub sms: u32,
    /// Clock of the peak rates (MHz).
    pub clock_mhz: f64,
    /// Highest clock that the driver allows (MHz). `None`: that of the peak rates.
    #[serde(default)]
    pub highest_clock_mhz: Option<f64>,
    /// Board power (W).
    pub tdp_w: f64,
    /// Peak rates.
    pub peak_tflops: PeakRates,
    /// Memory on the label (GiB).
    pub memory_gib: f64,
    /// Part of it that the driver and one process' context keep (GiB).
    pub reserved_gib: f64,
    /// Nominal memory bandwidth, reads and writes together (GB/s).
    pub bandwidth_gb_per_s: f64,
    /// Share of the nominal bandwidth that large streaming kernels reach.
    pub streaming_fraction: f64,
    /// Level 2 cache (MiB).
    pub l2_mib: f64,
    /// Links to other GPUs.
    #[serde(default)]
    pub nvlink: Option<NvLinks>,
    /// Link to the host.
    pub pcie: Pcie,
    /// Whether other devices may read and write its memory over PCIe; GeForce drivers refuse.
    pub peer_to_peer: bool,
    /// GPU of the catalogue whose kernels it runs, where a scenario describes it as like that one.
    #[serde(skip)]
    pub like: Option<String>,
    /// Power that its board draws by use; none where nobody measured it.
    #[serde(default)]
    pub power: Option<BoardPower>,
    /// Where the constants come from.
    pub sources: Sources,
}

impl Gpu {
    /// Memory that one process can allocate (byte).
    pub fn usable_bytes(&self) -> u64 {
        ((self.memory_gib - self.reserved_gib).max(0.0) * (1u64 << 30) as f64) as u64
    }
}

/// Peak rates in TFLOP/s (`int8` in Tops/s), dense, accumulating in fp32. Absent: the GPU has no such units.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeakRates {
    /// Outside of tensor cores.
    pub fp64: f64,
    /// Outside of tensor cores.
    pub fp32: f64,
    /// On tensor cores.
    #[serde(default)]
    pub tf32: Option<f64>,
    /// On tensor cores where there are some.
    #[serde(default)]
    pub fp16: Option<f64>,
    /// On tensor cores, with sums in fp16. `None`: as fast as with sums in fp32.
    #[serde(default)]
    pub fp16_accumulating_fp16: Option<f64>,
    /// On tensor cores.
    #[serde(default)]
    pub bf16: Option<f64>,
    /// On tensor cores.
    #[serde(default)]
    pub fp8: Option<f64>,
    /// On tensor cores.
    #[serde(default)]
    pub int8: Option<f64>,
}

/// The links of a GPU to other GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvLinks {
    /// Name of the link class.
    pub class: String,
    /// Number of links.
    pub links: u32,
}

/// The PCIe port of a device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Name of the link class.
    pub class: String,
    /// Number of lanes.
    pub lanes: u32,
    /// Class of the catalogue whose copies start as its own do, where a scenario describes the
    /// class as like that one.
    #[serde(skip)]
    pub like: Option<String>,
}

impl Pcie {
    /// Name of the class by which the starts of copies are known.
    pub fn of_copies(&self) -> &str {
        self.like.as_deref().unwrap_or(&self.class)
    }
}

/// An NVMe drive. Rates are of large sequential transfers (GB/s); what is absent was not published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Link class of its port.
    pub pcie: String,
    /// Lanes of its port.
    pub lanes: u32,
    /// Capacity (TB).
    #[serde(default)]
    pub capacity_tb: Option<f64>,
    /// Reads (GB/s).
    #[serde(default)]
    pub read_gb_per_s: Option<f64>,
    /// Sustained writes (GB/s).
    #[serde(default)]
    pub write_gb_per_s: Option<f64>,
    /// Writes while the write cache lasts, where they are faster (GB/s).
    #[serde(default)]
    pub burst_write_gb_per_s: Option<f64>,
    /// What can be written at the burst rate before the sustained one holds (GB).
    #[serde(default)]
    pub write_cache_gb: Option<f64>,
    /// Share of its rate that each direction keeps while the other is busy; a half where it is not known: a drive reads or
    /// writes.
    #[serde(default)]
    pub mixed_share: Option<f64>,
    /// What one read alone gets once its bytes flow (GB/s); less than all reads together, as it comes from few chips.
    #[serde(default)]
    pub one_read_gb_per_s: Option<f64>,
    /// Random reads of 4 KiB (1000/s).
    #[serde(default)]
    pub read_kiops: Option<f64>,
    /// Random writes of 4 KiB in the steady state (1000/s).
    #[serde(default)]
    pub write_kiops: Option<f64>,
    /// Latency of one read alone (us).
    #[serde(default)]
    pub read_latency_us: Option<f64>,
    /// Latency of one write alone (us).
    #[serde(default)]
    pub write_latency_us: Option<f64>,
    /// Bytes read at full rate until a cold drive is hot, or writes that take as long (GB).
    #[serde(default)]
    pub throttle_after_gb: Option<f64>,
    /// Share of its rates that a hot drive keeps.
    #[serde(default)]
    pub throttled_share: Option<f64>,
    /// Guaranteed drive writes per day.
    #[serde(default)]
    pub drive_writes_per_day: Option<f64>,
    /// Guaranteed bytes written over its life (TB).
    #[serde(default)]
    pub endurance_tb: Option<f64>,
    /// Where the constants come from.
    pub sources: Sources,
}
