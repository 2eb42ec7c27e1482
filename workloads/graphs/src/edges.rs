//! A graph as a list of edges, and the sampler that draws from it: plain and slow, for tests and
//! small graphs. [`sampling`](crate::sampling) has what it gives on average.

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::index;
use rand_chacha::ChaCha8Rng;

use crate::degrees::Degrees;
use crate::graph::{Graph, NodeType, Relation};

/// Edges of a homogeneous graph.
#[derive(Clone, Debug)]
pub struct Edges {
    /// Sources of the edges into each node.
    neighbours: Vec<Vec<u32>>,
    /// Share of the edges whose reverse stands, too.
    reciprocal: f64,
}

/// Mini-batch that was drawn.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Hops, from the seeds outward.
    pub hops: Vec<DrawnHop>,
    /// Nodes whose rows are read, ascending.
    pub rows: Vec<u32>,
}

/// Hop of a mini-batch that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnHop {
    /// Nodes that gather.
    pub destinations: u64,
    /// Distinct nodes that are gathered from, destinations included.
    pub sources: u64,
    /// Sampled edges.
    pub edges: u64,
    /// Edges that they are drawn from.
    pub candidates: u64,
}

impl Edges {
    /// Edges from the first to the second node of each pair, and those that have a reverse, of
    /// which one direction is given.
    ///
    /// # Panics
    /// If a node is not below `nodes`.
    pub fn new(nodes: u32, one_way: &[(u32, u32)], both_ways: &[(u32, u32)]) -> Self {
        let mut neighbours = vec![Vec::new(); nodes as usize];
        let reversed = both_ways.iter().map(|&(source, destination)| (destination, source));
        for (source, destination) in one_way.iter().chain(both_ways).copied().chain(reversed) {
            assert!(source < nodes, "node {source} of {nodes}");
            neighbours[destination as usize].push(source);
        }
        let both = 2 * both_ways.len();
        let edges = (both + one_way.len()).max(1);
        Self { neighbours, reciprocal: both as f64 / edges as f64 }
    }

    /// The statistics of this graph.
    pub fn graph(&self) -> Graph {
        let mut out = vec![0_u64; self.neighbours.len()];
        self.neighbours.iter().flatten().for_each(|&source| out[source as usize] += 1);
        let isolated = self.neighbours.iter().zip(&out).filter(|(of, out)| of.is_empty() && **out == 0);
        let isolated = isolated.count() as u64;
        let histogram = |degrees: &mut dyn Iterator<Item = u64>| {
            let mut counts = BTreeMap::new();
            degrees.for_each(|degree| *counts.entry(degree).or_insert(0) += 1);
            Degrees::exact(counts)
        };
        let in_degrees = histogram(&mut self.neighbours.iter().map(|of| of.len() as u64));
        let out_degrees = histogram(&mut out.into_iter());
        let relation = Relation {
            name: "edge".to_owned(),
            source: 0,
            destination: 0,
            edges: in_degrees.edges(),
            sources: out_degrees.connected(),
            destinations: in_degrees.connected(),
            in_degrees,
            out_degrees,
            reciprocal: self.reciprocal,
        };
        Graph {
            name: "edges".to_owned(),
            node_types: vec![NodeType { name: "node".to_owned(), nodes: self.neighbours.len() as u64 }],
            relations: vec![relation],
            training_nodes: None,
            training_edges_in: false,
            feature_width: None,
            reach: None,
            isolated: (self.reciprocal < 1.0).then_some(isolated),
        }
    }

    /// Draws a mini-batch: `fan_out` neighbours without replacement of each node reached, hop by
    /// hop from the seeds outward.
    pub fn sample(&self, seeds: &[u32], fan_out: &[u64], random: &mut ChaCha8Rng) -> Drawn {
        let mut reached: BTreeSet<u32> = seeds.iter().copied().collect();
        let mut hop = |&fan_out: &u64| {
            let destinations: Vec<u32> = reached.iter().copied().collect();
            let (mut edges, mut candidates) = (0, 0);
            for node in &destinations {
                let of = &self.neighbours[*node as usize];
                let drawn = of.len().min(fan_out as usize);
                edges += drawn as u64;
                candidates += of.len() as u64;
                reached.extend(index::sample(random, of.len(), drawn).iter().map(|at| of[at]));
            }
            let (destinations, sources) = (destinations.len() as u64, reached.len() as u64);
            DrawnHop { destinations, sources, edges, candidates }
        };
        let hops = fan_out.iter().map(&mut hop).collect();
        Drawn { hops, rows: reached.into_iter().collect() }
    }

    /// Nodes that have an edge, in or out.
    pub fn connected(&self) -> Vec<u32> {
        let mut connected: BTreeSet<u32> = self.neighbours.iter().flatten().copied().collect();
        let into = self.neighbours.iter().enumerate().filter(|(_, of)| !of.is_empty());
        connected.extend(into.map(|(node, _)| node as u32));
        connected.into_iter().collect()
    }
}
