//! The part of a graph that a layer works on, in numbers: all of it, or what was sampled.

use graphs::sampling::Hop;
use graphs::{Degrees, Graph, Relation};

use super::layer::{By, End, Space};

/// Rows and edges of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subgraph {
    /// By type of nodes, those whose features are read.
    pub sources: Vec<u64>,
    /// By type of nodes, those whose features are made.
    pub destinations: Vec<u64>,
    /// Types of edges.
    pub relations: Vec<RelationCounts>,
    /// Bytes of the number of a node where it was sampled. `None`: it is all of a graph.
    pub ids: Option<u64>,
}

/// Edges of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelationCounts {
    /// Type of the nodes where they begin.
    pub source: usize,
    /// Type of the nodes where they lead.
    pub destination: usize,
    /// How many there are.
    pub edges: u64,
    /// Different nodes where they begin, and where they lead.
    pub ends: [u64; 2],
    /// Edges of the node with most of them, where they begin, and where they lead.
    pub most: [u64; 2],
}

/// Rows of a value by the weight that they are multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmented {
    /// All rows.
    pub rows: u64,
    /// Segments that have any.
    pub segments: u64,
    /// Rows of the longest.
    pub longest: u64,
}

impl Subgraph {
    /// All of a graph.
    pub fn whole(graph: &Graph) -> Self {
        let nodes: Vec<u64> = graph.node_types.iter().map(|of| of.nodes).collect();
        let counts = |relation: &Relation| RelationCounts {
            source: relation.source,
            destination: relation.destination,
            edges: relation.edges,
            ends: [relation.sources, relation.destinations],
            most: [relation.out_degrees.largest(), relation.in_degrees.largest()],
        };
        Self {
            sources: nodes.clone(),
            destinations: nodes,
            relations: graph.relations.iter().map(counts).collect(),
            ids: None,
        }
    }

    /// The part of each layer of a mini-batch, that of the first layer first: its hop is the last
    /// one. Numbers of nodes have `ids` bytes.
    pub fn sampled(graph: &Graph, hops: &[Hop], fan_out: &[u64], ids: u64) -> Vec<Self> {
        let outwards = hops.iter().zip(fan_out).rev();
        outwards.map(|(hop, &fan_out)| Self::of_hop(graph, hop, fan_out, ids)).collect()
    }

    fn of_hop(graph: &Graph, hop: &Hop, fan_out: u64, ids: u64) -> Self {
        let whole = |nodes: &[f64]| nodes.iter().map(|nodes| nodes.round() as u64).collect::<Vec<_>>();
        let (sources, destinations) = (whole(&hop.sources), whole(&hop.destinations));
        let counts = |(relation, edges): (&Relation, &f64)| {
            let edges = edges.round() as u64;
            // Edges of a node are drawn with the share that all are.
            let most = |degrees: &Degrees| {
                let share = edges as f64 / relation.edges.max(1) as f64;
                ((degrees.largest() as f64 * share).ceil() as u64).clamp(u64::from(edges > 0), edges)
            };
            RelationCounts {
                source: relation.source,
                destination: relation.destination,
                edges,
                ends: [
                    sources[relation.source].min(edges).min(relation.sources),
                    destinations[relation.destination].min(edges).min(relation.destinations),
                ],
                most: [most(&relation.out_degrees), fan_out.min(relation.in_degrees.largest()).min(edges)],
            }
        };
        let relations = graph.relations.iter().zip(&hop.edges).map(counts).collect();
        Self { sources, destinations, relations, ids: Some(ids) }
    }

    /// Nodes by type, without edges.
    pub fn of_nodes(nodes: &[u64]) -> Self {
        Self { sources: nodes.to_vec(), destinations: nodes.to_vec(), relations: Vec::new(), ids: None }
    }

    /// Edges of all types.
    pub fn edges(&self) -> u64 {
        self.relations.iter().map(|relation| relation.edges).sum()
    }

