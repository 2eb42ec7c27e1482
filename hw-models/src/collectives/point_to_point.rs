//! Messages between two ranks: pipeline sends, activation exchanges, rings in which each sends to the next.

use serde::{Deserialize, Serialize};
use sim_core::time::Time;

use super::{
    Algorithm, CollectiveKind, CollectiveModel, CollectivePlan, Coupling, GroupShape, InsideLink,
    PointToPointPaths, Protocol,
};
use crate::kernels::picoseconds;
use crate::provenance::Provenance;

/// What a message costs apart from its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointToPoint {
    /// From the send to the first byte's arrival.
    pub latency: Time,
    /// More, when the sender first waits for the receiver to be ready.
    pub rendezvous: Time,
    /// Speed when alone (bytes/s).
    pub bytes_per_s: f64,
    /// SMs held at both ends while it lasts.
    pub sms: u32,
    /// HBM traffic at each end per byte; a prior demand.
    pub hbm: f64,
}

/// What a message crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// NVLink.
    NvLink,
    /// PCI Express inside a node.
    Pcie,
    /// Network cards.
    Network,
}

/// Constants of messages over one kind of path.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointToPointParameters {
    /// From the send to the first byte's arrival (us).
    pub latency_us: f64,
    /// More with a rendezvous (us).
    pub rendezvous_us: f64,
    /// Fraction of the path's effective rate.
    pub efficiency: f64,
    /// SMs held at both ends.
    pub sms: u32,
    /// HBM traffic at each end per byte.
    pub hbm: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

impl PointToPointPaths {
    /// The constants of a kind of path.
    pub const fn of(&self, path: PathKind) -> &PointToPointParameters {
        match path {
            PathKind::NvLink => &self.nv_link,
            PathKind::Pcie => &self.pcie,
            PathKind::Network => &self.network,
        }
    }
}

/// What it costs a group that each rank sends `bytes` to the next one, and gets as many: all move in step, as fast as the
/// slowest hop. Between nodes one rank of each sends, spread over the cards of its node as rings are.
pub fn send_receive(model: &CollectiveModel, group: &GroupShape, bytes: u64) -> CollectivePlan {
    let (crosses, hops_inside) = (group.nodes() > 1, group.ranks_per_node > 1);
    let inside = hops_inside.then(|| {
        let link = if group.inside.link == InsideLink::Pcie { PathKind::Pcie } else { PathKind::NvLink };
        model.point_to_point(link, group.inside.bytes_per_s)
    });
    let cards = group.between.filter(|_| crosses);
    let between = cards.map(|cards| model.point_to_point(PathKind::Network, cards.bytes_per_s));
    let hops = || inside.iter().chain(&between);
    let latency = hops().map(|hop| hop.latency.saturating_add(hop.rendezvous)).max();
    CollectivePlan {
        algorithm: Algorithm::Ring,
        protocol: Protocol::Simple,
        coupling: Coupling::Group,
        latency: latency.unwrap_or(Time::ZERO),
        work: if group.ranks > 1 { bytes } else { 0 },
        bytes_per_s: hops().map(|hop| hop.bytes_per_s).fold(f64::INFINITY, f64::min),
        inside: if hops_inside { 1.0 } else { 0.0 },
        between: cards.map_or(0.0, |cards| 1.0 / f64::from(cards.nics.max(1))),
        hbm: model.hbm.of(CollectiveKind::AllToAll),
        sms: hops().map(|hop| hop.sms).max().unwrap_or(0),
        measured: None,
    }
}

impl CollectiveModel {
    /// A message over a path whose slowest link carries `link_bytes_per_s`.
    pub fn point_to_point(&self, path: PathKind, link_bytes_per_s: f64) -> PointToPoint {
        let parameters = self.point_to_point.of(path);
        PointToPoint {
            latency: picoseconds(parameters.latency_us * 1e-6),
            rendezvous: picoseconds(parameters.rendezvous_us * 1e-6),
            bytes_per_s: parameters.efficiency * link_bytes_per_s,
            sms: parameters.sms,
            hbm: parameters.hbm,
        }
    }
}
