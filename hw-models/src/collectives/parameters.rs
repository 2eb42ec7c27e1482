//! Constants of collectives: the tuner's by generation of GPU, the measured tables, and messages.

use indexmap::IndexMap;
use serde::Deserialize;

use super::{
    BufferSizes, CollectiveKind, GroupShape, InsideLink, LogTable, PointToPointParameters, Protocol,
};
use crate::provenance::Provenance;

/// Constants of every generation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveCatalogue {
    /// The tuner's constants that all generations share.
    pub tuner: TunerConstants,
    /// Limits by generation of GPU, `ampere`.
    pub generations: IndexMap<String, GenerationLimits>,
    /// Generations that have the limits of another.
    pub same_as: IndexMap<String, String>,
    /// Rings of members that have no link to each other.
    pub relayed: RelayedRings,
    /// HBM traffic per byte sent.
    pub hbm: HbmTraffic,
    /// Messages by kind of path.
    pub point_to_point: PointToPointPaths,
    /// Buffers of communicators.
    pub buffers: BufferSizes,
    /// Measured times.
    pub tables: Vec<MeasuredTable>,
}

/// Collectives among GPUs of one generation.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveModel {
    pub(super) tuner: TunerConstants,
    pub(super) limits: GenerationLimits,
    pub(super) relayed: RelayedRings,
    pub(super) hbm: HbmTraffic,
    pub(super) point_to_point: PointToPointPaths,
    pub(super) buffers: BufferSizes,
    tables: Vec<(usize, MeasuredTable)>,
}

/// A generation of GPUs without limits, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CollectiveError(String);

/// Times of one collective in one kind of group on a single node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredTable {
    /// Generation of the GPUs.
    pub generation: String,
    /// Links inside the node.
    pub inside: InsideLink,
    /// Members.
    pub ranks: u32,
    /// The collective.
    pub kind: CollectiveKind,
    /// (bytes of the whole tensor, us).
    pub points: LogTable,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Constants of NCCL's tuner, a version of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunerConstants {
    /// Latency of a call (us).
    pub base_us: ByAlgorithm,
    /// Latency of a hop over NVLink (us).
    pub nvlink_us: ByAlgorithm,
    /// Latency of a hop over PCI Express (us).
    pub pcie_us: ByAlgorithm,
    /// Latency of a hop over the network (us).
    pub net_us: ByAlgorithm,
    /// Least latency of a hop beside network hops (us), three times as much with counters.
    pub net_overhead_us: f64,
    /// Latency of the switches' sums inside a node (us).
    pub nvls_us: f64,
    /// Latency of each level of trees between nodes beside them (us).
    pub nvls_net_us: f64,
    /// Bus bandwidth of a ring with flags in 8 bytes.
    pub ll_fraction: f64,
    /// Bus bandwidth of a ring with flags in 128 bytes.
    pub ll128_fraction: f64,
    /// Bus bandwidth of a tree.
    pub tree_fraction: f64,
    /// Of a tree with flags in 8 bytes, on top.
    pub tree_ll_fraction: f64,
    /// Of a tree with flags in 128 bytes, on top.
    pub tree_ll128_fraction: f64,
    /// Of a tree with flags in 128 bytes inside one node, on top.
    pub tree_ll128_fraction_one_node: f64,
    /// Bandwidth of trees by size, from 64 bytes on, one entry a doubling.
    pub tree_correction: TreeCorrection,
    /// Bytes for which another channel is started.
    pub bytes_per_channel: u64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// A constant for each algorithm and protocol.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByAlgorithm {
    /// Rings.
    pub ring: ByProtocol,
    /// Trees.
    pub tree: ByProtocol,
}

/// A constant for each protocol.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByProtocol {
    /// Flags in 8 bytes.
    pub ll: f64,
    /// Flags in 128 bytes.
    pub ll128: f64,
    /// Counters.
    pub simple: f64,
}

