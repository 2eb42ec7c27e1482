//! The catalogue: what is known of GPUs, nodes, links, network interfaces, fabrics and drives, with sources.
//!
//! The embedded texts ([`GPUS`], ...) are YAML maps from kebab-case names to entries; [`Catalogue::embedded`] reads them with
//! the parser that the caller brings. Units are part of every key: memory is in GiB, rates are in decimal GB/s.

mod device;
mod drivers;
mod entry;
mod multiprocessor;
pub mod nearest;
mod network;
mod node;

pub use device::{Gpu, NvLinks, Pcie, PeakRates, Ssd};
pub use drivers::in_catalogue;
pub use entry::{UnknownEntry, look_up};
pub use multiprocessor::{Multiprocessor, WARP};
pub use network::{CopyRates, Fabric, LinkClass, LinkKind, LinkUnit, Nic, OneWay, Topology};
pub use node::{Branch, HostMemory, Node, NvLinkFabric, PcieTree, Processor};

use indexmap::IndexMap;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// GPUs: a map to [`Gpu`].
pub const GPUS: &str = include_str!("../../catalogue/gpus.yaml");
/// Streaming multiprocessors by compute capability: a map to [`Multiprocessor`].
pub const MULTIPROCESSORS: &str = include_str!("../../catalogue/multiprocessors.yaml");
/// Nodes: a map to [`Node`].
pub const NODES: &str = include_str!("../../catalogue/nodes.yaml");
/// Classes of links: a map to [`LinkClass`].
pub const LINKS: &str = include_str!("../../catalogue/links.yaml");
/// Network interfaces: a map to [`Nic`].
pub const NICS: &str = include_str!("../../catalogue/nics.yaml");
/// Networks between nodes: a map to [`Fabric`].
pub const FABRICS: &str = include_str!("../../catalogue/fabrics.yaml");
/// NVMe drives: a map to [`Ssd`].
pub const SSDS: &str = include_str!("../../catalogue/ssds.yaml");

/// All entries by name, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// GPUs.
    pub gpus: IndexMap<String, Gpu>,
    /// Nodes.
    pub nodes: IndexMap<String, Node>,
    /// Classes of links inside a node.
    pub links: IndexMap<String, LinkClass>,
    /// Network interfaces.
    pub nics: IndexMap<String, Nic>,
    /// Networks between nodes.
    pub fabrics: IndexMap<String, Fabric>,
    /// NVMe drives.
    pub ssds: IndexMap<String, Ssd>,
}

impl Catalogue {
    /// The embedded catalogue. `open` begins to read a YAML text: this crate has no parser of its own.
    ///
    /// # Errors
    /// Those of the parser, if it does not know YAML.
    pub fn embedded<D: Deserializer<'static>>(open: impl Fn(&'static str) -> D) -> Result<Self, D::Error> {
        Ok(Self {
            gpus: gpus(IndexMap::deserialize(open(GPUS))?, &IndexMap::deserialize(open(MULTIPROCESSORS))?)?,
            nodes: IndexMap::deserialize(open(NODES))?,
            links: IndexMap::deserialize(open(LINKS))?,
            nics: IndexMap::deserialize(open(NICS))?,
            fabrics: IndexMap::deserialize(open(FABRICS))?,
            ssds: IndexMap::deserialize(open(SSDS))?,
        })
    }
}

/// GPUs with the multiprocessor of the compute capability of each.
fn gpus<E: Error>(
    mut gpus: IndexMap<String, Gpu>,
    known: &IndexMap<String, Multiprocessor>,
) -> Result<IndexMap<String, Gpu>, E> {
    for (name, gpu) in &mut gpus {
        if let Some(capability) = &gpu.compute_capability {
            let found = known.get(capability).ok_or_else(|| {
                E::custom(format!(
                    "`{name}` has compute capability {capability}, which has no multiprocessor"
                ))
            })?;
            gpu.multiprocessor = Some(found.clone());
        }
    }
    Ok(gpus)
}
