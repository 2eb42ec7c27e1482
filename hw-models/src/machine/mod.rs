//! A machine: named parts and directed links, the routes over them, and what they are to the engine.
//!
//! A cluster is one node, repeated, and a fabric between the nodes. Only the node is stored; parts, links and names of the
//! others are computed from their numbers, so that 16,384 GPUs cost as much as 8.
//!
//! ```text
//!   node[0].gpu[0] = node[0].nvswitch          up and down: all NVLinks of the GPU
//!        |
//!   node[0].switch[0] - node[0].nic[0] - fabric.spine - node[1].nic[0] - ...
//!        |
//!   node[0].socket[0] = node[0].memory[0]      reads and writes share the memory
//! ```

mod beside;
mod degrade;
mod described;
mod error;
mod fabric;
mod graph;
mod names;
mod node;
mod part;
mod resources;
mod rings;
mod route;
mod set;
mod settings;
mod spelled;
mod transfers;
mod wiring;

pub use beside::{copy_ways, end_with, held, repeated};
pub use described::{
    Choice, ClassKind, Description, DescriptionFault, DriveSettings, GpuSettings, LinkSettings,
    NvLinkSettings, PortSettings, TensorRates, Throttle, VectorRates,
};
pub use error::{MachineError, NoRoute, Place, UnknownPart};
pub use part::{Constant, DirectedLink, Link, Part, PartId, PartKind};
pub use resources::{GpuResources, MachineResources, ResourceKind};
pub use rings::Rings;
pub use route::{Route, RouteKind};
pub use settings::{
    Cluster, Degrade, Ends, PartLink, PartSettings, Parts, Settings, SingleNode, SocketMemory, Under,
};
pub use transfers::{Transfers, join};

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use crate::catalogue::{Catalogue, Gpu, LinkKind, Ssd, look_up};

use degrade::Slowed;
use fabric::FabricPlan;
use graph::NodeGraph;
use resources::Alone;

/// The most GPUs of a machine.
pub const GPUS_MAX: u32 = 131_072;

/// Named parts and directed links; see the [module](self).
#[derive(Clone, Debug)]
pub struct Machine {
    graph: NodeGraph,
    nodes: u32,
    fabric: Option<FabricPlan>,
    slowed: Slowed,
    /// Whether names begin with `node[i].`; spelled-out parts have the names they were given.
    numbered_nodes: bool,
    /// Its resources on a platform, found once.
    alone: OnceLock<Alone>,
}

impl Machine {
    /// The machine that settings describe.
    ///
    /// # Errors
    /// All that is wrong with the description.
    pub fn of(catalogue: &Catalogue, settings: &Settings) -> Result<Self, Vec<MachineError>> {
        match settings {
            Settings::Cluster(cluster) => Self::build(catalogue, cluster),
            Settings::Node(node) => Self::build(catalogue, &node.cluster()),
            Settings::Parts(parts) => Self::from_parts(catalogue, parts),
        }
    }

    /// A cluster; with `count` 1 a single node without fabric.
    ///
    /// # Errors
    /// All that is wrong with the description.
    pub fn build(catalogue: &Catalogue, spec: &Cluster) -> Result<Self, Vec<MachineError>> {
        let mut errors = degrade::unclear(&spec.degrade);
        let catalogue = match described::of_cluster(catalogue, spec) {
            Ok(catalogue) => catalogue,
            Err(found) => {
                errors.extend(found);
                return Err(errors);
            }
        };
        let changed = set::changed(&catalogue, spec);
        let graph = node::build(&changed, spec).map_err(|found| errors.extend(found)).ok();
        errors.extend(set::check(&catalogue, spec, graph.as_ref()));
        let size = within_limits(spec, graph.as_ref().map_or(0, |graph| graph.gpus.len()));
        let fabric = fabric(&changed, spec, graph.as_ref());
        if let (Some(graph), Ok(())) = (graph, &size) {
            let network = fabric.as_ref().ok().cloned().flatten();
            let slowed = Slowed::default();
            let (nodes, alone) = (spec.nodes(), OnceLock::new());
            let mut machine = Self { graph, nodes, fabric: network, slowed, numbered_nodes: true, alone };
            // Where the network is not known, nor are its parts.
            let known = |line: &&Degrade| fabric.is_ok() || !line.name().contains("fabric.");
            errors.extend(machine.degrade(spec.degrade.iter().filter(known)));
            if errors.is_empty() && fabric.is_ok() {
                return Ok(machine);
            }
        }
        errors.extend([size.err(), fabric.err()].into_iter().flatten().flatten());
        // What all parts of a kind get wrong is said once.
        let mut once: Vec<MachineError> = Vec::new();
        for error in errors {
            if !once.contains(&error) {
                once.push(error);
            }
        }
        Err(once)
    }

