//! A machine whose parts are spelled out one by one.

use crate::catalogue::nearest::remedy;
use crate::catalogue::{Catalogue, HostMemory};
use crate::provenance::Sources;

use super::error::{MachineError, UnknownPart};
use super::graph::NodeGraph;
use super::part::PartKind;
use super::wiring::{PARTS_MAX, Wiring};

/// The parts of a machine, and the links between them. Names are unique over all lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartsSpec {
    /// GPUs, numbered in this order.
    pub gpus: Vec<ModelSpec>,
    /// CPU sockets.
    pub sockets: Vec<String>,
    /// Host memories.
    pub memories: Vec<MemorySpec>,
    /// PCIe switches.
    pub switches: Vec<String>,
    /// Switches that join NVLinks.
    pub nvswitches: Vec<String>,
    /// Network interfaces.
    pub nics: Vec<ModelSpec>,
    /// Network switches.
    pub network_switches: Vec<String>,
    /// Drives.
    pub ssds: Vec<ModelSpec>,
    /// Links.
    pub links: Vec<LinkSpec>,
}

/// A part of a kind that the catalogue knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// Its name.
    pub name: String,
    /// Name of its catalogue entry.
    pub model: String,
}

/// The memory of a socket.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpec {
    /// Its name.
    pub name: String,
    /// Name of the socket.
    pub socket: String,
    /// Capacity (GiB).
    pub gib: f64,
    /// What streaming reaches, reads and writes together (GB/s).
    pub gb_per_s: f64,
}

/// A link between two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// The names of its ends.
    pub between: [String; 2],
    /// Name of its class; absent between a network interface and a network switch, whose rate is the interface's.
    pub class: Option<String>,
    /// Lanes of PCIe, or number of NVLinks.
    pub lanes: u32,
}

/// Parts and wires as spelled out.
pub(super) fn build(catalogue: &Catalogue, spec: &PartsSpec) -> Result<NodeGraph, Vec<MachineError>> {
    let parts = spec.gpus.len() + spec.sockets.len() + spec.memories.len() + spec.switches.len();
    let parts =
        parts + spec.nvswitches.len() + spec.nics.len() + spec.network_switches.len() + spec.ssds.len();
    let parts = parts.max(spec.links.len()) as u64;
    if parts > PARTS_MAX as u64 {
        return Err(vec![MachineError::TooManyParts { parts, limit: PARTS_MAX }]);
    }
    let mut wiring = Wiring::new(catalogue);
    if spec.gpus.is_empty() {
        wiring.errors.push(MachineError::NoGpus { machine: "the machine".to_owned() });
    }
    for gpu in &spec.gpus {
        wiring.gpu(gpu.name.clone(), &gpu.model);
    }
    for nic in &spec.nics {
        wiring.nic(nic.name.clone(), &nic.model);
    }
    for ssd in &spec.ssds {
        wiring.ssd(ssd.name.clone(), &ssd.model);
    }
    for (names, kind) in [
        (&spec.sockets, PartKind::Socket),
        (&spec.switches, PartKind::Switch),
        (&spec.nvswitches, PartKind::NvSwitch),
        (&spec.network_switches, PartKind::NetworkSwitch),
    ] {
        for name in names {
            wiring.part(name.clone(), kind);
        }
    }
    for memory in &spec.memories {
        let Some(socket) = end(&mut wiring, &memory.socket) else { continue };
        let rates = HostMemory { gib: memory.gib, gb_per_s: memory.gb_per_s, streaming_fraction: 1.0 };
        wiring.memory(memory.name.clone(), socket, &rates, &memory.name, &Sources::written());
    }
    for link in &spec.links {
        let [a, b] = &link.between;
        if let (Some(a), Some(b)) = (end(&mut wiring, a), end(&mut wiring, b)) {
            join(&mut wiring, [a, b], link);
        }
    }
    wiring.finish()
}

fn join<'a>(wiring: &mut Wiring<'a>, [a, b]: [u32; 2], link: &'a LinkSpec) {
    let remedy = match (wiring.kind(a), wiring.kind(b), &link.class) {
        _ if a == b => "its ends are one part",
        (PartKind::Nic, PartKind::NetworkSwitch, None) => return wiring.network_link(a, b),
        (PartKind::NetworkSwitch, PartKind::Nic, None) => return wiring.network_link(b, a),
        (PartKind::Memory, ..) | (_, PartKind::Memory, _) => "a memory is joined to its `socket` only",
        (_, _, None) => "write its `class`; only a nic and a network switch need none",
        (_, _, Some(class)) => {
            if let Some(lanes) = wiring.link_class(class, link.lanes) {
                wiring.link(a, b, lanes);
            }
            return;
        }
    };
    let [a, b] = [a, b].map(|part| wiring.name(part).to_owned());
    wiring.errors.push(MachineError::BadLink { a, b, remedy });
}

fn end(wiring: &mut Wiring<'_>, name: &str) -> Option<u32> {
    let part = wiring.named(name);
    if part.is_none() {
        let names: Vec<&str> = wiring.names().collect();
        let remedy = remedy(name, &names, "part");
        wiring.errors.push(UnknownPart { name: name.to_owned(), remedy }.into());
    }
    part
}
