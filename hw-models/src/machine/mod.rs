//! A machine: named parts and directed links, the routes over them, and what they are to the engine.
//!
//! A cluster is one node, repeated, or groups of such nodes, and a fabric between the nodes. One
//! node of a group is stored; parts, links and names of the others are computed from their numbers,
//! so that 16,384 GPUs cost as much as 8.
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
mod groups;
mod names;
mod node;
mod part;
mod resources;
mod rings;
mod route;
mod scaled;
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
pub use scaled::PartClass;
pub use settings::{
    Cluster, Degrade, Ends, Hashed, MoreNodes, PartLink, PartSettings, Parts, Routing, Settings, SingleNode,
    SocketMemory, SocketProcessor, Under,
};
pub use transfers::{Transfers, join, part_of};

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use crate::catalogue::{Catalogue, Gpu, LinkKind, Processor, Ssd};
use crate::digest::digest;

use degrade::Slowed;
use fabric::FabricPlan;
use graph::NodeGraph;
use groups::{Groups, NodeAt};
use resources::Alone;
use settings::AlikeNodes;

/// The most GPUs of a machine.
pub const GPUS_MAX: u32 = 131_072;

/// Groups of alike nodes that a cluster has at most, each of which is built by itself.
const GROUPS_MAX: usize = 64;

/// Named parts and directed links; see the [module](self).
#[derive(Clone, Debug)]
pub struct Machine {
    groups: Groups,
    fabric: Option<FabricPlan>,
    slowed: Slowed,
    /// Whether names begin with `node[i].`; spelled-out parts have the names they were given.
    numbered_nodes: bool,
    /// Its resources on a platform, found once.
    alone: OnceLock<Alone>,
    digest: OnceLock<[u64; 2]>,
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
        let (mut catalogue, mut groups) = (Cow::Borrowed(catalogue), Vec::new());
        let alike = spec.groups();
        if alike.len() > GROUPS_MAX {
            let text = format!(
                "{} groups of nodes are more than the {GROUPS_MAX} of a cluster: write alike nodes as one line",
                alike.len()
            );
            errors.push(MachineError::of_setting("more", text));
            return Err(errors);
        }
        for nodes in alike {
            let built = nodes.build(&mut catalogue, &mut errors);
            groups.push((nodes, built));
        }
        let graphs: Vec<(&AlikeNodes, Option<&NodeGraph>)> =
            groups.iter().map(|(nodes, graph)| (nodes, graph.as_ref())).collect();
        let size = sizes(&graphs);
        let fabric = fabric::plan(&catalogue, spec, &graphs);
        if graphs.iter().all(|(_, graph)| graph.is_some()) && size.is_ok() {
            let network = fabric.as_ref().ok().cloned().flatten();
            let nodes = groups.into_iter().filter_map(|(nodes, graph)| Some((graph?, nodes.count())));
            let groups = Groups::new(nodes.collect());
            let mut machine = Self::from_groups(groups, network, true);
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
        let mut machine = Self::from_groups(Groups::new(vec![(graph, 1)]), None, false);
        errors.extend(machine.degrade(&spec.degrade));
        if errors.is_empty() { Ok(machine) } else { Err(errors) }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.groups.nodes()
    }

    /// Ranges of nodes that are alike, in order.
    pub fn alike_nodes(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let firsts = self.groups.firsts().enumerate();
        firsts.map(|(group, first)| first.number..first.number + self.groups.nodes_of(group))
    }

    /// GPUs of one node; every node has as many.
    pub fn gpus_per_node(&self) -> u32 {
        self.groups.gpus_per_node()
    }

    /// Network interfaces of a node.
    ///
    /// # Panics
    /// If there are fewer nodes.
    pub fn nics_of_node(&self, node: u32) -> u32 {
        self.node(node).graph.nics.len() as u32
    }

    /// Number of GPUs.
    pub fn gpus(&self) -> u32 {
        self.nodes() * self.gpus_per_node()
    }

    fn from_groups(groups: Groups, fabric: Option<FabricPlan>, numbered_nodes: bool) -> Self {
        let (slowed, alone, digest) = Default::default();
        Self { groups, fabric, slowed, numbered_nodes, alone, digest }
    }

    /// Digits that tell it from others: of all that is known of it.
    pub fn digest(&self) -> [u64; 2] {
        *self.digest.get_or_init(|| {
            digest(&format!("{:?}", (&self.groups, &self.fabric, &self.slowed, self.numbered_nodes)))
        })
    }

    /// The GPU number `index`, counted node by node.
    ///
    /// # Panics
    /// If there are fewer GPUs.
    pub fn gpu(&self, index: u32) -> PartId {
        let (node, local) = self.place_of_gpu(index);
        node.part(node.graph.gpus[local as usize].0)
    }

    /// The node of a GPU, and the position of the GPU there.
    fn place_of_gpu(&self, index: u32) -> (NodeAt<'_>, u32) {
        assert!(index < self.gpus(), "the machine has {} GPUs and no number {index}", self.gpus());
        (self.node(index / self.gpus_per_node()), index % self.gpus_per_node())
    }

