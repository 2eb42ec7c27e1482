//! Systems that run graph networks: which kernels each makes of the operators of a layer. Data,
//! read by one writer of operators ([`super::emit`]); what a kernel takes is the same for all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compact::stored_at;
use super::layer::{NetworkLayer, Space};
use super::reorder::reordered;

/// A system that runs a graph network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Deep Graph Library on one graph with types (`TypedLinear`, `segment_mm`): rows are copied to
    /// edges in the order of types, and multiplied type by type.
    #[default]
    Dgl,
    /// Deep Graph Library up to release 0.8: as `dgl`, but sorts and counts of sampled blocks take
    /// memory from the driver, and freeing it waits for the GPU.
    #[serde(rename = "dgl-0.8")]
    Dgl08,
    /// Deep Graph Library on a graph for each type of edges (`HeteroGraphConv`): all of a layer
    /// once for each type, and sums over types.
    DglHetero,
    /// PyTorch Geometric in loops over types: rows of each type are copied, multiplied and put
    /// back.
    Pyg,
    /// PyTorch Geometric in batches of products: the weight of its type is copied for each edge
    /// (`FastRGCNConv`).
    PygBmm,
    /// Loops over types in plain PyTorch, with the edges of each type next to each other: rows are
    /// copied to edges, multiplied type by type and joined; no count is awaited, so a graph can
    /// hold it.
    Pytorch,
    /// Code that Hector generates: products of segments that find and add rows inside the kernel,
    /// and walks over edges in which functions of edges and nodes are one kernel.
    Hector(Hector),
    /// Graphiler's data-flow graph of messages (Xie et al., MLSys 2022): products of edges become
    /// products of segments or nodes, some patterns DGL's kernels, the rest stays an operator each.
    Graphiler,
    /// Seastar's programs of vertices (Wu et al., EuroSys 2021): a kernel a sum, forward and
    /// backward, with the products of its edges inside.
    Seastar,
    /// HGL (Gui et al., SC 2022): a product of nodes for each relation, whose results are joined as
    /// rows of one graph of all relations; scores and sums of its edges are fused.
    Hgl,
}

/// Passes of Hector beside its templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hector {
    /// Multiply weights first where products follow each other (linear operator reordering).
    pub reorder: bool,
    /// Keep what depends on a node and the type of its edges once for each pair of the two (compact
    /// materialisation).
    pub compact: bool,
}

/// How products with the weight of a type run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// One kernel for all types, which finds its rows by lists and adds results by atomics.
    Segments,
    /// Rows are copied to their edges, then a product a type, each into its part of the result.
    Copied,
    /// Rows are copied to their edges, then a product a type, whose results are joined.
    Joined,
    /// A loop over types: rows copied, a product, rows put back.
    Slices,
    /// Rows and weights are copied to edges, then a batch of products of one row.
    CopiedWeights,
    /// Each edge multiplies its row itself, in the walk that reads the result.
    Walked,
}

/// How functions of edges and sums over them run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeKernels {
    /// Kernels that find rows of nodes and sum for one node after the other, a kernel each: DGL's
    /// SDDMM and SpMM, with a softmax of five.
    Templates,
    /// Rows of nodes are copied to edges, functions are an operator each, sums add by atomics.
    Scattered,
    /// DGL's kernels for sums of ends and for sums of rows of nodes, a softmax in one kernel; else
    /// rows are copied to edges and functions are an operator each.
    Patterns,
    /// Functions that need no finished sum of each other are one kernel, which adds by atomics.
    Fused,
    /// Fused functions in walks that sum for one node after the other, in the backward pass one for
    /// each end of edges.
    FusedInOrder,
}

/// Formats in which kernels find the edges of a sampled block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formats {
    /// As the sampler leaves them.
    AsGiven,
    /// Sorted by the end that kernels sum at, in memory of the framework.
    Converted,
    /// Sorted likewise, in memory of the driver.
    ConvertedByDriver,
}

