//! Hardware of what-ifs: GPUs, links and costs of graphs that the catalogue knows, as changes.

use hw_models::catalogue::{
    Catalogue, CopyRates, Gpu, LinkClass, LinkKind, UnknownEntry, in_catalogue, look_up,
};
use hw_models::host::{Cost, HostCosts};
use hw_models::kernels::KernelModel;
use indexmap::IndexMap;
use serde_json::Value;

use super::changes::{Change, GpuSwap, GraphCosts, LinkSwap};
use super::traced::Traced;

/// Facts of hardware that changes name.
#[derive(Clone, Copy, Debug)]
pub struct Hardware<'a> {
    /// GPUs and links.
    pub devices: &'a Catalogue,
    /// Costs of graphs.
    pub host: &'a HostCosts,
    /// Kernels of a GPU of the catalogue, or why they are not known.
    pub kernels: fn(&str) -> Result<KernelModel, String>,
}

/// A setting that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its field.
    pub field: &'static str,
    /// The fault.
    pub message: String,
    /// Its remedy.
    pub help: String,
}

/// A change that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) field: &'static str,
    pub(super) change: Change,
    /// Its numbers, and where they are from.
    pub(super) basis: Option<String>,
}

impl Hardware<'_> {
    pub(super) fn graphs(self) -> Planned {
        let HostCosts { graph_launch, graph_node, gap_in_graph, .. } = self.host;
        let costs =
            GraphCosts { launch: graph_launch.time(), node: graph_node.time(), gap: gap_in_graph.time() };
        let words = [("a launch", graph_launch), ("a node", graph_node), ("a gap at most", gap_in_graph)];
        let basis = Some(words.map(cost).join(", "));
        Planned { field: "launch", change: Change::Graphs(costs), basis }
    }

    pub(super) fn gpu_swap(self, written: &str, traced: &Traced) -> Result<Planned, Fault> {
        const FIELD: &str = "gpu";
        let (recorded, new) = replaced(written);
        let known = |name: &str| look_up(&self.devices.gpus, "GPU", name).map_err(|it| unknown(FIELD, it));
        // A slip in the new one is told before what the trace does not say.
        known(new)?;
        let recorded = recorded.map_or_else(|| recorded_gpu(traced, FIELD, "v100-sxm2-32gb", new), Ok)?;
        known(recorded)?;
        let model = |name: &str| {
            let help = "name a GPU whose kernels are known".to_owned();
            (self.kernels)(name).map_err(|message| Fault { field: FIELD, message, help })
        };
        let change = Change::Gpu(GpuSwap::between(&model(recorded)?, &model(new)?));
        let basis = Some(format!("from {recorded}, by peaks and bandwidths of the catalogue"));
        Ok(Planned { field: FIELD, change, basis })
    }

    pub(super) fn link_swap(self, written: &str, traced: &Traced) -> Result<Planned, Fault> {
        const FIELD: &str = "link";
        /// Lanes of a link that is written.
        const LANES: u32 = 16;
        let (recorded, new) = replaced(written);
        let (recorded, lanes) = match recorded {
            Some(recorded) => (recorded, LANES),
            None => {
                self.copies(FIELD, new, LANES)?;
                let name = recorded_gpu(traced, FIELD, "pcie3", new)?;
                let gpu: &Gpu = look_up(&self.devices.gpus, "GPU", name).map_err(|it| unknown(FIELD, it))?;
                (gpu.pcie.class.as_str(), gpu.pcie.lanes)
            }
        };
        let [before, after] = [self.copies(FIELD, recorded, lanes)?, self.copies(FIELD, new, lanes)?];
        let basis = Some(format!("from {recorded}, {lanes} lanes"));
        Ok(Planned { field: FIELD, change: Change::Link(LinkSwap::between(before, after)), basis })
    }

    /// Rates of copies over some lanes of a class of PCIe links.
    fn copies(self, field: &'static str, class: &str, lanes: u32) -> Result<CopyRates, Fault> {
        let links = self.devices.links.iter().filter(|(_, link)| link.kind == LinkKind::Pcie);
        let links: IndexMap<String, &LinkClass> = links.map(|(name, link)| (name.clone(), link)).collect();
        let link = look_up(&links, "PCIe link", class).map_err(|it| unknown(field, it))?;
        Ok(link.copied(lanes))
    }
}

/// The recorded name, if it is written, and the new one.
fn replaced(written: &str) -> (Option<&str>, &str) {
    match written.split_once(':') {
        Some((recorded, new)) => (Some(recorded.trim()), new.trim()),
        None => (None, written.trim()),
    }
}

/// The entry of the catalogue for the GPU that was recorded; `example` is one that could be
/// written.
fn recorded_gpu(
    traced: &Traced,
    field: &'static str,
    example: &str,
    new: &str,
) -> Result<&'static str, Fault> {
    let name = traced.devices.values().map(|device| device.name.as_str()).next();
    name.and_then(in_catalogue).ok_or_else(|| {
        let message = match name {
            Some(name) => format!("the trace was recorded on `{name}`, which the catalogue does not know"),
            None => "the trace does not name its GPU".to_owned(),
        };
        let help = format!("write the recorded one before the new one, as in `{example}:{new}`");
        Fault { field, message, help }
    })
}

fn unknown(field: &'static str, entry: UnknownEntry) -> Fault {
    let UnknownEntry { noun, name, remedy } = entry;
    Fault { field, message: format!("the catalogue has no {noun} `{name}`"), help: remedy }
}

/// A cost of the host with where it is from.
fn cost((what, cost): (&str, &Cost)) -> String {
    let word = |word: serde_json::Result<Value>| {
        word.ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let provenance = &cost.provenance;
    let [origin, confidence] =
        [serde_json::to_value(provenance.origin), serde_json::to_value(provenance.confidence)].map(word);
    format!("{what} {} us ({origin}, {confidence} confidence)", cost.us)
}
