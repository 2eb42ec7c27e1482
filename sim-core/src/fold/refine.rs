//! Colour refinement (1-dimensional Weisfeiler-Leman): splits classes until all nodes of a class have the same number of
//! edges of each label to and from each class.

use std::collections::BTreeMap;

use super::graph::Edge;

/// The coarsest stable partition finer than `colours`, as new colours from 0 in order of their first nodes.
///
/// Compares 64-bit sums over the edges of a node in place of the edges; [`is_stable`] tells whether two different nodes
/// happened to have the same sum.
pub(super) fn refine(edges: &[Edge], mut colours: Vec<u32>) -> Vec<u32> {
    let mut count = 0;
    loop {
        let mut sums = vec![0u64; colours.len()];
        for edge in edges {
            let (from, to) = (edge.from as usize, edge.to as usize);
            sums[from] = sums[from].wrapping_add(mixed(edge.label, false, colours[to]));
            sums[to] = sums[to].wrapping_add(mixed(edge.label, true, colours[from]));
        }
        let classes = split(&mut colours, &sums);
        if classes == count {
            return colours;
        }
        count = classes;
    }
}

/// Splits colours by the sums of their nodes; how many there are then.
fn split(colours: &mut [u32], sums: &[u64]) -> u32 {
    let old = colours.iter().max().map_or(0, |&last| last as usize + 1);
    let mut classes = 0;
    let mut next = || {
        classes += 1;
        classes - 1
    };
    // By old colour, the sum of its first node and its new colour. Most nodes are like the first.
    let mut first: Vec<Option<(u64, u32)>> = vec![None; old];
    let mut others = BTreeMap::new();
    for (colour, &sum) in colours.iter_mut().zip(sums) {
        let (first_sum, first_colour) = *first[*colour as usize].get_or_insert_with(|| (sum, next()));
        *colour = if sum == first_sum {
            first_colour
        } else {
            *others.entry((*colour, sum)).or_insert_with(&mut next)
        };
    }
    classes
}

/// Whether the nodes of each colour have the same edges, counted by label, direction and the other end's colour.
pub(super) fn is_stable(edges: &[Edge], colours: &[u32]) -> bool {
    let ends = Ends::of(edges, colours);
    let classes = colours.iter().max().map_or(0, |&last| last as usize + 1);
    let mut first: Vec<Option<usize>> = vec![None; classes];
    (0..colours.len()).all(|node| {
        let representative = *first[colours[node] as usize].get_or_insert(node);
        ends.at(node) == ends.at(representative)
    })
}

/// The edges of each node as it sees them, sorted: label, whether they come in, colour of the other end.
struct Ends {
    sorted: Vec<(u32, bool, u32)>,
    /// Where those of each node begin, and the last end.
    first: Vec<u32>,
}

impl Ends {
    fn of(edges: &[Edge], colours: &[u32]) -> Self {
        let mut first = vec![0; colours.len() + 1];
        for edge in edges {
            first[edge.from as usize + 1] += 1;
            first[edge.to as usize + 1] += 1;
        }
        for node in 0..colours.len() {
            first[node + 1] += first[node];
        }
        let (mut next, mut sorted) = (first.clone(), vec![(0, false, 0); 2 * edges.len()]);
        let mut put = |node: u32, end| {
            let place = &mut next[node as usize];
            sorted[*place as usize] = end;
            *place += 1;
        };
        for edge in edges {
            put(edge.from, (edge.label, false, colours[edge.to as usize]));
            put(edge.to, (edge.label, true, colours[edge.from as usize]));
        }
        for bounds in first.windows(2) {
            sorted[bounds[0] as usize..bounds[1] as usize].sort_unstable();
        }
        Self { sorted, first }
    }

    fn at(&self, node: usize) -> &[(u32, bool, u32)] {
        &self.sorted[self.first[node] as usize..self.first[node + 1] as usize]
    }
}

/// A hash of one edge as a node sees it: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mixed(label: u32, incoming: bool, colour: u32) -> u64 {
    let mut x = (u64::from(label) << 33 | u64::from(incoming) << 32 | u64::from(colour))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
