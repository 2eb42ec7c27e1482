//! Which links a transfer crosses.

use std::sync::OnceLock;

use sim_core::time::Time;

use super::graph::{Hop, NodeGraph, Reach, Transfer};
use super::groups::NodeAt;
use super::part::{DirectedLink, PartId, PartKind};
use super::{Machine, NoRoute};

/// The links of a transfer, in the order the bytes take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Every link leads to where the next begins.
    pub links: Vec<DirectedLink>,
    /// Sum over the links.
    pub latency: Time,
    /// What kind of transfer it is.
    pub kind: RouteKind,
}

/// Kinds of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteKind {
    /// From a part to itself.
    Within,
    /// Between GPUs over NVLink.
    NvLink,
    /// Between devices of a node over PCIe, without touching host memory.
    Peer,
    /// Between devices of a node by way of host memory, written and read again.
    Staged,
    /// To or from host memory.
    Host,
    /// To or from a drive.
    Storage,
    /// Between nodes.
    Network,
}

impl Machine {
    /// The route from one part to another. GPUs prefer NVLink, if they are neighbours or share a switch; else PCIe, through
    /// host memory if one of them allows no peer-to-peer access; other nodes are reached through the network interface
    /// nearest to each end. Costs at most a walk over the parts of two nodes.
    ///
    /// # Errors
    /// If nothing joins the parts.
    pub fn route(&self, from: PartId, to: PartId) -> Result<Route, NoRoute> {
        let no_route = || NoRoute { from: self.part(from).name, to: self.part(to).name };
        let of_part = |part| self.groups.of_part(part);
        let (Some((from_node, a)), Some((to_node, b))) = (of_part(from), of_part(to)) else {
            return Err(no_route());
        };
        let (links, kind) = if from_node.number == to_node.number {
            let (hops, kind) = from_node.graph.transfer(a, b).ok_or_else(no_route)?;
            (hops.iter().map(|&hop| from_node.hop(hop)).collect(), *kind)
        } else {
            (self.across_nodes((from_node, a), (to_node, b)).ok_or_else(no_route)?, RouteKind::Network)
        };
        let latency = links.iter().fold(Time::ZERO, |sum, &link| sum.saturating_add(self.link(link).latency));
        Ok(Route { links, latency, kind })
    }

    /// That no host memory is near a part.
    pub fn no_memory(&self, part: PartId) -> NoRoute {
        NoRoute { from: self.part(part).name, to: "host memory".to_owned() }
    }

    /// The route over these parts in turn, which are at least one: a copy that is staged in a memory of one's choice.
    ///
    /// # Errors
    /// If nothing joins two of them.
    pub fn route_by_way_of(&self, stops: &[PartId]) -> Result<Route, NoRoute> {
        let mut whole = Route { links: Vec::new(), latency: Time::ZERO, kind: RouteKind::Within };
        for pair in stops.windows(2) {
            let Route { links, latency, kind } = self.route(pair[0], pair[1])?;
            whole.kind = if whole.links.is_empty() { kind } else { RouteKind::Staged };
            whole.links.extend(links);
            whole.latency = whole.latency.saturating_add(latency);
        }
        Ok(whole)
    }

    fn across_nodes(
        &self,
        (node_a, a): (NodeAt<'_>, u32),
        (node_b, b): (NodeAt<'_>, u32),
    ) -> Option<Vec<DirectedLink>> {
        let fabric = self.fabric.as_ref()?;
        let (nic_a, nic_b) = (node_a.graph.nic_of[a as usize]?, node_b.graph.nic_of[b as usize]?);
        let switch_a = fabric.switch_of(node_a.number, nic_a);
        let switch_b = fabric.switch_of(node_b.number, nic_b);
        let (out, _) = node_a.graph.transfer(a, node_a.graph.nics[nic_a as usize])?;
        let (into, _) = node_b.graph.transfer(node_b.graph.nics[nic_b as usize], b)?;
        let mut links: Vec<DirectedLink> = out.iter().map(|&hop| node_a.hop(hop)).collect();
        links.push(self.fabric_hop(fabric.port(node_a.number, nic_a)));
        if switch_a != switch_b {
            let lane = fabric.lane((node_a.number, nic_a), (node_b.number, nic_b));
            let [up, down] =
                [switch_a, switch_b].map(|leaf| self.fabric_hop(fabric.uplinks(leaf).start + lane));
            links.extend([up, down.reverse()]);
        }
        links.push(self.fabric_hop(fabric.port(node_b.number, nic_b)).reverse());
        links.extend(into.iter().map(|&hop| node_b.hop(hop)));
        Some(links)
    }
}

impl NodeGraph {
    /// The hops of a transfer inside one node, which are found once.
    fn transfer(&self, from: u32, to: u32) -> Option<&Transfer> {
        let row = self.transfers[from as usize].get_or_init(|| vec![OnceLock::new(); self.parts.len()]);
        row[to as usize].get_or_init(|| self.find_transfer(from, to)).as_ref()
    }

    fn find_transfer(&self, from: u32, to: u32) -> Option<Transfer> {
        if from == to {
            return Some((Vec::new(), RouteKind::Within));
        }
        let kinds = [from, to].map(|part| self.parts[part as usize].kind);
        if kinds == [PartKind::Gpu; 2]
            && let Some(hops) = self.nvlink_path(from, to)
        {
            return Some((hops, RouteKind::NvLink));
        }
        let touches = |kind: PartKind| kinds.contains(&kind);
        let direct = touches(PartKind::Memory) || touches(PartKind::Socket);
        let closed = |part: u32| !self.parts[part as usize].peer_to_peer;
        let stops = match (direct, closed(from), closed(to)) {
            (true, ..) | (_, false, false) => Vec::new(),
            (_, true, _) => vec![self.memory_of[from as usize]?],
            (_, _, true) => vec![self.memory_of[to as usize]?],
        };
        let kind = match stops.is_empty() {
            _ if touches(PartKind::Ssd) => RouteKind::Storage,
            _ if direct => RouteKind::Host,
            true => RouteKind::Peer,
            false => RouteKind::Staged,
        };
        if let Some(hops) = self.by_way_of(from, &stops, to, Reach::Host) {
            return Some((hops, kind));
        }
        // Parts that were spelled out may be joined by a network; then each end stages in the memory beside it.
        let stops: Vec<u32> = [from, to]
            .into_iter()
            .filter(|&end| !direct && closed(end))
            .map(|end| self.memory_of[end as usize])
            .collect::<Option<_>>()?;
        Some((self.by_way_of(from, &stops, to, Reach::Network)?, RouteKind::Network))
    }

    fn by_way_of(&self, from: u32, stops: &[u32], to: u32, reach: Reach) -> Option<Vec<Hop>> {
        let (mut hops, mut at) = (Vec::new(), from);
        for &stop in stops.iter().chain([&to]) {
            hops.extend(self.path(at, stop, reach)?);
            at = stop;
        }
        Some(hops)
    }
}