/// Factors on the bandwidth of trees by size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeCorrection {
    /// Flags in 8 bytes.
    pub ll: Vec<f64>,
    /// Flags in 128 bytes.
    pub ll128: Vec<f64>,
    /// Counters.
    pub simple: Vec<f64>,
}

/// What one generation of GPUs reaches. Lists of three are for one, two and more nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationLimits {
    /// Channels, and with it SMs, of a group over NVLink inside one node.
    pub channels: u32,
    /// Most channels of a group over several nodes.
    pub channels_between: u32,
    /// Channels for each network card that such a group uses.
    pub channels_per_nic: u32,
    /// Channels of a group over PCI Express.
    pub channels_pcie: u32,
    /// Most of a ring with flags in 8 bytes (GB/s).
    pub ll_max_gb_per_s: [f64; 3],
    /// Most of a channel of a ring with flags in 128 bytes (GB/s).
    pub ring_ll128_per_channel_gb_per_s: f64,
    /// Most of a channel of a tree (GB/s).
    pub tree_per_channel_gb_per_s: [f64; 3],
    /// Factor on the latency of rings with counters between nodes.
    pub ring_simple_latency_factor: f64,
    /// Of a step of a ring over NVLink, what the end of a message adds that sends nothing: copying in and out.
    pub ring_local_step: f64,
    /// Sums made by the switches.
    #[serde(default)]
    pub nvls: Option<NvlsParameters>,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Sums made by the NVLink switches.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvlsParameters {
    /// Fraction of the links' rate.
    pub efficiency: f64,
    /// Fewest members on a node for which they are chosen.
    pub ranks_min: u32,
}

/// Rings in which a member writes to the memory of a second one and a third reads it there.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayedRings {
    /// Share of a link's rate that they reach: what a member reads elsewhere, it asks for over the
    /// links on which it writes.
    pub fraction: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// HBM traffic of a member per byte it sends: reads of its own data and of the buffer that others wrote, and the writes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HbmTraffic {
    /// All-reduce and reduce-scatter.
    pub summing: f64,
    /// All-gather, broadcast and all-to-all.
    pub copying: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Constants of messages by kind of path.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointToPointPaths {
    /// Over NVLink.
    pub nv_link: PointToPointParameters,
    /// Over PCI Express inside a node.
    pub pcie: PointToPointParameters,
    /// Over network cards.
    pub network: PointToPointParameters,
}

impl CollectiveCatalogue {
    /// The catalogue for NVLinks, or for PCIe, that are `factor` times as fast: what was measured
    /// over them takes as much less.
    #[must_use]
    pub fn at_speed(&self, is_nvlink: bool, factor: f64) -> Self {
        let mut catalogue = self.clone();
        for table in &mut catalogue.tables {
            if (table.inside == InsideLink::Pcie) != is_nvlink {
                table.points = table.points.at_speed(factor);
            }
        }
        catalogue
    }

    /// Collectives among GPUs of a generation, with the tables measured on it.
    ///
    /// # Errors
    /// When the generation is unknown.
    pub fn model(&self, generation: &str) -> Result<CollectiveModel, CollectiveError> {
        let name = self.same_as.get(generation).map_or(generation, String::as_str);
        let limits = self.generations.get(name).ok_or_else(|| {
            let known = self.generations.keys().chain(self.same_as.keys()).cloned();
            CollectiveError(format!(
                "no collective constants for generation `{generation}`; `collectives` of the catalogue has them for {}",
                known.collect::<Vec<_>>().join(", ")
            ))
        })?;
        let measured = self.tables.iter().cloned().enumerate();
        Ok(CollectiveModel {
            tuner: self.tuner.clone(),
            limits: limits.clone(),
            relayed: self.relayed.clone(),
            hbm: self.hbm.clone(),
            point_to_point: self.point_to_point.clone(),
            buffers: self.buffers.clone(),
            tables: measured.filter(|(_, table)| table.generation == generation).collect(),
        })
    }
}

