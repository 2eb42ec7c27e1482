//! A graph network on a graph.

use std::sync::Arc;

use graphs::{Graph, Statistics};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workloads::model::network::NetworkKind;

use super::{Count, Sampling, System};

/// A network on a graph: the whole graph at once, or sampled mini-batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphNetwork {
    /// The graph, by its statistics.
    pub data: GraphData,
    /// Function of its layers.
    pub network: NetworkSettings,
    /// Library that computes it: which kernels there are.
    #[serde(default)]
    pub system: System,
    /// Neighbours of mini-batches; without it each step takes the whole graph.
    pub sampling: Option<Sampling>,
    /// The graph as it was understood; the check of an experiment fills it in.
    #[serde(skip)]
    pub(crate) graph: Option<Arc<Graph>>,
}

/// A graph: a published one, a file of `foretrain import graph`, or its statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraphData {
    /// A published graph; `foretrain list graphs` has them.
    #[schemars(extend("examples" = [{ "preset": "reddit" }]))]
    Preset(String),
    /// File that `foretrain import graph` wrote. Paths are relative to this file.
    File(String),
    /// Statistics of a graph, spelled out.
    Statistics(Box<Statistics>),
}

/// A network by what its layers compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkSettings {
    /// Graph convolution.
    Gcn(NetworkLayers),
    /// GraphSAGE with means.
    Sage(NetworkLayers),
    /// Graph attention.
    Gat(NetworkLayers),
    /// Relational graph convolution.
    Rgcn(NetworkLayers),
    /// Relational graph attention.
    Rgat(NetworkLayers),
    /// Heterogeneous graph transformer.
    Hgt(NetworkLayers),
}

/// Layers of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkLayers {
    /// How many follow each other.
    #[serde(default = "one")]
    pub layers: Count<1, 64>,
    /// Width of the features that the first one reads; `features.width` when absent.
    pub inputs: Option<Count<1, 1_048_576>>,
    /// Width between layers.
    #[schemars(extend("examples" = [64]))]
    pub hidden: Count<1, 1_048_576>,
    /// Width of what the last one makes: classes; `hidden` when absent.
    pub outputs: Option<Count<1, 1_048_576>>,
    /// Attention heads, which share the width.
    #[serde(default = "one_head")]
    pub heads: Count<1, 1_024>,
    /// All of DGL's example of `hgt`: a linear layer with GELU before the layers, a gate between the
    /// input and the result of each, dropout, normalisation, a linear layer to `outputs` classes of
    /// the nodes of the first type.
    #[serde(default)]
    pub complete: bool,
}

fn one() -> Count<1, 64> {
    Count::literal(1)
}

fn one_head() -> Count<1, 1_024> {
    Count::literal(1)
}

impl NetworkSettings {
    /// Function of layers, and how they are sized.
    pub(crate) const fn parts(&self) -> (NetworkKind, &NetworkLayers) {
        match self {
            Self::Gcn(layers) => (NetworkKind::Gcn, layers),
            Self::Sage(layers) => (NetworkKind::Sage, layers),
            Self::Gat(layers) => (NetworkKind::Gat, layers),
            Self::Rgcn(layers) => (NetworkKind::Rgcn, layers),
            Self::Rgat(layers) => (NetworkKind::Rgat, layers),
            Self::Hgt(layers) => (NetworkKind::Hgt, layers),
        }
    }
}
