//! A machine whose parts are spelled out one by one.

use crate::catalogue::nearest::remedy;
use crate::catalogue::{Catalogue, HostMemory, Processor};
use crate::provenance::Sources;

use super::error::{MachineError, UnknownPart};
use super::graph::NodeGraph;
use super::part::PartKind;
use super::set::{gb_per_s, gib, watts};
use super::settings::{Ends, PartLink, Parts};
use super::wiring::{PARTS_MAX, Wiring};

/// Parts and wires as spelled out.
pub(super) fn build(catalogue: &Catalogue, spec: &Parts) -> Result<NodeGraph, Vec<MachineError>> {
    let parts = spec.gpus.len() + spec.sockets.len() + spec.memories.len() + spec.switches.len();
    let parts =
        parts + spec.nvswitches.len() + spec.nics.len() + spec.network_switches.len() + spec.ssds.len();
    let parts = parts.max(spec.links.len()) as u64;
    if parts > PARTS_MAX as u64 {
        return Err(vec![MachineError::too_many_parts(parts)]);
    }
    let mut wiring = Wiring::new(catalogue);
    if spec.gpus.is_empty() {
        wiring.errors.push(MachineError::no_gpus("the machine"));
    }
    for (name, model) in &spec.gpus {
        wiring.gpu(name.clone(), model.name());
    }
    for (name, model) in &spec.nics {
        wiring.nic(name.clone(), model);
    }
    for (name, model) in &spec.ssds {
        wiring.ssd(name.clone(), model.name());
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
    for (socket, processor) in &spec.processors {
        match end(&mut wiring, socket) {
            Some(part) if wiring.kind(part) == PartKind::Socket => {
                let cores = processor.cores.get() as u32;
                let processor = Processor { cores, tdp_w: watts(processor.power) };
                wiring.processor(part, processor, socket, &Sources::written());
            }
            Some(_) => {
                let text = format!("`{socket}` is no socket: write the name of one");
                wiring.errors.push(MachineError::of_setting(format!("processors.{socket}"), text));
            }
            None => {}
        }
    }
    for (name, memory) in &spec.memories {
        let Some(socket) = end(&mut wiring, &memory.socket) else { continue };
        let (gib, gb_per_s) = (gib(memory.memory), gb_per_s(memory.rate));
        let rates = HostMemory { gib, gb_per_s, streaming_fraction: 1.0 };
        wiring.memory(name.clone(), socket, &rates, name, &Sources::written());
    }
    for link in &spec.links {
        let Ends([a, b]) = &link.between;
        if let (Some(a), Some(b)) = (end(&mut wiring, a), end(&mut wiring, b)) {
            join(&mut wiring, [a, b], link);
        }
    }
    wiring.finish()
}

fn join<'a>(wiring: &mut Wiring<'a>, [a, b]: [u32; 2], link: &'a PartLink) {
    let remedy = match (wiring.kind(a), wiring.kind(b), &link.class) {
        _ if a == b => "its ends are one part",
        (PartKind::Nic, PartKind::NetworkSwitch, None) => return wiring.network_link(a, b),
        (PartKind::NetworkSwitch, PartKind::Nic, None) => return wiring.network_link(b, a),
        (PartKind::Memory, ..) | (_, PartKind::Memory, _) => "a memory is joined to its `socket` only",
        (_, _, None) => "write its `class`; only a nic and a network switch need none",
        (_, _, Some(class)) => {
            if let Some(lanes) = wiring.link_class(class.name(), link.lanes.get() as u32) {
                wiring.link(a, b, lanes);
            }
            return;
        }
    };
    let [a, b] = [a, b].map(|part| wiring.name(part));
    let error = MachineError::of(a, format!("no link joins `{a}` and `{b}`: {remedy}"));
    wiring.errors.push(error);
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