impl CollectiveCatalogue {
    /// Collectives among GPUs of several generations, for which libraries take the limits of the
    /// oldest (NCCL: the least compute capability). What was measured among GPUs of one generation
    /// does not hold there.
    ///
    /// # Errors
    /// When a generation is unknown.
    pub fn model_among(&self, generations: &[&str]) -> Result<CollectiveModel, CollectiveError> {
        let age = |generation: &&&str| {
            let name = self.same_as.get(**generation).map_or(**generation, String::as_str);
            self.generations.get_index_of(name)
        };
        let oldest = generations.iter().min_by_key(age).copied().unwrap_or_default();
        let model = self.model(oldest)?;
        let is_alone = generations.iter().all(|&generation| generation == oldest);
        Ok(if is_alone { model } else { CollectiveModel { tables: Vec::new(), ..model } })
    }
}

impl MeasuredTable {
    /// Whether another one is of the same collective in the same groups.
    pub fn is_of_the_same(&self, other: &Self) -> bool {
        let of = |table: &Self| (table.inside, table.ranks, table.kind);
        self.generation == other.generation && of(self) == of(other)
    }
}

impl CollectiveModel {
    /// The table for a collective of a group, with its index in the catalogue.
    pub(super) fn measured(&self, group: &GroupShape, kind: CollectiveKind) -> Option<(usize, &LogTable)> {
        self.tables
            .iter()
            .find(|(_, table)| {
                group.nodes() == 1
                    && table.ranks == group.ranks
                    && table.kind == kind
                    && table.inside == group.inside.link
            })
            .map(|(index, table)| (*index, &table.points))
    }
}

impl ByProtocol {
    pub(super) const fn of(&self, protocol: Protocol) -> f64 {
        match protocol {
            Protocol::Ll => self.ll,
            Protocol::Ll128 => self.ll128,
            Protocol::Simple => self.simple,
        }
    }
}

impl TunerConstants {
    /// What a protocol leaves of the bandwidth of a tree.
    pub(super) const fn tree_protocol_fraction(&self, protocol: Protocol, nodes: u32) -> f64 {
        match protocol {
            Protocol::Ll => self.tree_ll_fraction,
            Protocol::Ll128 if nodes == 1 => self.tree_ll128_fraction_one_node,
            Protocol::Ll128 => self.tree_ll128_fraction,
            Protocol::Simple => 1.0,
        }
    }

    /// Factor on the bandwidth of a tree, interpolated between the doublings of the table.
    pub(super) fn tree_correction(&self, protocol: Protocol, bytes: f64) -> f64 {
        let factors = match protocol {
            Protocol::Ll => &self.tree_correction.ll,
            Protocol::Ll128 => &self.tree_correction.ll128,
            Protocol::Simple => &self.tree_correction.simple,
        };
        let doublings = (bytes / 64.0).log2().max(0.0);
        let (below, part) = (doublings.floor(), doublings.fract());
        let at = |index: f64| factors.get(index as usize).copied().unwrap_or(1.0);
        at(below).powf(1.0 - part) * at(below + 1.0).powf(part)
    }
}

impl GenerationLimits {
    /// The entry of a list for the nodes that a group spans.
    pub(super) fn at(&self, by_nodes: &[f64; 3], group: &GroupShape) -> f64 {
        by_nodes[(group.nodes() as usize - 1).min(2)]
    }

    /// Channels of a group.
    pub(super) fn channels(&self, group: &GroupShape) -> u32 {
        match (group.nodes(), group.inside.link) {
            (1, InsideLink::Pcie) => self.channels_pcie,
            (1, _) => self.channels,
            _ => {
                let nics = group.between.map_or(1, |cards| cards.nics.max(1));
                self.channels_between.min(self.channels_per_nic.saturating_mul(nics))
            }
        }
    }
}

impl HbmTraffic {
    pub(super) const fn of(&self, kind: CollectiveKind) -> f64 {
        match kind {
            CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce => {
                self.summing
            }
            CollectiveKind::AllGather | CollectiveKind::Broadcast | CollectiveKind::AllToAll => self.copying,
        }
    }
}
