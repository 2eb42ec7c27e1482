//! The drawing of a machine: one node of each kind, and the network switches that it is connected
//! to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hw_models::catalogue;
use hw_models::machine::{Cluster, Machine, Part, PartId, PartKind};
use indexmap::IndexMap;
use reports::summary::{DrawnLink, DrawnPart, LinkKind, MachineDrawing, PartKind as Drawn};
use workloads::placement::Extent;

use crate::plans;
use crate::schema::{Machine as settings, Scenario};

/// The machine of the first of some variants, with what that places where; none for a scenario without machine.
pub(super) fn drawing(variants: &[(&str, Scenario)]) -> Option<MachineDrawing> {
    let ((first, scenario), others) = variants.split_first()?;
    let machine = plans::machine::of(scenario).ok()?;
    let settings = scenario.machine.as_ref()?;
    let of_group = |nodes: Range<u32>| {
        let placement = placement(scenario, &machine, nodes.start);
        let differs =
            others.iter().any(|(_, other)| self::placement(other, &machine, nodes.start) != placement);
        MachineDrawing {
            placement,
            placement_of: differs.then(|| (*first).to_owned()),
            ..node(&machine, settings, &nodes)
        }
    };
    let mut groups = machine.alike_nodes().map(of_group);
    let drawing = groups.next()?;
    Some(MachineDrawing { others: groups.collect(), ..drawing })
}

/// The first of some alike nodes.
fn node(machine: &Machine, settings: &settings, nodes: &Range<u32>) -> MachineDrawing {
    let here = Some(nodes.start);
    let own: Vec<PartId> = machine.parts().filter(|&part| machine.part(part).node == here).collect();
    let outside: BTreeSet<PartId> = own
        .iter()
        .flat_map(|&part| machine.links_from(part))
        .map(|link| machine.link(link).to)
        .filter(|&part| machine.part(part).node.is_none())
        .collect();
    let parts = own.iter().copied().chain(outside.iter().copied());
    // One direction of each link: that from the part with the lower number.
    let links = own.iter().flat_map(|&part| machine.links_from(part)).map(|link| machine.link(link));
    let links = links.filter(|link| link.from < link.to);
    let (name, network) = match settings {
        settings::Cluster(cluster) => (node_name(cluster, nodes.start), cluster.fabric.clone()),
        settings::Node(node) => (node.name.clone(), None),
        settings::Parts(_) => (String::new(), None),
    };
    MachineDrawing {
        name,
        nodes: nodes.len() as u32,
        node: parts.map(|part| drawn(machine, part)).collect(),
        links: links
            .map(|link| DrawnLink {
                from: local_name(machine, link.from),
                to: local_name(machine, link.to),
                kind: link_kind(link.kind),
                bytes_per_s: link.bytes_per_s,
            })
            .collect(),
        network,
        ..MachineDrawing::default()
    }
}

/// The name in the catalogue of a node of a cluster.
fn node_name(cluster: &Cluster, number: u32) -> String {
    let mut end = cluster.count.get();
    let later = cluster.more.iter().find(|more| {
        let begin = end;
        end += more.count.get();
        (begin..end).contains(&number.into())
    });
    later.map_or(&cluster.node, |more| &more.node).clone()
}

/// Ranks on the GPUs of a node: `stage 0, tensor 3`.
fn placement(scenario: &Scenario, machine: &Machine, node: u32) -> IndexMap<String, String> {
    let Some((extent, placement)) = plans::placed(scenario) else { return IndexMap::new() };
    let Extent { tensor, context, data, stages, expert, .. } = extent;
    let ranks = (0..stages).flat_map(|stage| (0..extent.replicas()).map(move |replica| (stage, replica)));
    let placed = ranks.map(|(stage, replica)| {
        let coordinates = [
            ("stage", stage, stages),
            ("tensor", replica % tensor, tensor),
            ("context", replica / tensor % context, context),
            ("expert", replica / tensor % expert, expert),
            ("copy", replica / (tensor * context), data),
        ];
        let told = coordinates.into_iter().filter(|(.., extent)| *extent > 1);
        let told: Vec<String> = told.map(|(what, number, _)| format!("{what} {number}")).collect();
        (extent.gpu(&placement, stage, replica), told.join(", "))
    });
    let first = node * machine.gpus_per_node();
    let own = first..first + machine.gpus_per_node();
    let here: BTreeMap<u32, String> =
        placed.filter(|(gpu, held)| own.contains(gpu) && !held.is_empty()).collect();
    here.into_iter().map(|(gpu, held)| (local_name(machine, machine.gpu(gpu)), held)).collect()
}

fn drawn(machine: &Machine, id: PartId) -> DrawnPart {
    let part = machine.part(id);
    let kind = match part.kind {
        PartKind::Gpu => Drawn::Gpu,
        PartKind::NvSwitch => Drawn::NvSwitch,
        PartKind::Switch => Drawn::PcieSwitch,
        PartKind::Socket => Drawn::Socket,
        PartKind::Memory => Drawn::HostMemory,
        PartKind::Nic => Drawn::Nic,
        PartKind::Ssd => Drawn::Ssd,
        PartKind::NetworkSwitch => Drawn::NetworkSwitch,
    };
    DrawnPart { name: local_name(machine, id), kind, label: part.model.unwrap_or_default().to_owned() }
}

/// The name within the node, `gpu[2]`.
fn local_name(machine: &Machine, part: PartId) -> String {
    let Part { name, node, .. } = machine.part(part);
    let prefix = node.map(|node| format!("node[{node}]."));
    prefix.and_then(|prefix| Some(name.strip_prefix(&prefix)?.to_owned())).unwrap_or(name)
}

pub(super) fn link_kind(kind: catalogue::LinkKind) -> LinkKind {
    match kind {
        catalogue::LinkKind::NvLink => LinkKind::NvLink,
        catalogue::LinkKind::Pcie => LinkKind::Pcie,
        catalogue::LinkKind::SocketLink => LinkKind::SocketLink,
        catalogue::LinkKind::Memory => LinkKind::Memory,
        catalogue::LinkKind::Network => LinkKind::Network,
        catalogue::LinkKind::SsdLink => LinkKind::SsdLink,
    }
}