    /// A machine whose parts are spelled out.
    ///
    /// # Errors
    /// All that is wrong with the description.
    pub fn from_parts(catalogue: &Catalogue, spec: &Parts) -> Result<Self, Vec<MachineError>> {
        let mut errors = degrade::unclear(&spec.degrade);
        let built = described::of_parts(catalogue, spec);
        let graph = match built.and_then(|catalogue| spelled::build(&catalogue, spec)) {
            Ok(graph) => graph,
            Err(found) => {
                errors.extend(found);
                return Err(errors);
            }
        };
        let (slowed, alone) = (Slowed::default(), OnceLock::new());
        let mut machine = Self { graph, nodes: 1, fabric: None, slowed, numbered_nodes: false, alone };
        errors.extend(machine.degrade(&spec.degrade));
        if errors.is_empty() { Ok(machine) } else { Err(errors) }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// GPUs of one node.
    pub fn gpus_per_node(&self) -> u32 {
        self.graph.gpus.len() as u32
    }

    /// Network interfaces of one node.
    pub fn nics_per_node(&self) -> u32 {
        self.graph.nics.len() as u32
    }

    /// Number of GPUs.
    pub fn gpus(&self) -> u32 {
        self.nodes * self.gpus_per_node()
    }

    /// The GPU number `index`, counted node by node.
    ///
    /// # Panics
    /// If there are fewer GPUs.
    pub fn gpu(&self, index: u32) -> PartId {
        let (node, local) = (index / self.gpus_per_node(), index % self.gpus_per_node());
        assert!(node < self.nodes, "the machine has {} GPUs and no number {index}", self.gpus());
        self.global(node, self.graph.gpus[local as usize].0)
    }

    /// The catalogue entry of a GPU.
    pub fn gpu_model(&self, gpu: PartId) -> Option<&Gpu> {
        let (_, local) = self.local(gpu)?;
        self.graph.gpus.iter().find(|(part, _)| *part == local).map(|(_, model)| model)
    }

    /// The drives of a node.
    pub fn drives_of_node(&self, node: u32) -> impl Iterator<Item = PartId> + '_ {
        self.graph.drives.iter().map(move |&(local, _)| self.global(node, local))
    }

    /// The catalogue entry of a drive.
    pub fn drive_model(&self, drive: PartId) -> Option<&Ssd> {
        let (_, local) = self.local(drive)?;
        self.graph.drives.iter().find(|(part, _)| *part == local).map(|(_, model)| model)
    }

    /// Rate of writes to the drive that a link leads to while its cache lasts (byte/s), after
    /// `degrade`. `None`: it has no cache that is known.
    pub fn burst_write(&self, into: DirectedLink) -> Option<f64> {
        let link = self.link(into);
        let drive = self.drive_model(link.to)?;
        let burst = drive.write_cache_gb.and(drive.burst_write_gb_per_s)?;
        Some(burst * 1e9 * self.slowed(into, link.half_duplex))
    }

    /// The clock of a GPU relative to that of its peak rates, after `degrade`.
    pub fn clock(&self, gpu: PartId) -> f64 {
        self.slowed.clocks.get(&gpu.0).copied().unwrap_or(1.0)
    }

