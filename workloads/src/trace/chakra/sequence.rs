//! An order of all nodes: each after those that it depends on, the earliest begun first, then the
//! one with the least number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::{Dependencies, GraphNode};

/// Nodes in order, with what they come after.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Positions of nodes.
    pub(super) order: Vec<u32>,
    /// By node, its place in `order`.
    pub(super) places: Vec<u32>,
}

type Key = (u64, u64, u32);

impl Sequence {
    /// Takes nodes whose dependencies are all taken. Where none is left, dependencies are circular:
    /// the first node that remains is taken nevertheless.
    pub(super) fn of(nodes: &[GraphNode], dependencies: &Dependencies) -> Self {
        let mut order = Vec::with_capacity(nodes.len());
        let key = |node: u32| -> Key {
            let GraphNode { begin, id, .. } = nodes[node as usize];
            (begin.unwrap_or(0), id, node)
        };
        let (next_ends, next) = reversed(nodes.len() as u32, dependencies);
        let mut left: Vec<u32> =
            (0..nodes.len() as u32).map(|node| dependencies.of(node).len() as u32).collect();
        let mut by_key: Vec<Key> = (0..nodes.len() as u32).map(key).collect();
        by_key.sort_unstable();
        let mut rest = by_key.iter().copied();
        let mut ready: BinaryHeap<Reverse<Key>> =
            by_key.iter().filter(|(.., node)| left[*node as usize] == 0).map(|&key| Reverse(key)).collect();
        let mut places = vec![u32::MAX; nodes.len()];
        loop {
            let taken = ready.pop().map(|Reverse(key)| key);
            let Some((.., node)) = taken.or_else(|| rest.find(|key| places[key.2 as usize] == u32::MAX))
            else {
                break;
            };
            // Taken before, out of a circle.
            if places[node as usize] != u32::MAX {
                continue;
            }
            places[node as usize] = order.len() as u32;
            order.push(node);
            let begin = node.checked_sub(1).map_or(0, |before| next_ends[before as usize]);
            for &after in &next[begin as usize..next_ends[node as usize] as usize] {
                let left = &mut left[after as usize];
                *left -= 1;
                if *left == 0 {
                    ready.push(Reverse(key(after)));
                }
            }
        }
        Self { order, places }
    }
}

/// Edges by the node that is depended on: by node the end of its own, and nodes.
fn reversed(nodes: u32, dependencies: &Dependencies) -> (Vec<u32>, Vec<u32>) {
    let mut ends = vec![0u32; nodes as usize];
    dependencies.on.iter().for_each(|&on| ends[on as usize] += 1);
    let mut total = 0;
    for end in &mut ends {
        total += *end;
        *end = total - *end;
    }
    let mut next = vec![0; dependencies.on.len()];
    for node in 0..nodes {
        for &on in dependencies.of(node) {
            next[ends[on as usize] as usize] = node;
            ends[on as usize] += 1;
        }
    }
    (ends, next)
}
