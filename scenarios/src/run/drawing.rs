//! The drawing of a machine: one node, as all are alike, and the network switches that it is connected to.

use std::collections::BTreeSet;

use hw_models::catalogue;
use hw_models::machine::{Machine, PartId, PartKind};
use reports::summary::{DrawnLink, DrawnPart, LinkKind, MachineDrawing, PartKind as Drawn};

use crate::plans;
use crate::schema::Scenario;

/// The machine of a scenario; none for a scenario without.
pub(super) fn drawing(scenario: &Scenario) -> Option<MachineDrawing> {
    let machine = plans::machine::of(scenario).ok()?;
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
    let gpu = (machine.gpus() > 0).then(|| machine.part(machine.gpu(0)).model).flatten();
    Some(MachineDrawing {
        name: gpu.map_or_else(String::new, |gpu| format!("{} x {gpu}", machine.gpus())),
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
        ..MachineDrawing::default()
    })
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

fn link_kind(kind: catalogue::LinkKind) -> LinkKind {
    match kind {
        catalogue::LinkKind::NvLink => LinkKind::NvLink,
        catalogue::LinkKind::Pcie => LinkKind::Pcie,
        catalogue::LinkKind::SocketLink => LinkKind::SocketLink,
        catalogue::LinkKind::Memory => LinkKind::Memory,
        catalogue::LinkKind::Network => LinkKind::Network,
        catalogue::LinkKind::SsdLink => LinkKind::SsdLink,
    }
}
