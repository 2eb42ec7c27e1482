//! A node of the catalogue as parts and wires.

use std::borrow::Cow;

use crate::catalogue::{Branch, Catalogue, HostMemory, Node, look_up};
use crate::provenance::Sources;

use super::error::MachineError;
use super::graph::NodeGraph;
use super::part::PartKind;
use super::set::{self, PartChanges};
use super::settings::AlikeNodes;
use super::wiring::{Lanes, PARTS_MAX, Wiring};
use super::{Choice, Cluster, Place, described};

impl AlikeNodes {
    /// Parts and wires of one of the nodes, whose parts that are described become entries of the
    /// catalogue. `None`: something is wrong, and is among the errors.
    pub(super) fn build(
        &self,
        catalogue: &mut Cow<'_, Catalogue>,
        errors: &mut Vec<MachineError>,
    ) -> Option<NodeGraph> {
        let spec = &self.cluster;
        let mut found = Vec::new();
        let graph = match described::of_cluster(catalogue, spec) {
            Ok(known) => {
                let graph =
                    build(&set::changed(&known, spec), spec).map_err(|wrong| found.extend(wrong)).ok();
                found.extend(set::check(&known, spec, graph.as_ref()));
                if let Cow::Owned(known) = known {
                    *catalogue = Cow::Owned(known);
                }
                graph
            }
            Err(wrong) => {
                found.extend(wrong);
                None
            }
        };
        for mut error in found {
            if let Place::Setting(setting) = &mut error.place {
                *setting = self.path(setting);
            }
            errors.push(error);
        }
        graph
    }
}

/// Parts and wires of the node of a cluster.
fn build(catalogue: &Catalogue, spec: &Cluster) -> Result<NodeGraph, Vec<MachineError>> {
    let name = &spec.node;
    let other = spec.gpu.as_ref().map(|gpu| look_up(&catalogue.gpus, "gpu", gpu.name()));
    let node = match (look_up(&catalogue.nodes, "node", name), other.transpose()) {
        (Ok(node), Ok(_)) => node,
        (node, other) => {
            return Err([node.err(), other.err()].into_iter().flatten().map(MachineError::from).collect());
        }
    };
    let devices =
        |branch: &Branch| u64::from(branch.gpus) + u64::from(branch.nics) + u64::from(branch.ssds) + 1;
    let parts = node.pcie.tree.iter().map(devices).sum::<u64>();
    if parts > PARTS_MAX as u64 {
        return Err(vec![MachineError::too_many_parts(parts)]);
    }
    let mut wiring = Wiring::new(catalogue);
    let sockets = sockets(&mut wiring, spec, node);
    if let Some(tree) = wiring.link_class(&node.pcie.class, 16) {
        let gpu = spec.gpu.as_ref().map_or(&*node.gpu, Choice::name);
        let mut builder =
            Tree { name, node, gpu, set: &spec.set, tree, sockets, switches: vec![], gpus: vec![] };
        builder.grow(&mut wiring);
        nvlinks(&mut wiring, name, node, &builder.gpus);
    }
    if node.pcie.tree.iter().all(|branch| branch.gpus == 0) {
        wiring.errors.push(MachineError::no_gpus(&format!("node `{name}`")));
    }
    wiring.finish()
}

/// Sockets with their memories, every two joined.
fn sockets<'a>(wiring: &mut Wiring<'a>, spec: &Cluster, node: &'a Node) -> Vec<u32> {
    let count = node.sockets.clamp(1, SOCKETS_MAX);
    let sockets: Vec<u32> =
        (0..count).map(|i| wiring.part(format!("socket[{i}]"), PartKind::Socket)).collect();
    for (i, &socket) in sockets.iter().enumerate() {
        let name = format!("socket[{i}]");
        match set::processor(&spec.set, &name, node.processor) {
            Some(set) if Some(set) != node.processor => {
                wiring.processor(socket, set, &name, &Sources::written());
            }
            Some(usual) => wiring.processor(socket, usual, &spec.node, &node.sources),
            None => {}
        }
    }
    let usual = HostMemory { gib: node.host_memory.gib / f64::from(count), ..node.host_memory };
    for (i, &socket) in sockets.iter().enumerate() {
        let name = format!("memory[{i}]");
        match set::memory(&spec.set, &name, usual) {
            Some(memory) => wiring.memory(name.clone(), socket, &memory, &name, &Sources::written()),
            None => wiring.memory(name, socket, &usual, &spec.node, &node.sources),
        }
    }
    if count > 1 {
        match &node.socket_link {
            None => {
                let node = &spec.node;
                let text =
                    format!("node `{node}` has several sockets and no `socket_link`: name its link class");
                wiring.errors.push(MachineError::of(node, text));
            }
            Some(class) => {
                let Some(lanes) = wiring.link_class(class, 1) else { return sockets };
                for (i, &a) in sockets.iter().enumerate() {
                    for &b in &sockets[i + 1..] {
                        wiring.link(a, b, lanes);
                    }
                }
            }
        }
    }
    sockets
}

/// More sockets than any node has; every two are joined.
const SOCKETS_MAX: u32 = 16;

/// The PCIe tree under construction: the parts made so far, in order.
struct Tree<'a> {
    name: &'a str,
    node: &'a Node,
    gpu: &'a str,
    set: &'a PartChanges,
    tree: Lanes<'a>,
    sockets: Vec<u32>,
    switches: Vec<u32>,
    gpus: Vec<u32>,
}

