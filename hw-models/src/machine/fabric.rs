//! The network between the nodes of a cluster. It is not stored: the numbers of its parts and links are computed.

use sim_core::fixed::Rate;
use sim_core::time::Time;

use crate::catalogue::{Fabric, Nic, Topology};
use crate::provenance::Provenance;

use super::part::Constant;
use super::wiring::microseconds;

/// A fabric over the interfaces of alike nodes. Its parts are the leaves or rails, then the spine; its links are that of
/// every interface, by (node, interface), then the uplink of every leaf or rail.
#[derive(Clone, Debug)]
pub(super) struct FabricPlan {
    topology: Topology,
    nodes: u32,
    /// Interfaces of a node.
    nics: u32,
    /// Leaves or rails; 0 if the spine alone can stand for the fabric because nothing inside limits.
    pub inner: u32,
    nodes_per_leaf: u32,
    oversubscription: f64,
    /// Of an interface, per direction (byte/s).
    pub port_nominal: f64,
    /// Of an interface, per direction (byte/s).
    pub port_effective: f64,
    pub port_latency: Time,
    pub hop_latency: Time,
    pub port_provenance: Provenance,
    pub hop_provenance: Provenance,
    pub constants: Vec<Constant>,
}

impl FabricPlan {
    pub(super) fn new(fabric: (&str, &Fabric), nic: (&str, &Nic), nodes: u32, nics: u32) -> Self {
        let ((fabric_name, fabric), (nic_name, nic)) = (fabric, nic);
        let nodes_per_leaf = fabric.nodes_per_leaf.unwrap_or(1).max(1);
        let inner = match fabric.topology {
            Topology::FatTree if fabric.oversubscription <= 1.0 => 0,
            Topology::FatTree => nodes.div_ceil(nodes_per_leaf),
            Topology::RailOptimised => nics,
        };
        // A port of a slower switch slows the interface.
        let share = (fabric.port_gbit_per_s / nic.rate_gbit_per_s).min(1.0);
        let constant = |of: &str, name: &'static str, value: f64, provenance: &Provenance| Constant {
            of: of.to_owned(),
            name,
            value,
            provenance: provenance.clone(),
        };
        let constants = vec![
            constant(
                nic_name,
                "effective_gb_per_s",
                nic.effective_gb_per_s,
                nic.sources.of("effective_gb_per_s"),
            ),
            constant(nic_name, "latency_us", nic.latency_us, nic.sources.of("latency_us")),
            constant(
                fabric_name,
                "oversubscription",
                fabric.oversubscription,
                fabric.sources.of("oversubscription"),
            ),
            constant(
                fabric_name,
                "hop_latency_us",
                fabric.hop_latency_us,
                fabric.sources.of("hop_latency_us"),
            ),
        ];
        Self {
            topology: fabric.topology,
            nodes,
            nics,
            inner,
            nodes_per_leaf,
            oversubscription: fabric.oversubscription,
            port_nominal: nic.rate_gbit_per_s * share * 1e9 / 8.0,
            port_effective: nic.effective_gb_per_s * share * 1e9,
            port_latency: microseconds(nic.latency_us),
            hop_latency: microseconds(fabric.hop_latency_us),
            port_provenance: nic.sources.of("effective_gb_per_s").clone(),
            hop_provenance: fabric.sources.of("oversubscription").clone(),
            constants,
        }
    }

    /// Leaves or rails, and the spine.
    pub(super) fn parts(&self) -> u32 {
        self.inner + 1
    }

    /// Links, both directions as one.
    pub(super) fn links(&self) -> u32 {
        self.nodes * self.nics + self.inner
    }

    /// The part that an interface hangs on.
    pub(super) fn switch_of(&self, node: u32, nic: u32) -> u32 {
        match self.topology {
            _ if self.inner == 0 => 0,
            Topology::FatTree => node / self.nodes_per_leaf,
            Topology::RailOptimised => nic,
        }
    }

    /// The link of an interface.
    pub(super) fn port(&self, node: u32, nic: u32) -> u32 {
        node * self.nics + nic
    }

    /// The interface of a link, if it is not an uplink.
    pub(super) fn port_at(&self, link: u32) -> Option<(u32, u32)> {
        (link < self.nodes * self.nics).then(|| (link / self.nics, link % self.nics))
    }

    /// The link of a leaf or rail to the spine.
    pub(super) fn uplink(&self, inner: u32) -> u32 {
        self.nodes * self.nics + inner
    }

    /// Interfaces below a leaf or rail; the last leaf may be half empty.
    fn ports_below(&self, inner: u32) -> u32 {
        match self.topology {
            Topology::FatTree => {
                let first = inner * self.nodes_per_leaf;
                self.nodes_per_leaf.min(self.nodes - first) * self.nics
            }
            Topology::RailOptimised => self.nodes,
        }
    }

    /// Nominal and effective rate of an uplink per direction (byte/s), as far as the engine counts: nothing that large
    /// limits.
    pub(super) fn uplink_rates(&self, inner: u32) -> [f64; 2] {
        let ports = f64::from(self.ports_below(inner)) / self.oversubscription;
        let largest = Rate::MAX_CAPACITY.units_per_second();
        [self.port_nominal, self.port_effective].map(|port| (port * ports).min(largest))
    }

    /// The name of a part.
    pub(super) fn name(&self, part: u32) -> String {
        match self.topology {
            _ if part == self.inner => "fabric.spine".to_owned(),
            Topology::FatTree => format!("fabric.leaf[{part}]"),
            Topology::RailOptimised => format!("fabric.rail[{part}]"),
        }
    }
}