    /// The host memory nearest to a part.
    pub fn memory_of(&self, part: PartId) -> Option<PartId> {
        let (node, local) = self.local(part)?;
        Some(self.global(node, self.graph.memory_of[local as usize]?))
    }

    /// The network interface through which a part sends.
    pub fn nic_of(&self, part: PartId) -> Option<PartId> {
        let (node, local) = self.local(part)?;
        let nic = self.graph.nic_of[local as usize]?;
        Some(self.global(node, self.graph.nics[nic as usize]))
    }

    /// All parts: those of node 0, of node 1, ..., then the fabric.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = PartId> + use<> {
        let fabric = self.fabric.as_ref().map_or(0, FabricPlan::parts);
        (0..self.nodes * self.parts_per_node() + fabric).map(PartId)
    }

    /// All directions of all links: those of node 0, of node 1, ..., then the fabric.
    pub fn links(&self) -> impl ExactSizeIterator<Item = DirectedLink> + use<> {
        let fabric = self.fabric.as_ref().map_or(0, FabricPlan::links);
        (0..self.nodes * self.hops_per_node() + 2 * fabric).map(DirectedLink)
    }

    /// A part.
    ///
    /// # Panics
    /// If the number is not of this machine.
    pub fn part(&self, id: PartId) -> Part<'_> {
        match self.local(id) {
            Some((node, local)) => {
                let part = &self.graph.parts[local as usize];
                let name = self.name_within(node, &part.name);
                let model = part.model.as_deref();
                Part { name, kind: part.kind, model, node: Some(node), capacity: part.capacity }
            }
            None => {
                let (fabric, part) = self.in_fabric(id);
                let kind = PartKind::NetworkSwitch;
                Part { name: fabric.name(part), kind, model: None, node: None, capacity: None }
            }
        }
    }

    /// What something is called in results that its node knows by a name.
    pub fn name_within(&self, node: u32, name: &str) -> String {
        if self.numbered_nodes { format!("node[{node}].{name}") } else { name.to_owned() }
    }

    /// One direction of a link.
    ///
    /// # Panics
    /// If the number is not of this machine.
    pub fn link(&self, id: DirectedLink) -> Link<'_> {
        let (node, hop) = (id.0 / self.hops_per_node(), id.0 % self.hops_per_node());
        let mut link = if node < self.nodes {
            let (wire, direction) = (&self.graph.wires[hop as usize / 2], hop as usize % 2);
            Link {
                from: self.global(node, wire.ends[direction]),
                to: self.global(node, wire.ends[1 - direction]),
                kind: wire.kind,
                bytes_per_s: wire.effective[direction],
                nominal_bytes_per_s: wire.nominal[direction],
                nvlinks: wire.nvlinks,
                latency: wire.latency,
                half_duplex: wire.half_duplex,
                copies: wire.copies,
                provenance: &wire.provenance,
            }
        } else {
            self.fabric_link(id)
        };
        let slowed = self.slowed(id, link.half_duplex);
        link.bytes_per_s *= slowed;
        link.copies = link.copies.map(|rates| rates.times(slowed));
        link
    }

    /// What one direction of a link carries for all its users together (byte/s). What libraries plan with over NVLink is
    /// less than that, and there each user is capped on its own; a slow one carries its part of what they plan with.
    pub fn capacity(&self, id: DirectedLink) -> f64 {
        self.carried(id, &self.link(id))
    }

    fn carried(&self, id: DirectedLink, link: &Link<'_>) -> f64 {
        let is_slow = self.slowed(id, link.half_duplex) < 1.0;
        if link.kind == LinkKind::NvLink && !is_slow { link.nominal_bytes_per_s } else { link.bytes_per_s }
    }

    fn slowed(&self, id: DirectedLink, half_duplex: bool) -> f64 {
        self.slowed.links.get(&self.canonical(id, half_duplex).0).copied().unwrap_or(1.0)
    }

    /// The links that begin at a part.
    pub fn links_from(&self, part: PartId) -> impl Iterator<Item = DirectedLink> + '_ {
        let (inside, outside) = match self.local(part) {
            Some((node, local)) => {
                let base = node * self.hops_per_node();
                let hops = &self.graph.neighbours[local as usize];
                let position = self.graph.nics.iter().position(|&nic| nic == local);
                let port = position
                    .zip(self.fabric.as_ref())
                    .map(|(nic, fabric)| self.fabric_hop(fabric.port(node, nic as u32)));
                (Some(hops.iter().map(move |&(hop, _)| DirectedLink(base + hop))), port.into_iter().collect())
            }
            None => (None, self.links_from_fabric(part)),
        };
        inside.into_iter().flatten().chain(outside)
    }

    /// The direct link from one part to another.
    pub fn link_between(&self, from: PartId, to: PartId) -> Option<DirectedLink> {
        self.links_from(from).find(|&link| self.link(link).to == to)
    }

    /// The constants that this machine rests on, each once.
    pub fn constants(&self) -> impl Iterator<Item = &Constant> {
        self.graph.constants.iter().chain(self.fabric.iter().flat_map(|fabric| &fabric.constants))
    }

    /// The direction that stands for both if they share one capacity.
    fn shared_direction(&self, link: DirectedLink) -> DirectedLink {
        self.canonical(link, self.link(link).half_duplex)
    }

    fn canonical(&self, link: DirectedLink, half_duplex: bool) -> DirectedLink {
        if half_duplex { DirectedLink(link.0 & !1) } else { link }
    }

    fn parts_per_node(&self) -> u32 {
        self.graph.parts.len() as u32
    }

    fn hops_per_node(&self) -> u32 {
        2 * self.graph.wires.len() as u32
    }

    fn global(&self, node: u32, local: u32) -> PartId {
        PartId(node * self.parts_per_node() + local)
    }

    /// Node and number within it; nothing for parts of the fabric.
    fn local(&self, part: PartId) -> Option<(u32, u32)> {
        let (node, local) = (part.0 / self.parts_per_node(), part.0 % self.parts_per_node());
        (node < self.nodes).then_some((node, local))
    }

    /// The fabric and the number of a part within it.
    fn in_fabric(&self, part: PartId) -> (&FabricPlan, u32) {
        let local = part.0 - self.nodes * self.parts_per_node();
        let fabric = self.fabric.as_ref().filter(|fabric| local < fabric.parts());
        (fabric.unwrap_or_else(|| panic!("the machine has no part number {}", part.0)), local)
    }

    fn fabric_part(&self, part: u32) -> PartId {
        PartId(self.nodes * self.parts_per_node() + part)
    }

    /// The direction of a fabric link that leads to the spine.
    fn fabric_hop(&self, link: u32) -> DirectedLink {
        DirectedLink(self.nodes * self.hops_per_node() + 2 * link)
    }

    fn fabric_link(&self, id: DirectedLink) -> Link<'_> {
        let hop = id.0 - self.nodes * self.hops_per_node();
        let fabric = self.fabric.as_ref().filter(|fabric| hop < 2 * fabric.links());
        let fabric = fabric.unwrap_or_else(|| panic!("the machine has no link number {}", id.0));
        let (ends, rates, latency, provenance) = if let Some((node, nic)) = fabric.port_at(hop / 2) {
            let switch = self.fabric_part(fabric.switch_of(node, nic));
            let ends = [self.global(node, self.graph.nics[nic as usize]), switch];
            (ends, [fabric.port_nominal, fabric.port_effective], fabric.port_latency, &fabric.port_provenance)
        } else {
            let inner = hop / 2 - fabric.uplink(0);
            let ends = [self.fabric_part(inner), self.fabric_part(fabric.inner)];
            (ends, fabric.uplink_rates(inner), fabric.hop_latency, &fabric.hop_provenance)
        };
        let [from, to] = if hop.is_multiple_of(2) { ends } else { [ends[1], ends[0]] };
        let [nominal_bytes_per_s, bytes_per_s] = rates;
        let kind = LinkKind::Network;
        let (half_duplex, copies, nvlinks) = (false, None, 0);
        Link {
            from,
            to,
            kind,
            bytes_per_s,
            nominal_bytes_per_s,
            nvlinks,
            latency,
            half_duplex,
            copies,
            provenance,
        }
    }

    fn links_from_fabric(&self, part: PartId) -> Vec<DirectedLink> {
        let (fabric, part) = self.in_fabric(part);
        let spine = part == fabric.inner;
        let ports = (0..self.nodes)
            .flat_map(|node| (0..self.nics_per_node()).map(move |nic| (node, nic)))
            .filter(|&(node, nic)| fabric.switch_of(node, nic) == part)
            .map(|(node, nic)| self.fabric_hop(fabric.port(node, nic)).reverse());
        let uplinks = (0..fabric.inner).filter(|&inner| spine || inner == part).map(|inner| {
            let up = self.fabric_hop(fabric.uplink(inner));
            if spine { up.reverse() } else { up }
        });
        ports.chain(uplinks).collect()
    }
}

