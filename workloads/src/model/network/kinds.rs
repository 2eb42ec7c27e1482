//! Networks: what their layers compute.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{By, End, Function, Made, NetworkLayer, Space, ValueId};

/// Networks, by the function of their layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkKind {
    /// Graph convolution (Kipf and Welling, ICLR 2017): sums of neighbours, scaled by degrees.
    Gcn,
    /// GraphSAGE (Hamilton et al., NeurIPS 2017): a product of a node and one of the mean of its
    /// neighbours.
    Sage,
    /// Graph attention (Velickovic et al., ICLR 2018).
    Gat,
    /// Relational graph convolution (Schlichtkrull et al., ESWC 2018): a weight for each type of
    /// edges.
    Rgcn,
    /// Relational graph attention: attention with a weight and a vector for each type of edges.
    Rgat,
    /// Heterogeneous graph transformer (Hu et al., WWW 2020).
    Hgt,
}

/// Shape of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Width of the features that it reads.
    pub inputs: u64,
    /// Width of those that it makes.
    pub outputs: u64,
    /// Attention heads, which share the width.
    pub heads: u64,
    /// True if no other layer follows: no function after it.
    pub is_last: bool,
    /// Dropout, a gate between result and input, and normalisation end a layer (HGT).
    pub gated: bool,
}

impl NetworkKind {
    /// A layer of the network.
    pub fn layer(self, shape: LayerShape) -> NetworkLayer {
        match self {
            Self::Gcn => gcn(shape),
            Self::Sage => sage(shape),
            Self::Gat => attention(shape, By::Nothing),
            Self::Rgcn => rgcn(shape),
            Self::Rgat => attention(shape, By::EdgeType),
            Self::Hgt => hgt(shape),
        }
    }

    /// Name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gcn => "gcn",
            Self::Sage => "sage",
            Self::Gat => "gat",
            Self::Rgcn => "rgcn",
            Self::Rgat => "rgat",
            Self::Hgt => "hgt",
        }
    }

    /// True if types of nodes or edges choose weights.
    pub const fn is_relational(self) -> bool {
        matches!(self, Self::Rgcn | Self::Rgat | Self::Hgt)
    }
}

/// DGL's `GraphConv` with `norm="both"`: what is narrower is summed.
fn gcn(LayerShape { inputs, outputs, is_last, .. }: LayerShape) -> NetworkLayer {
    let mut layer = NetworkLayer::default();
    let features = layer.value("features", Space::Sources, inputs, Made::Features);
    let weight = layer.weight("weight", By::Nothing, [1, inputs, outputs]);
    let scaled =
        layer.value("scaled by degree", Space::Sources, inputs, Made::Map(vec![features], Function::Mean));
    let before = inputs > outputs;
    let message = match before {
        true => layer.value("product", Space::Sources, outputs, Made::Linear(scaled, weight)),
        false => scaled,
    };
    let width = layer.get(message).width;
    let mut sum = layer.value("sum of neighbours", Space::Destinations, width, Made::Sum(message, None));
    if !before {
        sum = layer.value("product", Space::Destinations, outputs, Made::Linear(sum, weight));
    }
    let rest = layer.value("scaled", Space::Destinations, outputs, Made::Map(vec![sum], Function::Mean));
    ended(layer, rest, outputs, is_last)
}

/// DGL's `SAGEConv` with `aggregator_type="mean"`: what is narrower is averaged.
fn sage(LayerShape { inputs, outputs, is_last, .. }: LayerShape) -> NetworkLayer {
    let mut layer = NetworkLayer::default();
    let features = layer.value("features", Space::Sources, inputs, Made::Features);
    let own = layer.value("own features", Space::Destinations, inputs, Made::OwnFeatures);
    let of_neighbours = layer.weight("weight of neighbours", By::Nothing, [1, inputs, outputs]);
    let of_own = layer.weight("own weight", By::Nothing, [1, inputs, outputs]);
    let before = inputs > outputs;
    let message = match before {
        true => layer.value(
            "product of neighbours",
            Space::Sources,
            outputs,
            Made::Linear(features, of_neighbours),
        ),
        false => features,
    };
    let width = layer.get(message).width;
    let sum = layer.value("sum of neighbours", Space::Destinations, width, Made::Sum(message, None));
    let mut mean =
        layer.value("mean of neighbours", Space::Destinations, width, Made::Map(vec![sum], Function::Mean));
    if !before {
        mean = layer.value(
            "product of neighbours",
            Space::Destinations,
            outputs,
            Made::Linear(mean, of_neighbours),
        );
    }
    let own = layer.value("own product", Space::Destinations, outputs, Made::Linear(own, of_own));
    let both = layer.value("both", Space::Destinations, outputs, Made::Map(vec![own, mean], Function::Add));
    ended(layer, both, outputs, is_last)
}