/// How a system makes kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) typed: Typed,
    pub(super) edges: EdgeKernels,
    pub(super) formats: Formats,
    /// A layer runs once for each type of edges, functions of nodes once for each of nodes.
    pub(super) by_relation: bool,
    /// Values that depend on a node and the type of its edges are there for all nodes of the type at
    /// that end, not for edges.
    pub(super) at_nodes: bool,
}

impl Rules {
    /// True if functions of edges and nodes share kernels.
    pub(super) const fn fuses(&self) -> bool {
        matches!(self.edges, EdgeKernels::Fused | EdgeKernels::FusedInOrder)
    }

    /// True if sums add by atomics.
    pub(super) const fn adds_by_atomics(&self) -> bool {
        matches!(self.edges, EdgeKernels::Scattered | EdgeKernels::Fused)
    }
}

impl System {
    /// Name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dgl => "dgl",
            Self::Dgl08 => "dgl-0.8",
            Self::DglHetero => "dgl-hetero",
            Self::Pyg => "pyg",
            Self::PygBmm => "pyg-bmm",
            Self::Pytorch => "pytorch",
            Self::Hector(_) => "hector",
            Self::Graphiler => "graphiler",
            Self::Seastar => "seastar",
            Self::Hgl => "hgl",
        }
    }

    /// Rules, from the code of each: DGL 0.9 (`dgl/nn/pytorch/conv/hgtconv.py`, `relgraphconv.py`;
    /// by relation `examples/pytorch/hgt/model.py`), PyTorch Geometric (`RGCNConv`,
    /// `FastRGCNConv`), github.com/K-Wu/HET at 31bc0c4 for Hector and the kernels of Seastar that it keeps
    /// (`RGCN/SeastarRGCNKernels.cu.h`), github.com/xiezhq-hermann/graphiler
    /// (`src/optimizer/fusion.cpp`, `src/ops`), the optimizer and executor of HGL's artifact, which
    /// leave products as they are: its bundles are pairs of products of the same rows.
    pub(super) fn rules(self) -> Rules {
        let of = |typed, edges| {
            let formats = Formats::AsGiven;
            Rules { typed, edges, formats, by_relation: false, at_nodes: false }
        };
        let dgl = Rules { formats: Formats::Converted, ..of(Typed::Copied, EdgeKernels::Templates) };
        match self {
            Self::Dgl => dgl,
            Self::Dgl08 => Rules { formats: Formats::ConvertedByDriver, ..dgl },
            Self::DglHetero => Rules { by_relation: true, at_nodes: true, ..dgl },
            Self::Pyg => of(Typed::Slices, EdgeKernels::Scattered),
            Self::PygBmm => of(Typed::CopiedWeights, EdgeKernels::Scattered),
            Self::Pytorch => of(Typed::Joined, EdgeKernels::Scattered),
            Self::Hector(_) => of(Typed::Segments, EdgeKernels::Fused),
            Self::Graphiler => of(Typed::Joined, EdgeKernels::Patterns),
            Self::Seastar => of(Typed::Walked, EdgeKernels::FusedInOrder),
            Self::Hgl => Rules { at_nodes: true, ..of(Typed::Joined, EdgeKernels::FusedInOrder) },
        }
    }

    /// True if arrays of edges are taken from the driver, and given back in each step.
    pub fn arrays_of_driver(self) -> bool {
        self.rules().formats == Formats::ConvertedByDriver
    }

    /// A layer as the system has it before it makes kernels.
    pub(super) fn rewritten(self, layer: NetworkLayer) -> NetworkLayer {
        match self {
            Self::Hector(Hector { reorder, compact }) => {
                let layer = if reorder { reordered(layer) } else { layer };
                if compact { stored_at(layer, Space::Pairs) } else { layer }
            }
            _ if self.rules().at_nodes => stored_at(layer, Space::Typed),
            _ => layer,
        }
    }
}
