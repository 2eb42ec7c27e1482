//! How long a collective takes, on what, and with how many SMs.
//!
//! The library's own rule (NCCL's tuner, `tuner.rs`) chooses algorithm and protocol. The *time* is measured where a table
//! for the group exists (`table.rs`), else the tuner's estimate. Either way the result is one activity of the engine:
//! a latency, then `work` bytes at a rate of at most `bytes_per_s`, with demands per unit of work on the links inside the
//! nodes, on the network cards between them, and on HBM:
//!
//! ```text
//! time alone = latency + work / bytes_per_s
//! ```
//!
//! Rings, trees and hierarchies are pipelined in chunks, so that all their links move in step: one activity that all
//! members share, as slow as its slowest link ([`Coupling::Group`]). An all-to-all is a set of independent sends: one
//! activity for each source, and a slow link slows only its own ([`Coupling::Source`]).

mod buffers;
mod parameters;
mod point_to_point;
mod spread;
mod table;
mod tuner;

use std::fmt;

use serde::{Deserialize, Serialize};
use sim_core::time::Time;

use crate::kernels::picoseconds;

pub use buffers::BufferSizes;
pub use parameters::{
    CollectiveCatalogue, CollectiveError, CollectiveModel, GenerationLimits, HbmTraffic, MeasuredTable,
    NvlsParameters, PointToPointPaths, RelayedRings, TunerConstants,
};
pub use point_to_point::{PathKind, PointToPoint, PointToPointParameters, send_receive};
pub use spread::{COLLECTIVE_SPREADS, COLLECTIVE_SPREADS_HEADER, CollectiveSpreads};
pub use table::LogTable;

/// The catalogue of collective constants, `hw-models/catalogue/collectives.yaml`.
pub const COLLECTIVES: &str = include_str!("../../catalogue/collectives.yaml");

/// A collective operation of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// What is done.
    pub kind: CollectiveKind,
    /// Bytes of the whole tensor: input of all-reduce, reduce-scatter, broadcast and reduce, output of all-gather, and what each
    /// rank holds before an all-to-all.
    pub bytes: u64,
}

/// Kinds of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    /// Everyone ends with the sum.
    AllReduce,
    /// Everyone ends with all parts.
    AllGather,
    /// Everyone ends with its part of the sum.
    ReduceScatter,
    /// Everyone sends a part to everyone.
    AllToAll,
    /// Everyone ends with what one had.
    Broadcast,
    /// One ends with the sum.
    Reduce,
}

impl CollectiveKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Broadcast,
        Self::Reduce,
    ];

    /// Steps of a ring of so many members, which an all-reduce goes round twice.
    pub fn steps(self, ranks: u32) -> f64 {
        let rounds = if self == Self::AllReduce { 2.0 } else { 1.0 };
        rounds * (f64::from(ranks) - 1.0)
    }

    /// Bytes each member of a ring sends, per byte of the tensor.
    pub fn passes(self, ranks: u32) -> f64 {
        match self {
            Self::Broadcast | Self::Reduce => 1.0,
            _ => self.steps(ranks.max(1)) / f64::from(ranks.max(1)),
        }
    }
}

/// As files have it.
impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Where the ranks of a group are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupShape {
    /// Members.
    pub ranks: u32,
    /// Members on each node; they fill nodes evenly.
    pub ranks_per_node: u32,
    /// What connects members of one node.
    pub inside: Inside,
    /// What connects nodes; none on a single node.
    pub between: Option<Between>,
}

/// Links inside a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inside {
    /// Their kind.
    pub link: InsideLink,
    /// What one GPU can send in a ring of the group while it receives as much (bytes/s).
    pub bytes_per_s: f64,
}

/// Kinds of links inside a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InsideLink {
    /// All NVLinks of a GPU end in switches: any pair at full rate.
    NvSwitch,
    /// NVLinks between pairs of GPUs.
    CubeMesh,
    /// NVLinks between pairs of GPUs, some of which others reach over a third one.
    Relayed,
    /// PCI Express.
    Pcie,
}

/// Network cards between nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// What one card can send while it receives as much (bytes/s).
    pub bytes_per_s: f64,
    /// Cards of a node that the group can use, at least one.
    pub nics: u32,
}