/// Bias, ReLU and dropout between layers.
fn ended(mut layer: NetworkLayer, last: ValueId, width: u64, is_last: bool) -> NetworkLayer {
    let bias = layer.weight("bias", By::Nothing, [1, 1, width]);
    let biased =
        layer.value("biased", Space::Destinations, width, Made::Map(vec![last], Function::Bias(bias)));
    layer.output = biased;
    if !is_last {
        let relu = layer.value("relu", Space::Destinations, width, Made::Map(vec![biased], Function::Relu));
        layer.output =
            layer.value("dropout", Space::Destinations, width, Made::Map(vec![relu], Function::Dropout));
    }
    layer
}

/// `self = X W0`; for each edge `X[source] W[type]` times a constant; sums; tanh (hector's `RGCN`).
fn rgcn(LayerShape { inputs, outputs, .. }: LayerShape) -> NetworkLayer {
    let mut layer = NetworkLayer::default();
    let features = layer.value("features", Space::Sources, inputs, Made::Features);
    let own = layer.value("own features", Space::Destinations, inputs, Made::OwnFeatures);
    let norm = layer.value("norm", Space::Edges, 1, Made::EdgeConstant);
    let typed = layer.weight("weight of the type", By::EdgeType, [1, inputs, outputs]);
    let loops = layer.weight("own weight", By::Nothing, [1, inputs, outputs]);
    let message = layer.value("message", Space::Edges, outputs, Made::Linear(features, typed));
    let sum = layer.value("sum of messages", Space::Destinations, outputs, Made::Sum(message, Some(norm)));
    let own = layer.value("own product", Space::Destinations, outputs, Made::Linear(own, loops));
    let both = layer.value("both", Space::Destinations, outputs, Made::Map(vec![own, sum], Function::Add));
    layer.output = layer.value("tanh", Space::Destinations, outputs, Made::Map(vec![both], Function::Tanh));
    layer
}

/// `zi = X[source] W`, `zj = X[destination] W`; the softmax of `LeakyReLU(a . (zi || zj))` over the
/// edges of a destination weighs `zi`. With one weight, and with one of each type.
fn attention(LayerShape { inputs, outputs, heads, .. }: LayerShape, by: By) -> NetworkLayer {
    let mut layer = NetworkLayer::default();
    let features = layer.value("features", Space::Sources, inputs, Made::Features);
    let own = layer.value("own features", Space::Destinations, inputs, Made::OwnFeatures);
    let weight = layer.weight("weight", by, [1, inputs, outputs]);
    let each = outputs / heads.max(1);
    let halves = ["attention vector of sources", "attention vector of destinations"]
        .map(|name| layer.weight(name, by, [heads, each, 1]));
    let space = |end: End| if by == By::Nothing { end.nodes() } else { Space::Edges };
    let (at_source, at_destination) = (space(End::Source), space(End::Destination));
    let sources = layer.value("product of sources", at_source, outputs, Made::Linear(features, weight));
    let ends = layer.value("product of destinations", at_destination, outputs, Made::Linear(own, weight));
    let [first, second] = [(sources, at_source, halves[0]), (ends, at_destination, halves[1])]
        .map(|(of, space, half)| layer.value("half of the score", space, heads, Made::Linear(of, half)));
    let score = layer.value("score", Space::Edges, heads, Made::Map(vec![first, second], Function::Add));
    let leaky = layer.value("leaky relu", Space::Edges, heads, Made::Map(vec![score], Function::LeakyRelu));
    let weights = layer.value("attention", Space::Edges, heads, Made::Softmax(leaky));
    layer.output =
        layer.value("weighted sum", Space::Destinations, outputs, Made::Sum(sources, Some(weights)));
    layer
}