    /// Different GPUs of the machine in the order of their first numbers: names and entries of the
    /// catalogue.
    pub fn gpu_kinds(&self) -> &[(String, Gpu)] {
        self.groups.kinds()
    }

    /// The kind of the GPU number `index`, as a position in [`Machine::gpu_kinds`].
    ///
    /// # Panics
    /// If there are fewer GPUs.
    pub fn kind_of_gpu(&self, index: u32) -> usize {
        let (node, local) = self.place_of_gpu(index);
        node.kind(local) as usize
    }

    /// The catalogue entry of a GPU.
    pub fn gpu_model(&self, gpu: PartId) -> Option<&Gpu> {
        let (node, local) = self.groups.of_part(gpu)?;
        node.graph.gpus.iter().find(|(part, _)| *part == local).map(|(_, model)| model)
    }

    /// The drives of a node.
    ///
    /// # Panics
    /// If there are fewer nodes.
    pub fn drives_of_node(&self, node: u32) -> impl Iterator<Item = PartId> + '_ {
        let node = self.node(node);
        node.graph.drives.iter().map(move |&(local, _)| node.part(local))
    }

    /// The catalogue entry of a drive.
    pub fn drive_model(&self, drive: PartId) -> Option<&Ssd> {
        let (node, local) = self.groups.of_part(drive)?;
        node.graph.drives.iter().find(|(part, _)| *part == local).map(|(_, model)| model)
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
        let (node, local) = self.groups.of_part(part)?;
        Some(node.part(node.graph.memory_of[local as usize]?))
    }

    /// The host memories of a node, in the order of its sockets.
    ///
    /// # Panics
    /// If there are fewer nodes.
    pub fn memories_of_node(&self, node: u32) -> impl Iterator<Item = PartId> + '_ {
        let node = self.node(node);
        let parts = (0..).zip(&node.graph.parts);
        parts.filter(|(_, part)| part.kind == PartKind::Memory).map(move |(local, _)| node.part(local))
    }

    /// Processors of a node, in the order of its sockets; none where one of them is not known.
    ///
    /// # Panics
    /// If there are fewer nodes.
    pub fn processors_of_node(&self, node: u32) -> Option<Vec<Processor>> {
        let graph = self.node(node).graph;
        let parts = (0..).zip(&graph.parts);
        let sockets = parts.filter(|(_, part)| part.kind == PartKind::Socket);
        sockets.map(|(local, _)| graph.processors.get(&local).copied()).collect()
    }

    /// The network interface through which a part sends.
    pub fn nic_of(&self, part: PartId) -> Option<PartId> {
        let (node, local) = self.groups.of_part(part)?;
        let nic = node.graph.nic_of[local as usize]?;
        Some(node.part(node.graph.nics[nic as usize]))
    }

    /// All parts: those of node 0, of node 1, ..., then the fabric.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = PartId> + use<> {
        let fabric = self.fabric.as_ref().map_or(0, FabricPlan::parts);
        (0..self.groups.parts() + fabric).map(PartId)
    }

    /// All directions of all links: those of node 0, of node 1, ..., then the fabric.
    pub fn links(&self) -> impl ExactSizeIterator<Item = DirectedLink> + use<> {
        let fabric = self.fabric.as_ref().map_or(0, FabricPlan::links);
        (0..self.groups.hops() + 2 * fabric).map(DirectedLink)
    }

    /// A part.
    ///
    /// # Panics
    /// If the number is not of this machine.
    pub fn part(&self, id: PartId) -> Part<'_> {
        match self.groups.of_part(id) {
            Some((node, local)) => {
                let part = &node.graph.parts[local as usize];
                let name = self.name_within(node.number, &part.name);
                let model = part.model.as_deref();
                Part { name, kind: part.kind, model, node: Some(node.number), capacity: part.capacity }
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
        let mut link = if let Some((node, hop)) = self.groups.of_hop(id) {
            let (wire, direction) = (&node.graph.wires[hop as usize / 2], hop as usize % 2);
            Link {
                from: node.part(wire.ends[direction]),
                to: node.part(wire.ends[1 - direction]),
                kind: wire.kind,
                bytes_per_s: wire.effective[direction],
                nominal_bytes_per_s: wire.nominal[direction],
                nvlinks: wire.nvlinks,
                latency: wire.latency,
                half_duplex: wire.half_duplex,
                copies: wire.copies,
                reads: wire.reads,
                provenance: &wire.provenance,
            }
        } else {
            self.fabric_link(id)
        };
        let slowed = self.slowed(id, link.half_duplex);
        link.bytes_per_s *= slowed;
        link.copies = link.copies.map(|rates| rates.times(slowed));
        link.reads = link.reads.map(|reads| reads.times(slowed));
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
        let (inside, outside) = match self.groups.of_part(part) {
            Some((node, local)) => {
                let hops = &node.graph.neighbours[local as usize];
                let position = node.graph.nics.iter().position(|&nic| nic == local);
                let port = position
                    .zip(self.fabric.as_ref())
                    .map(|(nic, fabric)| self.fabric_hop(fabric.port(node.number, nic as u32)));
                (Some(hops.iter().map(move |&(hop, _)| node.hop(hop))), port.into_iter().collect())
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
        let of_nodes = self.groups.firsts().flat_map(|node| &node.graph.constants);
        let mut once: Vec<&Constant> = Vec::new();
        for constant in of_nodes.chain(self.fabric.iter().flat_map(|fabric| &fabric.constants)) {
            if !once.contains(&constant) {
                once.push(constant);
            }
        }
        once.into_iter()
    }

    /// The direction that stands for both if they share one capacity.
    fn shared_direction(&self, link: DirectedLink) -> DirectedLink {
        self.canonical(link, self.link(link).half_duplex)
    }

    fn canonical(&self, link: DirectedLink, half_duplex: bool) -> DirectedLink {
        if half_duplex { DirectedLink(link.0 & !1) } else { link }
    }

    fn node(&self, number: u32) -> NodeAt<'_> {
        let node = self.groups.node(number);
        node.unwrap_or_else(|| panic!("the machine has {} nodes and no number {number}", self.nodes()))
    }

    /// The fabric and the number of a part within it.
    fn in_fabric(&self, part: PartId) -> (&FabricPlan, u32) {
        let local = part.0 - self.groups.parts();
        let fabric = self.fabric.as_ref().filter(|fabric| local < fabric.parts());
        (fabric.unwrap_or_else(|| panic!("the machine has no part number {}", part.0)), local)
    }

    fn fabric_part(&self, part: u32) -> PartId {
        PartId(self.groups.parts() + part)
    }

    /// The direction of a fabric link that leads to the spine.
    fn fabric_hop(&self, link: u32) -> DirectedLink {
        DirectedLink(self.groups.hops() + 2 * link)
    }

    fn fabric_link(&self, id: DirectedLink) -> Link<'_> {
        let hop = id.0 - self.groups.hops();
        let fabric = self.fabric.as_ref().filter(|fabric| hop < 2 * fabric.links());
        let fabric = fabric.unwrap_or_else(|| panic!("the machine has no link number {}", id.0));
        let (ends, rates, latency, provenance) = if let Some((node, nic)) = fabric.port_at(hop / 2) {
            let switch = self.fabric_part(fabric.switch_of(node, nic));
            let (side, node) = (fabric.side(node), self.node(node));
            let ends = [node.part(node.graph.nics[nic as usize]), switch];
            (ends, [side.port_nominal, side.port_effective], side.port_latency, &side.port_provenance)
        } else {
            let inner = fabric.below(hop / 2);
            let ends = [self.fabric_part(inner), self.fabric_part(fabric.inner)];
            (ends, fabric.uplink_rates(inner), fabric.hop_latency, &fabric.hop_provenance)
        };
        let [from, to] = if hop.is_multiple_of(2) { ends } else { [ends[1], ends[0]] };
        let [nominal_bytes_per_s, bytes_per_s] = rates;
        let kind = LinkKind::Network;
        let (half_duplex, copies, reads, nvlinks) = (false, None, None, 0);
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
            reads,
            provenance,
        }
    }

    fn links_from_fabric(&self, part: PartId) -> Vec<DirectedLink> {
        let (fabric, part) = self.in_fabric(part);
        let spine = part == fabric.inner;
        let ports = (0..self.nodes())
            .flat_map(|node| (0..self.nics_of_node(node)).map(move |nic| (node, nic)))
            .filter(|&(node, nic)| fabric.switch_of(node, nic) == part)
            .map(|(node, nic)| self.fabric_hop(fabric.port(node, nic)).reverse());
        let inner = (0..fabric.inner).filter(|&inner| spine || inner == part);
        let uplinks = inner.flat_map(|inner| fabric.uplinks(inner)).map(|link| {
            let up = self.fabric_hop(link);
            if spine { up.reverse() } else { up }
        });
        ports.chain(uplinks).collect()
    }
}

/// Checks that nodes have as many GPUs as each other, and together no more than a machine may have.
fn sizes(groups: &[(&AlikeNodes, Option<&NodeGraph>)]) -> Result<(), Vec<MachineError>> {
    let known = groups.iter().filter_map(|&(nodes, graph)| Some((nodes, graph?.gpus.len())));
    let Some((first, each)) = known.clone().next() else { return Ok(()) };
    let unlike = known.clone().filter(|&(_, gpus)| gpus != each).map(|(nodes, gpus)| {
        let text = format!(
            "a node `{}` has {gpus} GPUs, but a node `{}` of the same cluster {each}: take nodes with as many GPUs, or \
             spell the machine out as `machine: {{ parts: ... }}`",
            nodes.node(),
            first.node()
        );
        MachineError::of_setting(nodes.path("node"), text)
    });
    let mut errors: Vec<MachineError> = unlike.collect();
    let all = known.map(|(nodes, gpus)| u64::from(nodes.count()) * gpus as u64).sum::<u64>();
    if all > u64::from(GPUS_MAX) {
        let text = format!("{all} GPUs are more than the {GPUS_MAX} a machine may have: lower `count`");
        errors.push(MachineError::of_setting("count", text));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
