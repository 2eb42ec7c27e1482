//! A graph by its statistics.

use crate::degrees::Degrees;
use crate::laws;

/// A graph. A homogeneous one has one node type and one relation.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Name, for messages.
    pub name: String,
    /// Types of nodes.
    pub node_types: Vec<NodeType>,
    /// Types of edges.
    pub relations: Vec<Relation>,
    /// Nodes with a label to train on, of which an epoch visits each once.
    pub training_nodes: Option<u64>,
    /// Each of them has an edge in; otherwise an edge in or out.
    pub training_edges_in: bool,
    /// Features of a node.
    pub feature_width: Option<u64>,
    /// Nodes over which the neighbourhoods of the training nodes spread, as a share of all.
    /// `None`: all of them.
    pub reach: Option<f64>,
    /// Nodes of a homogeneous graph without an edge in or out. `None`: degrees in and out are
    /// independent.
    pub isolated: Option<u64>,
}

/// A type of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeType {
    /// Name.
    pub name: String,
    /// Nodes of this type.
    pub nodes: u64,
}

/// A type of edges: from nodes of one type to nodes of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    /// Name.
    pub name: String,
    /// Type of the sources, by its place in [`Graph::node_types`].
    pub source: usize,
    /// Type of the destinations.
    pub destination: usize,
    /// Edges of this type.
    pub edges: u64,
    /// Distinct sources with an edge of this type.
    pub sources: u64,
    /// Distinct destinations with an edge of this type.
    pub destinations: u64,
    /// Edges into each destination.
    pub in_degrees: Degrees,
    /// Edges out of each source.
    pub out_degrees: Degrees,
    /// Share of the edges whose reverse stands, too. Where all do, a node has as many edges in as
    /// out; where none does, they are independent.
    pub reciprocal: f64,
}

impl Graph {
    /// Nodes of all types.
    pub fn nodes(&self) -> u64 {
        self.node_types.iter().map(|of| of.nodes).sum()
    }

    /// Edges of all types.
    pub fn edges(&self) -> u64 {
        self.relations.iter().map(|relation| relation.edges).sum()
    }

    /// Distinct pairs of a source and an edge type: rows that compact materialisation stores
    /// instead of one an edge (Hector, arXiv 2301.06284).
    pub fn distinct_pairs(&self) -> u64 {
        self.relations.iter().map(|relation| relation.sources).sum()
    }

    /// Share of the edges that [`distinct_pairs`](Self::distinct_pairs) are: the entity compaction
    /// ratio.
    pub fn compaction_ratio(&self) -> f64 {
        self.distinct_pairs() as f64 / self.edges() as f64
    }

    /// True if degrees of any relation are estimates rather than counts.
    pub fn is_estimate(&self) -> bool {
        let estimated = |of: &Relation| of.in_degrees.is_estimate() || of.out_degrees.is_estimate();
        self.relations.iter().any(estimated)
    }
}

impl Relation {
    /// The relation with the reverse of every edge added. Degrees in and out of a node are taken as
    /// independent but for nodes without any edge, where those are known.
    pub(crate) fn both_ways(&self, isolated: Option<u64>) -> Self {
        let edges = 2 * self.edges;
        let degrees = laws::sum(&self.in_degrees, &self.out_degrees, isolated, edges);
        Self {
            edges,
            sources: degrees.connected(),
            destinations: degrees.connected(),
            in_degrees: degrees.clone(),
            out_degrees: degrees,
            reciprocal: 1.0,
            ..self.clone()
        }
    }
}