/// Linear layer with GELU of each type of nodes, before the layers of HGT (`adapt_ws` of DGL's
/// example).
pub(super) fn entry(inputs: u64, outputs: u64) -> NetworkLayer {
    let mut layer = NetworkLayer::default();
    let features = layer.value("features", Space::Destinations, inputs, Made::Features);
    let weight = layer.weight("entry weight", By::NodeType, [1, inputs, outputs]);
    let product = layer.value("entry", Space::Destinations, outputs, Made::Linear(features, weight));
    layer.output =
        layer.value("gelu", Space::Destinations, outputs, Made::Map(vec![product], Function::Gelu));
    layer
}

/// Linear layer from the last features to classes.
pub(super) fn classifier(inputs: u64, classes: u64) -> NetworkLayer {
    let mut layer = NetworkLayer::default();
    let features = layer.value("features", Space::Destinations, inputs, Made::Features);
    let weight = layer.weight("class weight", By::Nothing, [1, inputs, classes]);
    layer.output = layer.value("classes", Space::Destinations, classes, Made::Linear(features, weight));
    layer
}

/// For each type of nodes linear `k`, `q`, `v`; for each edge `k W_att[type]`, times `q` and a
/// constant of the type; softmax; `v W_msg[type]`, weighed and summed; a linear layer of the node's
/// type. Scales by a parameter are in that weight, unless the layer is gated (DGL 0.9.1,
/// `examples/pytorch/hgt/model.py`).
fn hgt(LayerShape { inputs, outputs, heads, gated, .. }: LayerShape) -> NetworkLayer {
    let mut layer = NetworkLayer::default();
    let features = layer.value("features", Space::Sources, inputs, Made::Features);
    let own = layer.value("own features", Space::Destinations, inputs, Made::OwnFeatures);
    let prior = layer.value("prior of the type", Space::Edges, heads, Made::EdgeConstant);
    let each = outputs / heads.max(1);
    let [k, q, v] = ["weight of keys", "weight of queries", "weight of values"]
        .map(|name| layer.weight(name, By::NodeType, [1, inputs, outputs]));
    let [attention, message] = ["attention weight", "message weight"]
        .map(|name| layer.weight(name, By::EdgeType, [heads, each, each]));
    let keys = layer.value("keys", Space::Sources, outputs, Made::Linear(features, k));
    let queries = layer.value("queries", Space::Destinations, outputs, Made::Linear(own, q));
    let values = layer.value("values", Space::Sources, outputs, Made::Linear(features, v));
    let typed = layer.value("keys of the type", Space::Edges, outputs, Made::Linear(keys, attention));
    let dot = layer.value("products with queries", Space::Edges, heads, Made::Dot(typed, queries));
    let score = layer.value("score", Space::Edges, heads, Made::Map(vec![dot, prior], Function::Multiply));
    let weights = layer.value("attention", Space::Edges, heads, Made::Softmax(score));
    let messages = layer.value("message", Space::Edges, outputs, Made::Linear(values, message));
    let at_nodes = Space::Destinations;
    let sum = layer.value("weighted sum", at_nodes, outputs, Made::Sum(messages, Some(weights)));
    let out = layer.weight("output weight", By::NodeType, [1, outputs, outputs]);
    layer.output = layer.value("output product", at_nodes, outputs, Made::Linear(sum, out));
    if gated {
        let [gate, norm] = [("gate", 1), ("scale and shift", 2)].map(|(name, rows)| {
            layer.weight(name, By::NodeType, [1, rows, if rows == 1 { 1 } else { outputs }])
        });
        let product = layer.output;
        let mut then = |name, of, function| layer.value(name, at_nodes, outputs, Made::Map(of, function));
        let dropped = then("dropout", vec![product], Function::Dropout);
        let kept = then("gated", vec![dropped, own], Function::Gate(gate));
        layer.output = then("norm", vec![kept], Function::Norm(norm));
    }
    layer
}
