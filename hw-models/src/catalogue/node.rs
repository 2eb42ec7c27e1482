//! Nodes: which devices hang where.

use serde::Deserialize;

use crate::provenance::Sources;

/// A kind of node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Name of its GPU.
    pub gpu: String,
    /// Number of CPU sockets.
    pub sockets: u32,
    /// Link class between every two sockets; needed with more than one.
    #[serde(default)]
    pub socket_link: Option<String>,
    /// The processor of each socket, where it is known.
    #[serde(default)]
    pub processor: Option<Processor>,
    /// Host memory.
    pub host_memory: HostMemory,
    /// Devices below the sockets.
    pub pcie: PcieTree,
    /// Links between GPUs.
    #[serde(default)]
    pub nvlink: NvLinkFabric,
    /// Name of its network interfaces; needed if it has some.
    #[serde(default)]
    pub nic: Option<String>,
    /// Name of its drives; needed if it has some.
    #[serde(default)]
    pub ssd: Option<String>,
    /// Name of the fabric that joins such nodes unless another is asked for.
    #[serde(default)]
    pub fabric: Option<String>,
    /// Where the constants come from.
    pub sources: Sources,
}

impl Node {
    /// Number of its GPUs.
    pub fn gpus(&self) -> u64 {
        self.pcie.tree.iter().map(|branch| u64::from(branch.gpus)).sum()
    }
}

/// The processor of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Its cores, whose threads it may have several of.
    pub cores: u32,
    /// Power that it is cooled for (W).
    pub tdp_w: f64,
}

/// The memory of a host, shared evenly by its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostMemory {
    /// Memory of the node (GiB).
    pub gib: f64,
    /// Peak bandwidth of one socket, reads and writes together (GB/s).
    pub gb_per_s: f64,
    /// Share of the peak that streaming reaches.
    pub streaming_fraction: f64,
}

/// The PCIe tree of a node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieTree {
    /// Link class of its sockets and switches; a device of an older generation gets its own.
    pub class: String,
    /// Branches; switches and devices are numbered in this order.
    pub tree: Vec<Branch>,
}

/// Devices below one socket or switch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// `socket[i]`, or `switch[j]` of an earlier branch.
    pub under: String,
    /// Whether the devices share a switch with one uplink, or each has a link of its own.
    #[serde(default)]
    pub switch: bool,
    /// Lanes of the uplink of the switch.
    #[serde(default = "sixteen")]
    pub lanes: u32,
    /// Number of GPUs.
    #[serde(default)]
    pub gpus: u32,
    /// Number of network interfaces.
    #[serde(default)]
    pub nics: u32,
    /// Number of drives.
    #[serde(default)]
    pub ssds: u32,
}

impl Branch {
    /// Root ports without devices, of a socket or a switch.
    pub fn on(under: String) -> Self {
        Self { under, switch: false, lanes: sixteen(), gpus: 0, nics: 0, ssds: 0 }
    }
}

fn sixteen() -> u32 {
    16
}

/// Links between the GPUs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvLinkFabric {
    /// Switches that join all GPUs at full rate; 0 for none.
    #[serde(default)]
    pub switches: u32,
    /// `[GPU, GPU, links]` of every pair that is wired directly: a cube mesh, or bridges.
    #[serde(default)]
    pub pairs: Vec<[u32; 3]>,
}
