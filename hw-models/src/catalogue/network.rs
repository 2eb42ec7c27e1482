//! Links, network interfaces and fabrics.

use serde::Deserialize;

use crate::provenance::Sources;
use crate::reads::LinkReads;

/// What a link is made of; what share of a step is spent on which kind is reported by these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Between GPUs, or a GPU and its NVSwitch.
    NvLink,
    /// Between a device, a switch and a root port.
    Pcie,
    /// Between CPU sockets.
    SocketLink,
    /// Between a socket and its memory.
    Memory,
    /// Between a network interface and the fabric, and inside the fabric.
    Network,
    /// Between an NVMe drive and the PCIe tree.
    SsdLink,
}

/// A class of links inside a node. Rates are per direction and per `unit`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkClass {
    /// What it is made of.
    pub kind: LinkKind,
    /// What the rates are of.
    pub unit: LinkUnit,
    /// What the wire carries after line coding (GB/s).
    pub nominal_gb_per_s: f64,
    /// What large transfers reach (GB/s).
    pub effective_gb_per_s: f64,
    /// Time to cross one link (us).
    pub latency_us: f64,
    /// What copies between a device and host memory get of it (GB/s); absent: what other transfers get.
    pub copies: Option<CopyRates>,
    /// Reads of host memory by threads of a GPU. `None`: an estimate by what its wires carry.
    pub reads: Option<LinkReads>,
    /// Class of the catalogue that a scenario describes it as like.
    #[serde(skip)]
    pub like: Option<String>,
    /// Where the constants come from.
    pub sources: Sources,
}

/// What copy engines get of a link. A device writes to the host, but reads from it by asking, and the two are not
/// equally fast; nor are they as fast as what a collective makes of the same link.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRates {
    /// Away from host memory.
    pub to_device: OneWay,
    /// Towards it.
    pub from_device: OneWay,
}

/// Rates of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneWay {
    /// With the other direction idle.
    pub alone: f64,
    /// With the other direction busy.
    pub against: f64,
}

impl CopyRates {
    /// The same, so many times as fast.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let times = |way: OneWay| OneWay { alone: way.alone * factor, against: way.against * factor };
        Self { to_device: times(self.to_device), from_device: times(self.from_device) }
    }

    /// What both directions carry together when both are busy.
    pub fn both_ways(self) -> f64 {
        self.to_device.against + self.from_device.against
    }
}

impl LinkClass {
    /// What large transfers reach over so many lanes, in one direction (byte/s).
    pub fn effective(&self, lanes: u32) -> f64 {
        self.effective_gb_per_s * 1e9 * self.unit.units(lanes)
    }

    /// What copies between a device and host memory get of so many lanes (byte/s).
    pub fn copied(&self, lanes: u32) -> CopyRates {
        let effective = OneWay { alone: self.effective_gb_per_s, against: self.effective_gb_per_s };
        let rates = self.copies.unwrap_or(CopyRates { to_device: effective, from_device: effective });
        rates.times(1e9 * self.unit.units(lanes))
    }

    /// Reads of host memory by threads of a GPU over a number of lanes. `None`: it is no link to
    /// the host.
    pub fn read(&self, lanes: u32) -> Option<LinkReads> {
        let estimate = || LinkReads::estimated(self.nominal_gb_per_s, self.effective_gb_per_s);
        let reads = self.reads.or_else(|| (self.kind == LinkKind::Pcie).then(estimate))?;
        Some(reads.times(self.unit.units(lanes)))
    }

    /// What the wires of so many lanes carry after line coding, in one direction (byte/s).
    pub fn nominal(&self, lanes: u32) -> f64 {
        self.nominal_gb_per_s * 1e9 * self.unit.units(lanes)
    }
}

/// What the rates of a link class are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkUnit {
    /// One NVLink, or all links between two sockets.
    One,
    /// Sixteen PCIe lanes.
    SixteenLanes,
}

impl LinkUnit {
    /// So many units are these lanes.
    pub fn units(self, lanes: u32) -> f64 {
        f64::from(lanes) / f64::from(self.lanes())
    }

    /// Lanes of one unit.
    pub fn lanes(self) -> u32 {
        match self {
            Self::One => 1,
            Self::SixteenLanes => 16,
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Line rate per direction (Gb/s).
    pub rate_gbit_per_s: f64,
    /// What large messages reach (GB/s).
    pub effective_gb_per_s: f64,
    /// Interface and cable, one side (us).
    pub latency_us: f64,
    /// PCIe lanes.
    pub lanes: u32,
    /// Where the constants come from.
    pub sources: Sources,
}

/// A network between nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// Which interfaces share a switch.
    pub topology: Topology,
    /// Line rate of a port per direction (Gb/s).
    pub port_gbit_per_s: f64,
    /// Nodes below one leaf of a fat tree.
    #[serde(default)]
    pub nodes_per_leaf: Option<u32>,
    /// Rate of the ports below a leaf or rail over the rate of its uplinks, at least 1; 1 never limits.
    pub oversubscription: f64,
    /// Time to cross from a leaf or rail to the spine (us).
    pub hop_latency_us: f64,
    /// Where the constants come from.
    pub sources: Sources,
}

/// Which interfaces share a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// All interfaces of neighbouring nodes meet in a leaf, leaves meet in the spine.
    FatTree,
    /// The i-th interfaces of all nodes meet in rail i, rails meet in the spine.
    RailOptimised,
}
