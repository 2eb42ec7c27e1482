//! A graph as a list of edges, and the sampler that draws from it: plain and slow, for tests and
//! small graphs. [`sampling`](crate::sampling) has what it gives on average.

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::index;
use rand_chacha::ChaCha8Rng;

use crate::degrees::Degrees;
use crate::graph::{Graph, NodeType, Relation};

/// Edges of a graph.
#[derive(Clone, Debug)]
pub struct Edges {
    /// Nodes of each type.
    nodes: Vec<u32>,
    relations: Vec<OfRelation>,
}

/// Types of sources and destinations of a relation, and pairs of these.
pub type Pairs = (usize, usize, Vec<(u32, u32)>);

/// Edges of one type.
#[derive(Clone, Debug)]
struct OfRelation {
    source: usize,
    destination: usize,
    /// Sources of the edges into each destination.
    neighbours: Vec<Vec<u32>>,
    /// Share of the edges whose reverse stands, too.
    reciprocal: f64,
}

/// Mini-batch that was drawn.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Hops, from the seeds outward.
    pub hops: Vec<DrawnHop>,
    /// By type, nodes whose rows are read, ascending.
    pub rows: Vec<Vec<u32>>,
}

/// Hop of a mini-batch that was drawn, over all types.
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
    /// Edges of a homogeneous graph, from the first to the second node of each pair, and those that
    /// have a reverse, of which one direction is given.
    ///
    /// # Panics
    /// If a node is not below `nodes`.
    pub fn new(nodes: u32, one_way: &[(u32, u32)], both_ways: &[(u32, u32)]) -> Self {
        let reversed = both_ways.iter().map(|&(source, destination)| (destination, source));
        let all: Vec<(u32, u32)> = one_way.iter().chain(both_ways).copied().chain(reversed).collect();
        let mut edges = Self::of_types(&[nodes], &[(0, 0, all)]);
        let both = 2 * both_ways.len();
        edges.relations[0].reciprocal = both as f64 / (both + one_way.len()).max(1) as f64;
        edges
    }

    /// Edges of several types between nodes of several types.
    ///
    /// # Panics
    /// If a node is not below the number of its type.
    pub fn of_types(nodes: &[u32], relations: &[Pairs]) -> Self {
        let of_relation = |&(source, destination, ref pairs): &Pairs| {
            let mut neighbours = vec![Vec::new(); nodes[destination] as usize];
            for &(from, to) in pairs {
                assert!(from < nodes[source], "node {from} of {}", nodes[source]);
                neighbours[to as usize].push(from);
            }
            OfRelation { source, destination, neighbours, reciprocal: 0.0 }
        };
        Self { nodes: nodes.to_vec(), relations: relations.iter().map(of_relation).collect() }
    }

    /// The statistics of this graph.
    pub fn graph(&self) -> Graph {
        let relations = self.relations.iter().enumerate();
        let node_type =
            |(at, &nodes): (usize, &u32)| NodeType { name: format!("node {at}"), nodes: nodes.into() };
        Graph {
            name: "edges".to_owned(),
            node_types: self.nodes.iter().enumerate().map(node_type).collect(),
            relations: relations.map(|(at, of)| of.relation(at, self.nodes[of.source])).collect(),
            training_nodes: None,
            training_edges_in: false,
            feature_width: None,
            reach: None,
            isolated: self.isolated(),
        }
    }

    /// Nodes of a homogeneous graph without an edge, where some edges have no reverse.
    fn isolated(&self) -> Option<u64> {
        let [of] = &self.relations[..] else { return None };
        let homogeneous = of.source == of.destination && of.reciprocal < 1.0;
        homogeneous.then(|| u64::from(self.nodes[of.source]) - self.connected(of.source).len() as u64)
    }

    /// Draws a mini-batch of seeds of a type: `fan_out` neighbours by each relation without
    /// replacement of each node reached, hop by hop from the seeds outward.
    pub fn sample(
        &self,
        (seed_type, seeds): (usize, &[u32]),
        fan_out: &[u64],
        random: &mut ChaCha8Rng,
    ) -> Drawn {
        let mut reached: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); self.nodes.len()];
        reached[seed_type].extend(seeds);
        let count = |reached: &[BTreeSet<u32>]| reached.iter().map(|of| of.len() as u64).sum();
        let mut hop = |&fan_out: &u64| {
            let before = reached.clone();
            let (mut edges, mut candidates) = (0, 0);
            for of in &self.relations {
                for &node in &before[of.destination] {
                    let from = &of.neighbours[node as usize];
                    let drawn = from.len().min(fan_out as usize);
                    edges += drawn as u64;
                    candidates += from.len() as u64;
                    let nodes = index::sample(random, from.len(), drawn);
                    reached[of.source].extend(nodes.iter().map(|at| from[at]));
                }
            }
            DrawnHop { destinations: count(&before), sources: count(&reached), edges, candidates }
        };
        let hops = fan_out.iter().map(&mut hop).collect();
        Drawn { hops, rows: reached.into_iter().map(|of| of.into_iter().collect()).collect() }
    }

    /// Nodes of a type that have an edge, in or out.
    pub fn connected(&self, node_type: usize) -> Vec<u32> {
        let mut connected = BTreeSet::new();
        for of in &self.relations {
            if of.source == node_type {
                connected.extend(of.neighbours.iter().flatten());
            }
            if of.destination == node_type {
                let into = of.neighbours.iter().zip(0..).filter(|(from, _)| !from.is_empty());
                connected.extend(into.map(|(_, node): (_, u32)| node));
            }
        }
        connected.into_iter().collect()
    }
}

impl OfRelation {
    /// The statistics of its edges.
    fn relation(&self, number: usize, sources: u32) -> Relation {
        let mut out = vec![0_u64; sources as usize];
        self.neighbours.iter().flatten().for_each(|&source| out[source as usize] += 1);
        let histogram = |degrees: &mut dyn Iterator<Item = u64>| {
            let mut counts = BTreeMap::new();
            degrees.for_each(|degree| *counts.entry(degree).or_insert(0) += 1);
            Degrees::exact(counts)
        };
        let in_degrees = histogram(&mut self.neighbours.iter().map(|of| of.len() as u64));
        let out_degrees = histogram(&mut out.into_iter());
        Relation {
            name: format!("edge {number}"),
            source: self.source,
            destination: self.destination,
            edges: in_degrees.edges(),
            sources: out_degrees.connected(),
            destinations: in_degrees.connected(),
            in_degrees,
            out_degrees,
            reciprocal: self.reciprocal,
        }
    }
}
