//! Messages between two ranks: pipeline sends, activation exchanges.

use serde::{Deserialize, Serialize};
use sim_core::time::Time;

use super::{CollectiveModel, PointToPointPaths};
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
