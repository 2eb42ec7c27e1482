//! Parts and links of a machine as others see them.

use std::fmt;

use sim_core::time::Time;

use crate::catalogue::{CopyRates, LinkKind};
use crate::provenance::Provenance;
use crate::reads::LinkReads;

/// A part, by its number: the parts of node 0, of node 1, ..., then the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u32);

/// One direction of a link, by its number: the links of node 0, of node 1, ..., then the fabric; two numbers a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectedLink(pub u32);

impl PartId {
    /// The position among all parts.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl DirectedLink {
    /// The position among all directions of all links.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The other direction of the same link.
    pub fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartKind {
    /// A GPU with its memory.
    Gpu,
    /// The switches that join the NVLinks of a node; they do not limit.
    NvSwitch,
    /// A PCIe switch.
    Switch,
    /// A CPU socket with its root ports.
    Socket,
    /// The memory of a socket.
    Memory,
    /// A network interface.
    Nic,
    /// An NVMe drive.
    Ssd,
    /// A leaf of a fat tree, a rail, the spine, or any other network switch.
    NetworkSwitch,
}

/// A part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Hierarchical and unique, `node[3].gpu[2]`.
    pub name: String,
    /// What it is.
    pub kind: PartKind,
    /// Name of its catalogue entry, for GPUs, network interfaces and drives.
    pub model: Option<&'a str>,
    /// Its node; absent for the fabric.
    pub node: Option<u32>,
    /// Bytes it holds; absent where it holds none or nobody knows.
    pub capacity: Option<u64>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link<'a> {
    /// Where it begins.
    pub from: PartId,
    /// Where it ends.
    pub to: PartId,
    /// What it is made of.
    pub kind: LinkKind,
    /// What large transfers reach when nothing else is on it (byte/s), after `degrade`.
    pub bytes_per_s: f64,
    /// What the wire carries (byte/s).
    pub nominal_bytes_per_s: f64,
    /// NVLinks side by side; 0 of other kinds.
    pub nvlinks: u32,
    /// Time to cross it.
    pub latency: Time,
    /// Whether both directions share one capacity, as the reads and writes of a memory do.
    pub half_duplex: bool,
    /// What copies between a device and host memory get of it (byte/s), after `degrade`; none: what other transfers get.
    pub copies: Option<CopyRates>,
    /// Reads of host memory by threads of a GPU, after `degrade`. `None`: it is no link of PCIe.
    pub reads: Option<LinkReads>,
    /// Where `bytes_per_s` comes from.
    pub provenance: &'a Provenance,
}

/// A constant that a machine rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Catalogue entry, `nvlink3`.
    pub of: String,
    /// Name of the constant, `effective_gb_per_s`; the unit is its end.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Where it comes from.
    pub provenance: Provenance,
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpu => "gpu",
            Self::NvSwitch => "nvswitch",
            Self::Switch => "switch",
            Self::Socket => "socket",
            Self::Memory => "memory",
            Self::Nic => "nic",
            Self::Ssd => "ssd",
            Self::NetworkSwitch => "network switch",
        })
    }
}