impl<'a> Tree<'a> {
    fn grow(&mut self, wiring: &mut Wiring<'a>) {
        let (mut nics, mut ssds) = (0, 0);
        for branch in &self.node.pcie.tree {
            let Some(root) = self.root(wiring, branch) else { continue };
            let above = if branch.switch {
                let switch = wiring.part(format!("switch[{}]", self.switches.len()), PartKind::Switch);
                self.hang(wiring, switch, root, Lanes { lanes: branch.lanes, ..self.tree });
                self.switches.push(switch);
                switch
            } else {
                root
            };
            for _ in 0..branch.gpus {
                let gpu = wiring.gpu(format!("gpu[{}]", self.gpus.len()), self.gpu);
                self.gpus.extend(gpu);
                self.attach(wiring, gpu, above);
            }
            if let Some(model) = self.model(wiring, "nic", self.node.nic.as_deref(), branch.nics) {
                for _ in 0..branch.nics {
                    let nic = wiring.nic(format!("nic[{nics}]"), model);
                    nics += 1;
                    self.attach(wiring, nic, above);
                }
            }
            if let Some(model) = self.model(wiring, "ssd", self.node.ssd.as_deref(), branch.ssds) {
                for _ in 0..branch.ssds {
                    let ssd = wiring.ssd(format!("ssd[{ssds}]"), model);
                    ssds += 1;
                    self.attach(wiring, ssd, above);
                }
            }
        }
    }

    /// What a branch hangs on.
    fn root(&self, wiring: &mut Wiring<'a>, branch: &Branch) -> Option<u32> {
        let index = |kind: &str| branch.under.strip_prefix(kind)?.strip_suffix(']')?.parse::<usize>().ok();
        let root = match (index("socket["), index("switch[")) {
            (Some(socket), _) => self.sockets.get(socket),
            (_, Some(switch)) => self.switches.get(switch),
            _ => None,
        };
        if root.is_none() {
            let (node, under, last) = (self.name, &branch.under, self.sockets.len() - 1);
            let text = format!(
                "node `{node}` has a branch under `{under}`: write `socket[0]` to `socket[{last}]`, or `switch[i]` of an \
                 earlier branch"
            );
            wiring.errors.push(MachineError::of(node, text));
        }
        root.copied()
    }

    /// The model of the devices of a branch; an error if there are devices and no model.
    fn model(
        &self,
        wiring: &mut Wiring<'a>,
        noun: &'static str,
        model: Option<&'a str>,
        count: u32,
    ) -> Option<&'a str> {
        if model.is_none() && count > 0 {
            let node = self.name;
            let text = format!(
                "node `{node}` has {count} {noun}s and does not say which: set `{noun}` to a name of the catalogue"
            );
            wiring.errors.push(MachineError::of(node, text));
        }
        model
    }

    fn attach(&self, wiring: &mut Wiring<'a>, device: Option<u32>, above: u32) {
        if let Some(device) = device
            && let Some(port) = wiring.port(device, self.tree)
        {
            self.hang(wiring, device, above, port.common(self.tree));
        }
    }

    /// The PCIe link of a part to what is above it, unless another is set.
    fn hang(&self, wiring: &mut Wiring<'a>, part: u32, above: u32, usual: Lanes<'a>) {
        let lanes = set::link(wiring, self.set, part, usual);
        wiring.link(part, above, lanes);
    }
}

/// NVLinks, with the links that each GPU has.
fn nvlinks<'a>(wiring: &mut Wiring<'a>, name: &str, node: &Node, gpus: &[u32]) {
    let mut used = vec![0u32; gpus.len()];
    if node.nvlink.switches > 0 {
        let switch = wiring.part("nvswitch".to_owned(), PartKind::NvSwitch);
        for &gpu in gpus {
            if let Some(links) = wiring.gpu_model(gpu).and_then(|model| model.nvlink.as_ref())
                && let Some(lanes) = wiring.link_class(&links.class, links.links)
            {
                wiring.link(gpu, switch, lanes);
            } else {
                too_few(wiring, gpu, 1);
            }
        }
    }
    for &[a, b, links] in &node.nvlink.pairs {
        let (Some(&first), Some(&second), true) =
            (gpus.get(a as usize), gpus.get(b as usize), a != b && links > 0)
        else {
            let text = format!(
                "node `{name}` has the NVLink pair [{a}, {b}, {links}]: write two different GPUs below {} and at least one link",
                gpus.len()
            );
            wiring.errors.push(MachineError::of(name, text));
            continue;
        };
        for end in [a, b] {
            used[end as usize] = used[end as usize].saturating_add(links);
        }
        if let Some(own) = wiring.gpu_model(first).and_then(|model| model.nvlink.as_ref())
            && let Some(lanes) = wiring.link_class(&own.class, links)
        {
            wiring.link(first, second, lanes);
        }
    }
    for (&gpu, &used) in gpus.iter().zip(&used) {
        too_few(wiring, gpu, used);
    }
}

/// Notes an error if a GPU has fewer NVLinks than are used of it.
fn too_few(wiring: &mut Wiring<'_>, gpu: u32, used: u32) {
    let Some(model) = wiring.gpu_model(gpu) else { return };
    let has = model.nvlink.as_ref().map_or(0, |own| own.links);
    if used > has {
        let (gpu, model) = (wiring.name(gpu), wiring.model(gpu).unwrap_or_default());
        let text = format!(
            "{gpu} (`{model}`) has {has} NVLinks and is wired with {used}: take a GPU with more, or another node"
        );
        let error = MachineError::of(model, text);
        wiring.errors.push(error);
    }
}
