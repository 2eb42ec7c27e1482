//! Networks that each system runs, and in which passes: data with sources, for refusals, lists and
//! the guide. A cell that no source has is refused, not estimated.

use super::kinds::NetworkKind::{self, Gat, Gcn, Hgt, Rgat, Rgcn, Sage};
use super::system::System;

/// Networks of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// Name of the system in scenarios.
    pub system: &'static str,
    /// Networks that it runs forward.
    pub forward: &'static [NetworkKind],
    /// Networks that it trains.
    pub training: &'static [NetworkKind],
    /// True if its kernels of edges have one attention head.
    pub one_head: bool,
    /// Evidence.
    pub source: &'static str,
}

/// All networks.
const ALL: &[NetworkKind] = &[Gcn, Sage, Gat, Rgcn, Rgat, Hgt];
/// Networks with types of edges.
const RELATIONAL: &[NetworkKind] = &[Rgcn, Rgat, Hgt];

/// Every system with what it runs.
pub const SUPPORT: [Support; 10] = [
    of("dgl", ALL, ALL, "DGL: `GraphConv`, `SAGEConv`, `GATConv`, `RelGraphConv`, `HGTConv`, `TypedLinear`"),
    of("dgl-0.8", &[Gcn, Sage, Gat], &[Gcn, Sage, Gat], "DGL 0.7: `GraphConv`, `SAGEConv`, `GATConv`"),
    of("dgl-hetero", RELATIONAL, RELATIONAL, "DGL: `HeteroGraphConv`, `examples/pytorch/hgt`"),
    of(
        "pyg",
        ALL,
        ALL,
        "PyTorch Geometric: `GCNConv`, `SAGEConv`, `GATConv`, `RGCNConv`, `RGATConv`, `HGTConv`",
    ),
    of(
        "pyg-bmm",
        RELATIONAL,
        RELATIONAL,
        "PyTorch Geometric: `FastRGCNConv`; PyG-bmm of github.com/xiezhq-hermann/graphiler",
    ),
    of("pytorch", ALL, ALL, "operators of PyTorch alone, which have gradients"),
    of("hector", RELATIONAL, RELATIONAL, "Wu et al., ASPLOS 2024, section 4: its three networks"),
    Support {
        one_head: true,
        ..of(
            "graphiler",
            &[Gcn, Gat, Rgcn, Rgat, Hgt],
            &[],
            "github.com/xiezhq-hermann/graphiler: `examples`, in evaluation alone, one head in \
             `segment_softmax.cu`; RGAT in `run_graphiler_and_its_baseline.py` of github.com/K-Wu/HET",
        )
    },
    of(
        "seastar",
        &[Gcn, Gat, Rgcn],
        &[Gcn, Gat, Rgcn],
        "Wu et al., EuroSys 2021, evaluation: GCN, GAT, APPNP, R-GCN; R-GCN alone in \
         `run_graphiler_and_its_baseline.py` of github.com/K-Wu/HET",
    ),
    of(
        "hgl",
        &[Gcn, Gat, Rgcn, Rgat],
        &[Gcn, Gat, Rgcn, Rgat],
        "Gui et al., SC 2022: benchmarks of its artifact; its optimizer raises `NotImplementedError` \
         for scores that are no sums of both ends",
    ),
];

const fn of(
    system: &'static str,
    forward: &'static [NetworkKind],
    training: &'static [NetworkKind],
    source: &'static str,
) -> Support {
    Support { system, forward, training, one_head: false, source }
}

/// Work that a system is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Network.
    pub kind: NetworkKind,
    /// True with a backward pass.
    pub trained: bool,
    /// Attention heads.
    pub heads: u64,
}

impl System {
    /// Its row of [`SUPPORT`].
    pub fn support(self) -> &'static Support {
        let own = SUPPORT.iter().find(|support| support.system == self.name());
        own.unwrap_or(&SUPPORT[0])
    }

    /// Asks if the system runs a network.
    ///
    /// # Errors
    /// Fault and remedy.
    pub fn supports(self, asked: Asked) -> Result<(), (String, String)> {
        let (support, name, kind) = (self.support(), self.name(), asked.kind);
        let supported = if asked.trained { support.training } else { support.forward };
        let others = || {
            let runs = |other: &&Support| {
                (if asked.trained { other.training } else { other.forward }).contains(&kind)
                    && (!other.one_head || asked.heads == 1)
            };
            let names = SUPPORT.iter().filter(runs).map(|other| format!("`{}`", other.system));
            format!("use {}", names.collect::<Vec<_>>().join(", "))
        };
        if !supported.contains(&kind) {
            let forward_only = asked.trained && support.forward.contains(&kind);
            let pass = if forward_only { "training of " } else { "" };
            let fault = format!("`{name}` does not support {pass}`{}` ({})", kind.name(), support.source);
            let remedy = if forward_only {
                format!("write `training: {{ step: forward }}`, or {}", others())
            } else {
                others()
            };
            return Err((fault, remedy));
        }
        if support.one_head && asked.heads > 1 {
            let fault = format!("`{name}` does not support {} heads ({})", asked.heads, support.source);
            return Err((fault, format!("write `heads: 1`, or {}", others())));
        }
        Ok(())
    }
}
