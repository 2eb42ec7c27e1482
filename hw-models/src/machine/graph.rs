//! The parts and wires of one node, and the shortest paths between them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;

use sim_core::time::Time;

use crate::catalogue::{CopyRates, Gpu, LinkKind, Processor, Ssd};
use crate::provenance::Provenance;
use crate::reads::LinkReads;

use super::part::{Constant, PartKind};
use super::route::RouteKind;

/// A part of a node.
#[derive(Clone, Debug)]
pub(super) struct LocalPart {
    /// Within the node, `gpu[2]`.
    pub name: String,
    pub kind: PartKind,
    pub model: Option<String>,
    pub capacity: Option<u64>,
    /// Whether devices reach it over PCIe without a detour through host memory.
    pub peer_to_peer: bool,
}

/// A link of a node, both directions: `[0]` from the first end to the second.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub ends: [u32; 2],
    pub kind: LinkKind,
    /// (byte/s)
    pub nominal: [f64; 2],
    /// (byte/s)
    pub effective: [f64; 2],
    /// NVLinks side by side; 0 of other kinds.
    pub nvlinks: u32,
    pub latency: Time,
    pub half_duplex: bool,
    /// (byte/s)
    pub copies: Option<CopyRates>,
    pub reads: Option<LinkReads>,
    pub provenance: Provenance,
}

/// A direction of a wire of a node: twice the wire, plus one from its second end to its first.
pub(super) type Hop = u32;

/// The parts and wires of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeGraph {
    pub parts: Vec<LocalPart>,
    pub wires: Vec<Wire>,
    pub by_name: BTreeMap<String, u32>,
    /// Of every part: where each of its hops leads, in the order of the wires.
    pub neighbours: Vec<Vec<(Hop, u32)>>,
    /// The GPUs in order, with their models.
    pub gpus: Vec<(u32, Gpu)>,
    /// The drives in order, with their models.
    pub drives: Vec<(u32, Ssd)>,
    /// Processors of sockets, where they are known.
    pub processors: BTreeMap<u32, Processor>,
    /// The network interfaces in order.
    pub nics: Vec<u32>,
    /// Of every part: the memory nearest to it.
    pub memory_of: Vec<Option<u32>>,
    /// Of every part: the position in `nics` of the interface it sends through.
    pub nic_of: Vec<Option<u32>>,
    pub constants: Vec<Constant>,
    /// The transfers from every part to every other, as far as somebody has asked.
    pub transfers: Vec<OnceLock<Vec<OnceLock<Option<Transfer>>>>>,
}

/// The hops of a transfer, and its kind.
pub(super) type Transfer = (Vec<Hop>, RouteKind);

/// What a path may cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Switches and sockets of the host.
    Host,
    /// Network interfaces and switches too.
    Network,
}

impl NodeGraph {
    /// The shortest path without NVLink; the first in the order of the wires among equals.
    pub(super) fn path(&self, from: u32, to: u32, reach: Reach) -> Option<Vec<Hop>> {
        let mut came_by: Vec<Option<(Hop, u32)>> = vec![None; self.parts.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(part) = queue.pop_front() {
            if part == to {
                break;
            }
            if part != from && !self.crossable(part, reach) {
                continue;
            }
            for &(hop, next) in &self.neighbours[part as usize] {
                if self.wire(hop).kind != LinkKind::NvLink && next != from && came_by[next as usize].is_none()
                {
                    came_by[next as usize] = Some((hop, part));
                    queue.push_back(next);
                }
            }
        }
        let mut hops = Vec::new();
        let mut part = to;
        while part != from {
            let (hop, previous) = came_by[part as usize]?;
            hops.push(hop);
            part = previous;
        }
        hops.reverse();
        Some(hops)
    }

    /// The path over NVLink: direct, or through a switch that both hang on.
    pub(super) fn nvlink_path(&self, from: u32, to: u32) -> Option<Vec<Hop>> {
        let nvlinks = |part: u32| {
            let hops = self.neighbours[part as usize].iter().copied();
            hops.filter(|&(hop, _)| self.wire(hop).kind == LinkKind::NvLink)
        };
        if let Some((hop, _)) = nvlinks(from).find(|&(_, next)| next == to) {
            return Some(vec![hop]);
        }
        nvlinks(from).filter(|&(_, next)| self.parts[next as usize].kind == PartKind::NvSwitch).find_map(
            |(up, switch)| {
                let (down, _) = nvlinks(switch).find(|&(_, next)| next == to)?;
                Some(vec![up, down])
            },
        )
    }

    /// Fills in which memory and which network interface each part uses: the nearest one.
    /// Transfers are not known yet. GPUs that are equally near to the same interfaces take turns,
    /// so that two GPUs and two interfaces below one switch pair up.
    pub(super) fn assign_neighbours(&mut self) {
        let mut turns: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
        self.transfers = vec![OnceLock::new(); self.parts.len()];
        for part in 0..self.parts.len() as u32 {
            let memory = self.nearest(part, PartKind::Memory).first().copied();
            let nics = self.nearest(part, PartKind::Nic);
            let nic = match self.parts[part as usize].kind {
                PartKind::Gpu if !nics.is_empty() => {
                    let turn = turns.entry(nics.clone()).or_default();
                    *turn += 1;
                    Some(nics[(*turn - 1) % nics.len()])
                }
                _ => nics.first().copied(),
            };
            self.memory_of.push(memory);
            self.nic_of.push(nic.and_then(|nic| self.nics.iter().position(|&n| n == nic)).map(|n| n as u32));
        }
    }

    /// The parts of `kind` at the least distance over host links, in order.
    fn nearest(&self, from: u32, kind: PartKind) -> Vec<u32> {
        let mut seen = vec![false; self.parts.len()];
        seen[from as usize] = true;
        let mut ring = vec![from];
        while !ring.is_empty() {
            let mut found: Vec<u32> =
                ring.iter().copied().filter(|&part| self.parts[part as usize].kind == kind).collect();
            if !found.is_empty() {
                found.sort_unstable();
                return found;
            }
            let mut next_ring = Vec::new();
            for &part in ring.iter().filter(|&&part| part == from || self.crossable(part, Reach::Host)) {
                for &(hop, next) in &self.neighbours[part as usize] {
                    if self.wire(hop).kind != LinkKind::NvLink && !seen[next as usize] {
                        seen[next as usize] = true;
                        next_ring.push(next);
                    }
                }
            }
            ring = next_ring;
        }
        Vec::new()
    }

    fn crossable(&self, part: u32, reach: Reach) -> bool {
        match self.parts[part as usize].kind {
            PartKind::Switch | PartKind::Socket => true,
            PartKind::Nic | PartKind::NetworkSwitch => reach == Reach::Network,
            PartKind::Gpu | PartKind::NvSwitch | PartKind::Memory | PartKind::Ssd => false,
        }
    }

    fn wire(&self, hop: Hop) -> &Wire {
        &self.wires[hop as usize / 2]
    }
}