    /// Rows of a value.
    pub fn rows(&self, space: Space) -> u64 {
        match space {
            Space::Sources => self.sources.iter().sum(),
            Space::Destinations => self.destinations.iter().sum(),
            Space::Edges => self.edges(),
            Space::Pairs(end) => self.relations.iter().map(|relation| relation.of(end)).sum(),
            Space::Typed(end) => self.nodes_by_relation(end).sum(),
        }
    }

    /// Edges of the node that has most at an end, over all types; a bound from above where several
    /// types meet there.
    pub fn most(&self, end: End) -> u64 {
        let at = |relation: &RelationCounts| match end {
            End::Source => (relation.source, relation.most[0]),
            End::Destination => (relation.destination, relation.most[1]),
        };
        let types = self.sources.len().max(self.destinations.len());
        let of_type = |node: usize| {
            self.relations
                .iter()
                .map(at)
                .filter(|&(of, _)| of == node)
                .map(|(_, most)| most)
                .max()
                .unwrap_or(0)
        };
        (0..types).map(of_type).max().unwrap_or(0)
    }

    /// Rows of a value, in segments of one weight each.
    pub fn segmented(&self, space: Space, by: By) -> Segmented {
        let rows = self.rows_by_weight(space, by);
        Segmented {
            rows: rows.iter().sum(),
            segments: rows.iter().filter(|&&rows| rows > 0).count() as u64,
            longest: rows.iter().copied().max().unwrap_or(0),
        }
    }

    /// By copy of a weight, rows of a value that are multiplied with it.
    pub fn rows_by_weight(&self, space: Space, by: By) -> Vec<u64> {
        match (by, space) {
            (By::Nothing, space) => vec![self.rows(space)],
            (By::NodeType, Space::Sources) => self.sources.clone(),
            (By::NodeType, Space::Destinations) => self.destinations.clone(),
            (By::NodeType | By::EdgeType, Space::Edges) => self.relations.iter().map(|it| it.edges).collect(),
            (By::NodeType | By::EdgeType, Space::Pairs(end)) => {
                self.relations.iter().map(|it| it.of(end)).collect()
            }
            (By::NodeType | By::EdgeType, Space::Typed(end)) => self.nodes_by_relation(end).collect(),
            (By::EdgeType, Space::Sources) => self.nodes_by_relation(End::Source).collect(),
            (By::EdgeType, Space::Destinations) => self.nodes_by_relation(End::Destination).collect(),
        }
    }

    /// By type of edges, all nodes of the type at an end.
    fn nodes_by_relation(&self, end: End) -> impl Iterator<Item = u64> {
        self.relations.iter().map(move |it| match end {
            End::Source => self.sources[it.source],
            End::Destination => self.destinations[it.destination],
        })
    }

    /// Types of edges that lead to a type of nodes.
    pub fn relations_into(&self, node_type: usize) -> usize {
        self.relations.iter().filter(|relation| relation.destination == node_type).count()
    }

    /// Copies of a weight that there are.
    pub fn copies(&self, by: By) -> u64 {
        match by {
            By::Nothing => 1,
            By::NodeType => self.sources.len() as u64,
            By::EdgeType => self.relations.len() as u64,
        }
    }

    /// One type of edges, with all nodes of the types at its ends.
    pub fn only(&self, relation: usize) -> Self {
        let RelationCounts { source, destination, .. } = self.relations[relation];
        let types = if source == destination { 1 } else { 2 };
        let of = RelationCounts { source: 0, destination: types - 1, ..self.relations[relation] };
        let mut sources = vec![0; types];
        let mut destinations = vec![0; types];
        sources[0] = self.sources[source];
        destinations[types - 1] = self.destinations[destination];
        Self { sources, destinations, relations: vec![of], ids: self.ids }
    }
}

impl RelationCounts {
    /// Different nodes at an end.
    pub const fn of(&self, end: End) -> u64 {
        match end {
            End::Source => self.ends[0],
            End::Destination => self.ends[1],
        }
    }
}
