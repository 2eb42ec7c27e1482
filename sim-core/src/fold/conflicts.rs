//! Objects that a stable partition shares but a simulation cannot.

use std::collections::BTreeMap;

use super::graph::{Edge, Graph, Kind};
use super::teams::Classes;
use crate::id::CauseId;

/// The nodes that must serve in order before the program can be folded, ascending.
pub(super) fn find(graph: &Graph<'_>, classes: &Classes) -> Vec<usize> {
    let kept = kept_streams(graph, classes);
    let mut incoming = Incoming::of(graph);
    let (mut found, mut streams) = (Vec::new(), Vec::new());
    for node in graph.nodes(Kind::Counter).chain(graph.nodes(Kind::Group)) {
        let edges = incoming.at(node);
        let twice = graph.nodes(Kind::Counter).contains(&node) && counts_twice(edges, classes);
        if twice || disordered(graph, &kept, edges, &mut streams) {
            found.push(node);
        }
    }
    found.extend(ambiguous_fluids(graph, classes));
    found.sort_unstable();
    found.dedup();
    found.retain(|&node| !graph.in_order[node]);
    found
}

/// The edges to each node.
struct Incoming<'a> {
    edges: Vec<&'a Edge>,
    /// Where those to each node begin, and the last end.
    first: Vec<usize>,
}

impl<'a> Incoming<'a> {
    fn of(graph: &'a Graph<'_>) -> Self {
        let mut first = vec![0; graph.len() + 1];
        for edge in &graph.edges {
            first[edge.to as usize + 1] += 1;
        }
        for node in 0..graph.len() {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let mut edges: Vec<&Edge> = graph.edges.iter().collect();
        for edge in &graph.edges {
            let place = &mut next[edge.to as usize];
            edges[*place] = edge;
            *place += 1;
        }
        Self { edges, first }
    }

    fn at(&mut self, node: usize) -> &mut [&'a Edge] {
        &mut self.edges[self.first[node]..self.first[node + 1]]
    }
}

/// Whether a counter hears several ranks of a class through one slot: its representative would count one.
fn counts_twice(incoming: &mut [&Edge], classes: &Classes) -> bool {
    let from = |edge: &Edge| (classes.of[edge.from as usize], edge.label);
    incoming.sort_unstable_by_key(|edge| from(edge));
    incoming.windows(2).any(|pair| from(pair[0]) == from(pair[1]))
}

/// Whether the streams that meet at an object are not in the order of those that stand for them. Who comes
/// last of those that come in one instant decides whose path a wait takes over, and whose activity a group runs.
fn disordered(graph: &Graph<'_>, kept: &[u32], incoming: &[&Edge], streams: &mut Vec<(u32, u32)>) -> bool {
    streams.clear();
    for edge in incoming {
        let ids = graph.streams[edge.from as usize].iter().map(|stream| stream.0);
        streams.extend(ids.map(|stream| (kept[stream as usize], stream)));
    }
    streams.sort_unstable();
    // By representative, the first and the last of each class.
    let mut ends = streams.chunk_by(|a, b| a.0 == b.0).map(|class| (class[0].1, class[class.len() - 1].1));
    let mut before = None;
    !ends.all(|(first, last)| {
        before
            .replace((first, last))
            .is_none_or(|(first_before, last_before)| first_before < first && last_before < last)
    })
}

/// For every stream the original id of the stream that stands for it.
pub(super) fn kept_streams(graph: &Graph<'_>, classes: &Classes) -> Vec<u32> {
    let mut kept = vec![0; graph.program.streams.len()];
    for (rank, streams) in graph.streams.iter().enumerate() {
        let representatives = &graph.streams[classes.representative_of(rank)];
        for (stream, representative) in streams.iter().zip(representatives) {
            kept[stream.index()] = representative.0;
        }
    }
    kept
}

/// Fluids that a route meets in a way it cannot meet their representatives: two of one class with different demands
/// would be two demands on one fluid, and of two that limit it in one instant the order of ids decides what the time lost
/// counts as.
fn ambiguous_fluids(graph: &Graph<'_>, classes: &Classes) -> Vec<usize> {
    let mut found = Vec::new();
    for node in 0..graph.len() {
        let fluids =
            graph.edges_of(node).iter().filter(|edge| graph.nodes(Kind::Fluid).contains(&(edge.to as usize)));
        let mut demands: Vec<(u32, u32, u32)> = fluids.map(|edge| (edge.slot, edge.to, edge.label)).collect();
        demands.sort_unstable();
        for route in demands.chunk_by(|a, b| a.0 == b.0) {
            let mut labels = BTreeMap::new();
            let alike = |&(_, fluid, label): &(u32, u32, u32)| {
                *labels.entry(classes.of[fluid as usize]).or_insert(label) == label
            };
            if !route.iter().all(alike) || !causes_in_order(graph, classes, route) {
                found.extend(route.iter().map(|demand| demand.1 as usize));
            }
        }
    }
    found
}

/// Whether the classes of fluids of a route that count time under different causes are in the order of their
/// representatives: the lowest id of those that limit it decides.
fn causes_in_order(graph: &Graph<'_>, classes: &Classes, route: &[(u32, u32, u32)]) -> bool {
    let mut firsts: BTreeMap<u32, u32> = BTreeMap::new();
    for &(_, fluid, _) in route {
        firsts.entry(classes.representative_of(fluid as usize) as u32).or_insert(fluid);
    }
    let first_fluid = graph.nodes(Kind::Fluid).start;
    // Per cause, the last of the classes so far.
    let mut so_far: BTreeMap<CauseId, u32> = BTreeMap::new();
    firsts.values().all(|&first| {
        let own = graph.platform.fluids[first as usize - first_fluid].cause;
        let fits = so_far.iter().all(|(&other, &last)| other == own || last < first);
        let last = so_far.entry(own).or_insert(first);
        *last = (*last).max(first);
        fits
    })
}
