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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Layers one by one, the one that reads the features first.
    #[schemars(extend("examples" = [{ "list": [{ "sage": { "width": 256 } }, { "gat": { "width": 64, "heads": 4 } }] }]))]
    List(Vec<ListedLayer>),
}

/// A layer of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListedLayer {
    /// Graph convolution.
    Gcn(LayerWidth),
    /// GraphSAGE with means.
    Sage(LayerWidth),
    /// Graph attention.
    Gat(LayerWidth),
    /// Relational graph convolution.
    Rgcn(LayerWidth),
    /// Relational graph attention.
    Rgat(LayerWidth),
    /// Heterogeneous graph transformer.
    Hgt(LayerWidth),
}

/// Size of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerWidth {
    /// Width of what it makes.
    #[schemars(extend("examples" = [64]))]
    pub width: Count<1, 1_048_576>,
    /// Attention heads, which share the width.
    #[serde(default = "one_head")]
    pub heads: Count<1, 1_024>,
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

/// A layer of any network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnyLayer {
    pub(crate) kind: NetworkKind,
    /// Width of what it makes.
    pub(crate) width: u64,
    pub(crate) heads: u64,
}

impl NetworkSettings {
    /// All layers, the one that reads the features first.
    pub(crate) fn layers(&self) -> Vec<AnyLayer> {
        if let Self::List(layers) = self {
            return layers.iter().map(ListedLayer::of).collect();
        }
        let Some((kind, alike)) = self.alike() else { return Vec::new() };
        let heads = alike.heads.get();
        let hidden = AnyLayer { kind, width: alike.hidden.get(), heads };
        let mut layers = vec![hidden; alike.layers.get() as usize];
        if let (Some(last), Some(outputs)) = (layers.last_mut(), alike.last_width()) {
            last.width = outputs.get();
        }
        layers
    }

    /// Function of layers that are alike, and how they are sized; none of a list.
    pub(crate) const fn alike(&self) -> Option<(NetworkKind, &NetworkLayers)> {
        Some(match self {
            Self::Gcn(layers) => (NetworkKind::Gcn, layers),
            Self::Sage(layers) => (NetworkKind::Sage, layers),
            Self::Gat(layers) => (NetworkKind::Gat, layers),
            Self::Rgcn(layers) => (NetworkKind::Rgcn, layers),
            Self::Rgat(layers) => (NetworkKind::Rgat, layers),
            Self::Hgt(layers) => (NetworkKind::Hgt, layers),
            Self::List(_) => return None,
        })
    }

    /// Width of the features that the first layer reads, where the network says it.
    pub(crate) fn inputs(&self) -> Option<u64> {
        self.alike().and_then(|(_, alike)| alike.inputs).map(Count::get)
    }

    /// The place of layer `number` below `model.graph.network`: `sage`, or `list.1.gat`.
    pub(crate) fn place(&self, number: usize, layer: &AnyLayer) -> String {
        let kind = layer.kind.name();
        if self.alike().is_some() { kind.to_owned() } else { format!("list.{number}.{kind}") }
    }
}

impl NetworkLayers {
    /// Width of what the last layer makes, where it is another than that of the layers before it.
    pub(crate) fn last_width(&self) -> Option<Count<1, 1_048_576>> {
        self.outputs.filter(|_| !self.complete)
    }
}

impl ListedLayer {
    fn of(&self) -> AnyLayer {
        let (kind, LayerWidth { width, heads }) = match *self {
            Self::Gcn(size) => (NetworkKind::Gcn, size),
            Self::Sage(size) => (NetworkKind::Sage, size),
            Self::Gat(size) => (NetworkKind::Gat, size),
            Self::Rgcn(size) => (NetworkKind::Rgcn, size),
            Self::Rgat(size) => (NetworkKind::Rgat, size),
            Self::Hgt(size) => (NetworkKind::Hgt, size),
        };
        AnyLayer { kind, width: width.get(), heads: heads.get() }
    }
}
