//! Systems that run graph networks: which kernels each makes of the operators of a layer. Data,
//! read by one writer of operators ([`super::emit`]); what a kernel takes is the same for all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compact::compacted;
use super::kinds::NetworkKind;
use super::layer::NetworkLayer;
use super::reorder::reordered;

/// A system that runs a graph network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Deep Graph Library on one graph with types (`TypedLinear`, `segment_mm`): rows are copied to
    /// edges in the order of types, and multiplied type by type.
    #[default]
    Dgl,
    /// Deep Graph Library on a graph for each type of edges (`HeteroGraphConv`): all of a layer
    /// once for each type, and sums over types.
    DglHetero,
    /// PyTorch Geometric in loops over types: rows of each type are copied, multiplied and put
    /// back.
    Pyg,
    /// PyTorch Geometric in batches of products: the weight of its type is copied for each edge
    /// (`FastRGCNConv`).
    PygBmm,
    /// Code that Hector generates: products of segments that find and add rows inside the kernel,
    /// and walks over edges in which functions of edges and nodes are one kernel.
    Hector(Hector),
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
    /// Rows are copied to their edges, then a product a type.
    Copied,
    /// A loop over types: rows copied, a product, rows put back.
    Slices,
    /// Rows and weights are copied to edges, then a batch of products of one row.
    CopiedWeights,
}

/// How a system makes kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) typed: Typed,
    /// Functions of edges and nodes that need no finished sum of each other are one kernel.
    pub(super) fused: bool,
    /// Rows of nodes are copied to edges before functions of edges (PyTorch Geometric); else
    /// kernels find them (DGL's SDDMM and SpMM).
    pub(super) materialised: bool,
    /// A layer runs once for each type of edges.
    pub(super) by_relation: bool,
}

impl System {
    /// Name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dgl => "dgl",
            Self::DglHetero => "dgl-hetero",
            Self::Pyg => "pyg",
            Self::PygBmm => "pyg-bmm",
            Self::Hector(_) => "hector",
        }
    }

    pub(super) const fn rules(self) -> Rules {
        let rules = Rules { typed: Typed::Copied, fused: false, materialised: false, by_relation: false };
        match self {
            Self::Dgl => rules,
            Self::DglHetero => Rules { by_relation: true, ..rules },
            Self::Pyg => Rules { typed: Typed::Slices, materialised: true, ..rules },
            Self::PygBmm => Rules { typed: Typed::CopiedWeights, materialised: true, ..rules },
            Self::Hector(_) => Rules { typed: Typed::Segments, fused: true, ..rules },
        }
    }

    /// Asks if the system runs a network.
    ///
    /// # Errors
    /// Why it does not.
    pub fn supports(self, kind: NetworkKind) -> Result<(), String> {
        match self {
            Self::Hector(_) if !kind.is_relational() => Err(format!(
                "Hector compiles networks with types of edges, `rgcn`, `rgat` and `hgt`: use `dgl` or `pyg` for `{}`",
                kind.name()
            )),
            _ => Ok(()),
        }
    }

    /// A layer as the system has it before it makes kernels.
    pub(super) fn rewritten(self, layer: NetworkLayer) -> NetworkLayer {
        let Self::Hector(Hector { reorder, compact }) = self else { return layer };
        let layer = if reorder { reordered(layer) } else { layer };
        if compact { compacted(layer) } else { layer }
    }
}