/// What a collective costs, see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectivePlan {
    /// How data travel.
    pub algorithm: Algorithm,
    /// How steps are synchronised.
    pub protocol: Protocol,
    /// One activity for the group or one for each source.
    pub coupling: Coupling,
    /// Before bytes flow: launch, handshakes and the filling of the pipeline.
    pub latency: Time,
    /// Bytes that each rank sends.
    pub work: u64,
    /// Speed when alone (bytes of work/s).
    pub bytes_per_s: f64,
    /// Bytes on the link of each member inside its node, per direction and unit of work.
    pub inside: f64,
    /// Bytes on each network card that the activity uses, per direction and unit of work.
    pub between: f64,
    /// HBM traffic of each member per unit of work; a prior demand.
    pub hbm: f64,
    /// SMs that each member holds from its own arrival.
    pub sms: u32,
    /// Index of the table in the catalogue the time is from; none: the tuner's estimate.
    pub measured: Option<usize>,
}

/// How data travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Around rings, one hop a step.
    Ring,
    /// Chains inside nodes, two complementary binary trees between them (Sanders et al., 2009).
    Tree,
    /// Sums and copies made by the NVLink switches, inside a node.
    Nvls,
    /// The hierarchy: reduce-scatter by the switches, trees between the nodes, all-gather by the switches.
    NvlsTree,
    /// Everyone sends to everyone at once.
    Pairwise,
}

/// How steps are synchronised: by flags in every 8 or 128 bytes, or by counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Four bytes of data and four of flag: least latency, half the rate.
    Ll,
    /// 120 bytes of data and eight of flag, over NVLink.
    Ll128,
    /// Full rate, most latency.
    Simple,
}

/// Whether members move in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coupling {
    /// One activity for all members, as slow as its slowest link.
    Group,
    /// One activity for each source, all joined at the end.
    Source,
}

/// What `call` costs a group.
pub fn plan(model: &CollectiveModel, group: &GroupShape, call: &Collective) -> CollectivePlan {
    let choice = tuner::choose(model, group, call);
    let work = choice.work(group, call);
    let measured = model.measured(group, call.kind);
    let seconds = measured.map_or(choice.seconds, |(_, table)| {
        table.seconds(call.bytes as f64, |bytes| {
            tuner::choose(model, group, &Collective { bytes: bytes as u64, ..*call }).seconds
        })
    });
    // What the fastest message takes is latency, unless the rest would have to beat the links.
    let floor = measured.map_or(choice.latency, |(_, table)| table.floor());
    let latency = floor.min(seconds - work / choice.bus).max(0.0);
    let bytes = work.ceil() as u64;
    let (inside, between) = choice.demands(group);
    CollectivePlan {
        algorithm: choice.algorithm,
        protocol: choice.protocol,
        coupling: if choice.algorithm == Algorithm::Pairwise { Coupling::Source } else { Coupling::Group },
        latency: picoseconds(latency),
        work: bytes,
        bytes_per_s: if bytes == 0 { choice.bus } else { bytes as f64 / (seconds - latency).max(1e-12) },
        inside,
        between,
        hbm: model.hbm.of(call.kind),
        sms: choice.sms(model, call),
        measured: measured.map(|(index, _)| index),
    }
}

impl CollectivePlan {
    /// Its time when everyone has arrived and nothing else uses its links.
    pub fn alone(&self) -> Time {
        self.latency.saturating_add(picoseconds(self.work as f64 / self.bytes_per_s))
    }
}

impl GroupShape {
    /// Nodes that the group spans, at least one.
    pub fn nodes(&self) -> u32 {
        self.ranks.div_ceil(self.ranks_per_node.max(1)).max(1)
    }

    /// What a ring of the group carries (bytes/s): the links inside a node or the cards of a node, whichever is less.
    /// `relayed` is the share of links that hops over third members reach.
    fn bus(&self, relayed: f64) -> f64 {
        let reached = if self.inside.link == InsideLink::Relayed { relayed } else { 1.0 };
        let inside = self.inside.bytes_per_s * reached;
        match self.between.filter(|_| self.nodes() > 1) {
            None => inside,
            Some(cards) => {
                let node = cards.bytes_per_s * f64::from(cards.nics.max(1));
                if self.ranks_per_node > 1 { node.min(inside) } else { node }
            }
        }
    }
}