fn within_limits(spec: &Cluster, gpus_per_node: usize) -> Result<(), Vec<MachineError>> {
    let gpus = spec.count.get() * gpus_per_node as u64;
    if gpus > u64::from(GPUS_MAX) {
        {
            let text = format!("{gpus} GPUs are more than the {GPUS_MAX} a machine may have: lower `count`");
            Err(vec![MachineError::of_setting("count", text)])
        }
    } else {
        Ok(())
    }
}

/// The network of a cluster of several nodes; of an unknown node it is only looked for.
fn fabric(
    catalogue: &Catalogue,
    spec: &Cluster,
    graph: Option<&NodeGraph>,
) -> Result<Option<FabricPlan>, Vec<MachineError>> {
    let (node, count) = (&spec.node, spec.nodes());
    let lacks = |what: &str| Err(vec![MachineError::of(node, format!("{count} nodes `{node}` need {what}"))]);
    let own = catalogue.nodes.get(&spec.node).and_then(|node| node.fabric.as_deref());
    let named = spec.fabric.as_deref().or(own);
    let found = named.map(|name| look_up(&catalogue.fabrics, "fabric", name).map(|fabric| (name, fabric)));
    let found = found.transpose().map_err(|error| vec![error.into()])?;
    let Some(graph) = graph.filter(|_| count > 1) else { return Ok(None) };
    let Some(&nic) = graph.nics.first() else {
        return lacks("network interfaces, and it has none: take a node with some, or `count: 1`");
    };
    let Some((name, fabric)) = found else {
        return lacks("a `fabric`, and it has no usual one: name one of the catalogue");
    };
    let nic_name = graph.parts[nic as usize].model.as_deref().unwrap_or_default();
    let nic = look_up(&catalogue.nics, "nic", nic_name).map_err(|error| vec![error.into()])?;
    let outside =
        |of: &str, constant: &'static str, value: f64, range: RangeInclusive<f64>, expected: &'static str| {
            let error = || MachineError::bad_constant(of, constant, value, expected);
            (!range.contains(&value)).then(error)
        };
    let wrong: Vec<MachineError> = [
        outside(name, "oversubscription", fabric.oversubscription, 1.0..=1e6, "at least 1; 1 never limits"),
        outside(name, "port_gbit_per_s", fabric.port_gbit_per_s, 1e-3..=1e6, "a positive rate"),
        outside(name, "hop_latency_us", fabric.hop_latency_us, 0.0..=1e6, "at most a second"),
        outside(nic_name, "rate_gbit_per_s", nic.rate_gbit_per_s, 1e-3..=1e6, "a positive rate"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if wrong.is_empty() {
        Ok(Some(FabricPlan::new((name, fabric), (nic_name, nic), count, graph.nics.len() as u32)))
    } else {
        Err(wrong)
    }
}
