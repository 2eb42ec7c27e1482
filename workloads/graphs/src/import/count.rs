//! Counters of an edge list, and the statistics they give.

use std::collections::BTreeMap;

use super::fingerprints::{Fingerprints, hash};
use super::pairs::Pairs;
use super::{Fault, Imported, Options};
use crate::settings::{DegreeSettings, MOST_TYPES, RelationSettings, Statistics};

/// Counters of edges, by node or by node and type.
#[derive(Default)]
pub(super) struct Counter {
    edges: u64,
    self_loops: u64,
    nodes: u32,
    /// Edges into and out of each node, where edges have no types.
    degrees: Vec<[u32; 2]>,
    types: BTreeMap<Box<[u8]>, u32>,
    destinations: Pairs,
    sources: Pairs,
    fingerprints: Fingerprints,
    /// Hashes of the edges less those of their reverses: zero where each has its reverse.
    lopsided: u64,
}

impl Counter {
    pub(super) fn is_empty(&self) -> bool {
        self.edges == 0
    }

    /// Counts an edge of a list without types.
    pub(super) fn edge(&mut self, source: u32, destination: u32) -> Result<(), Fault> {
        self.any(source, destination, 0);
        let nodes = self.nodes as usize;
        if self.degrees.len() < nodes {
            // Grows in steps, so that what is reserved stays close to what is used.
            self.degrees.reserve_exact((nodes + nodes / 8).saturating_sub(self.degrees.len()));
            self.degrees.resize(nodes, [0; 2]);
        }
        let into = &mut self.degrees[destination as usize][0];
        *into = into.saturating_add(1);
        let out = &mut self.degrees[source as usize][1];
        *out = out.saturating_add(1);
        Ok(())
    }

    /// Counts an edge of a type.
    pub(super) fn typed(&mut self, source: u32, destination: u32, name: &[u8]) -> Result<(), Fault> {
        let edge_type = match self.types.get(name) {
            Some(edge_type) => *edge_type,
            None if self.types.len() == MOST_TYPES => {
                let fault = format!("has the type after {MOST_TYPES} others");
                return Err(Fault::new("", fault, "give the type in column 3, and nodes before it"));
            }
            None => {
                let edge_type = self.types.len() as u32;
                self.types.insert(name.into(), edge_type);
                edge_type
            }
        };
        self.any(source, destination, edge_type);
        self.destinations.insert(edge_type, destination)?;
        self.sources.insert(edge_type, source)
    }

    fn any(&mut self, source: u32, destination: u32, edge_type: u32) {
        self.edges += 1;
        self.self_loops += u64::from(source == destination);
        self.nodes = self.nodes.max(source.max(destination) + 1);
        let edge = hash(source, destination, edge_type);
        self.fingerprints.insert(edge);
        let reverse = hash(destination, source, edge_type);
        self.lopsided = self.lopsided.wrapping_add(edge).wrapping_sub(reverse);
    }

    pub(super) fn statistics(self, options: &Options) -> Result<Imported, Fault> {
        if self.edges == 0 {
            return Err(Fault::new("file", "has no edges", "give a line for each edge, such as `0,1`"));
        }
        if self.edges == self.self_loops {
            let fault = format!("has only self-loops, {} of them", self.self_loops);
            return Err(Fault::new("file", fault, "give source and destination in the first two columns"));
        }
        let nodes = u64::from(self.nodes);
        if let Some(training) = options.training_nodes.filter(|&training| training == 0 || training > nodes) {
            let fault = format!("are {training}, the nodes of the file {nodes}");
            return Err(Fault::new("training nodes", fault, format!("give 1 to {nodes}")));
        }
        let (edges, self_loops) = (self.edges, self.self_loops);
        let common = Statistics {
            name: options.name.clone(),
            training_nodes: options.training_nodes,
            features: options.features,
            ..Statistics::default()
        };
        // Sorting fingerprints and pairs takes turns: each gives its memory back.
        let duplicates = self.fingerprints.duplicates();
        let statistics = if self.types.is_empty() {
            let both = options.reverse;
            let of = |end: usize| {
                histogram(
                    nodes,
                    self.degrees.iter().map(move |degrees| {
                        if both { u64::from(degrees[0]) + u64::from(degrees[1]) } else { degrees[end].into() }
                    }),
                )
            };
            let symmetric = both || self.lopsided == 0;
            let isolated = self.degrees.iter().filter(|degrees| **degrees == [0; 2]).count() as u64;
            Statistics {
                nodes: Some(nodes),
                edges: Some(if both { 2 * edges } else { edges }),
                symmetric,
                in_degrees: Some(of(0)),
                out_degrees: (!symmetric).then(|| of(1)),
                isolated: (!symmetric).then_some(isolated),
                ..common
            }
        } else {
            let into = by_type(nodes, self.types.len(), self.destinations.sorted()?);
            let out = by_type(nodes, self.types.len(), self.sources.sorted()?);
            let mut relations = Vec::new();
            for (name, edge_type) in self.types {
                let name = String::from_utf8_lossy(&name).into_owned();
                let [into, out] = [&into, &out].map(|degrees| degrees[edge_type as usize].clone());
                if options.reverse {
                    relations.push(relation(format!("{name}-reversed"), out.clone(), into.clone()));
                }
                relations.push(relation(name, into, out));
            }
            Statistics { nodes: Some(nodes), relations: Some(relations), ..common }
        };
        Ok(Imported { statistics, self_loops, duplicates })
    }
}

type Histogram = Vec<[u64; 2]>;

fn histogram(nodes: u64, degrees: impl Iterator<Item = u64>) -> DegreeSettings {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    degrees.for_each(|degree| *counts.entry(degree).or_default() += 1);
    DegreeSettings::Histogram(with_zeros(nodes, counts))
}

/// Histograms of each type.
fn by_type(nodes: u64, types: usize, pairs: impl Iterator<Item = (u32, u32, u32)>) -> Vec<Histogram> {
    let mut counts: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(); types];
    for (edge_type, _, edges) in pairs {
        *counts[edge_type as usize].entry(edges.into()).or_default() += 1;
    }
    counts.into_iter().map(|counts| with_zeros(nodes, counts)).collect()
}

/// A histogram in which nodes without edges stand too.
fn with_zeros(nodes: u64, mut counts: BTreeMap<u64, u64>) -> Histogram {
    let counted: u64 = counts.values().sum();
    if counted < nodes {
        *counts.entry(0).or_default() += nodes - counted;
    }
    counts.into_iter().map(|(degree, nodes)| [degree, nodes]).collect()
}

fn relation(name: String, into: Histogram, out: Histogram) -> RelationSettings {
    RelationSettings {
        name,
        from: "node".to_owned(),
        to: "node".to_owned(),
        edges: into.iter().map(|[degree, nodes]| degree * nodes).sum(),
        symmetric: false,
        in_degrees: Some(DegreeSettings::Histogram(into)),
        out_degrees: Some(DegreeSettings::Histogram(out)),
    }
}
