//! The drawing of a machine: one node, as all are alike, and the network switches that it is connected to.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::catalogue;
use hw_models::machine::{Machine, PartId, PartKind};
use indexmap::IndexMap;
use reports::summary::{DrawnLink, DrawnPart, LinkKind, MachineDrawing, PartKind as Drawn};
use workloads::placement::Extent;

use crate::plans;
use crate::schema::{Machine as settings, Scenario};

/// The machine of the first of some variants, with what that places where; none for a scenario without machine.
pub(super) fn drawing(variants: &[(&str, Scenario)]) -> Option<MachineDrawing> {
    let ((first, scenario), others) = variants.split_first()?;
    let machine = plans::machine::of(scenario).ok()?;
    let placement = placement(scenario, &machine);
    let differs = others.iter().any(|(_, other)| self::placement(other, &machine) != placement);
    let own: Vec<PartId> = machine.parts().filter(|&part| machine.part(part).node == Some(0)).collect();
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
    let (name, network) = match scenario.machine.as_ref()? {
        settings::Cluster(cluster) => (cluster.node.clone(), cluster.fabric.clone()),
        settings::Node(node) => (node.name.clone(), None),
        settings::Parts(_) => (String::new(), None),
    };
    Some(MachineDrawing {
        name,
        nodes: machine.nodes(),
        node: parts.map(|part| drawn(&machine, part)).collect(),
        links: links
            .map(|link| DrawnLink {
                from: local_name(&machine, link.from),
                to: local_name(&machine, link.to),
                kind: link_kind(link.kind),
                bytes_per_s: link.bytes_per_s,
            })
            .collect(),
        network,
        placement,
        placement_of: differs.then(|| (*first).to_owned()),
    })
}

/// What the GPUs of the first node hold: `stage 0, tensor 3`.
fn placement(scenario: &Scenario, machine: &Machine) -> IndexMap<String, String> {
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
    let here: BTreeMap<u32, String> = placed
        .filter(|(gpu, held)| *gpu < machine.gpus_per_node().min(machine.gpus()) && !held.is_empty())
        .collect();
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
    let name = machine.part(part).name;
    name.strip_prefix("node[0].").map_or_else(|| name.clone(), str::to_owned)
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
