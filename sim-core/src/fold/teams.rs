//! Teams of ranks, and the classes of nodes that respect them.

use super::graph::{Graph, Kind};
use super::labels::Interner;
use super::refine::{is_stable, refine};

/// A partition of the graph's nodes, with a representative of each class.
pub(super) struct Classes {
    /// The class of each node.
    pub(super) of: Vec<u32>,
    /// The node that stands for each class; ranks of a team are represented by ranks of one team.
    pub(super) representative: Vec<usize>,
}

impl Classes {
    /// The coarsest partition in which everything behaves alike, apart from what [`super::conflicts`] finds.
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        let teams = teams(graph);
        let of = refine(&graph.edges, initial_colours(graph, &teams));
        let count = of.iter().max().map_or(0, |&last| last as usize + 1);
        let mut representative = vec![usize::MAX; count];
        for (node, &class) in of.iter().enumerate() {
            let known = &mut representative[class as usize];
            if *known == usize::MAX || teams[node] < teams[*known] {
                *known = node;
            }
        }
        Self { of, representative }
    }

    /// Whether some rank stands for another. Where two sums of [`refine`] collided, nothing folds.
    pub(super) fn fold_ranks(&self, graph: &Graph<'_>) -> bool {
        let mut ranks = graph.nodes(Kind::Rank).filter(|&rank| !graph.streams[rank].is_empty());
        ranks.any(|rank| !self.represents(rank)) && is_stable(&graph.edges, &self.of)
    }

    /// Whether a node stands for its class.
    pub(super) fn represents(&self, node: usize) -> bool {
        self.representative_of(node) == node
    }

    /// The node that stands for the class of `node`.
    pub(super) fn representative_of(&self, node: usize) -> usize {
        self.representative[self.of[node] as usize]
    }
}

/// The team of each node: ranks that use what serves in order belong together, under the number of their first rank.
/// Nodes that no rank uses in order have the number of nodes.
fn teams(graph: &Graph<'_>) -> Vec<usize> {
    let mut sets: Vec<usize> = (0..graph.len()).collect();
    for edge in &graph.edges {
        if graph.in_order[edge.to as usize] {
            let (a, b) = (root(&mut sets, edge.from as usize), root(&mut sets, edge.to as usize));
            sets[a.max(b)] = a.min(b); // ranks are the first nodes, so a team's root is its first rank
        }
    }
    let ranks = graph.nodes(Kind::Rank).end;
    (0..graph.len())
        .map(|node| root(&mut sets, node))
        .map(|first| if first < ranks { first } else { graph.len() })
        .collect()
}

/// The least node of a set, halving the path to it.
fn root(sets: &mut [usize], mut node: usize) -> usize {
    while sets[node] != node {
        sets[node] = sets[sets[node]];
        node = sets[node];
    }
    node
}

/// A node is its label and, in a team, its place in the order of the team's streams or objects. So ranks of one team
/// are all different, and a team is only like another whose order is the same.
fn initial_colours(graph: &Graph<'_>, teams: &[usize]) -> Vec<u32> {
    let mut next = vec![0u64; graph.len() + 1];
    let mut place_in = |team: usize| {
        next[team] += 1;
        next[team] - 1
    };
    let streams = &graph.program.streams;
    let places: Vec<u64> = streams.iter().map(|stream| place_in(teams[stream.binding.index()])).collect();
    let (mut colours, mut key) = (Interner::default(), Vec::new());
    let ranks = graph.nodes(Kind::Rank).end;
    (0..graph.len())
        .map(|node| {
            key.clear();
            key.push(u64::from(graph.labels[node]));
            if node < ranks {
                key.extend(graph.streams[node].iter().map(|stream| places[stream.index()]));
            } else if graph.in_order[node] {
                key.push(place_in(teams[node]));
            }
            colours.id(&key)
        })
        .collect()
}
