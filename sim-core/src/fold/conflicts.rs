//! Objects that a stable partition shares but a simulation cannot.

use std::collections::BTreeMap;

use super::graph::{Edge, Graph, Kind};
use super::teams::Classes;
use crate::id::CauseId;

/// The nodes that must serve in order before the program can be folded, ascending.
pub(super) fn find(graph: &Graph<'_>, classes: &Classes) -> Vec<usize> {
    let mut incoming: Vec<Vec<&Edge>> = vec![Vec::new(); graph.len()];
    for edge in &graph.edges {
        incoming[edge.to as usize].push(edge);
    }
    let kept = kept_streams(graph, classes);
    let mut found: Vec<usize> =
        graph.nodes(Kind::Counter).filter(|&node| counts_twice(&incoming[node], classes)).collect();
    let meetings = graph.nodes(Kind::Counter).chain(graph.nodes(Kind::Group));
    found.extend(meetings.filter(|&node| disordered(graph, &kept, &incoming[node])));
    found.extend(ambiguous_fluids(graph, classes));
    found.sort_unstable();
    found.dedup();
    found.retain(|&node| !graph.in_order[node]);
    found
}

/// Whether a counter hears several ranks of a class through one slot: its representative would count one.
fn counts_twice(incoming: &[&Edge], classes: &Classes) -> bool {
    let mut from: Vec<(u32, u32)> =
        incoming.iter().map(|edge| (classes.of[edge.from as usize], edge.label)).collect();
    from.sort_unstable();
    from.windows(2).any(|pair| pair[0] == pair[1])
}

/// Whether the streams that meet at an object are not in the order of those that stand for them. Who comes
/// last of those that come in one instant decides whose path a wait takes over, and whose activity a group runs.
fn disordered(graph: &Graph<'_>, kept: &[u32], incoming: &[&Edge]) -> bool {
    let mut streams: Vec<u32> =
        incoming.iter().flat_map(|edge| &graph.streams[edge.from as usize]).map(|stream| stream.0).collect();
    streams.sort_unstable();
    !in_order(streams.into_iter().map(|stream| (stream, kept[stream as usize])))
}

/// Whether ids, ascending, come in the order of the representatives given with them, by the first and by the last of
/// each class.
fn in_order(ids: impl Iterator<Item = (u32, u32)>) -> bool {
    let mut classes: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for (id, representative) in ids {
        classes.entry(representative).or_insert((id, id)).1 = id;
    }
    let ends: Vec<(u32, u32)> = classes.into_values().collect();
    ends.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
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
