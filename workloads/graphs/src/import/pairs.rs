//! Edges by pairs of a type and a node.

use super::Fault;

/// Pairs held at most, in 480 MiB each for sources and destinations.
const MOST: usize = 40_000_000;

/// Pairs that are sorted at a time.
const CHUNK: usize = 1 << 22;

/// Counts of pairs, sorted; new ones wait in a chunk.
#[derive(Default)]
pub(super) struct Pairs {
    keys: Vec<u64>,
    counts: Vec<u32>,
    waiting: Vec<u64>,
}

impl Pairs {
    pub(super) fn insert(&mut self, edge_type: u32, node: u32) -> Result<(), Fault> {
        self.waiting.push(u64::from(edge_type) << 32 | u64::from(node));
        if self.waiting.len() >= CHUNK { self.merge() } else { Ok(()) }
    }

    /// Types, nodes and their edges, ascending.
    pub(super) fn sorted(mut self) -> Result<impl Iterator<Item = (u32, u32, u32)>, Fault> {
        self.merge()?;
        let of = |(key, count): (u64, u32)| ((key >> 32) as u32, key as u32, count);
        Ok(self.keys.into_iter().zip(self.counts).map(of))
    }

    fn merge(&mut self) -> Result<(), Fault> {
        self.waiting.sort_unstable();
        let mut fresh: Vec<(u64, u32)> = Vec::new();
        let mut at = 0;
        for &key in &self.waiting {
            match fresh.last_mut() {
                Some((last, count)) if *last == key => *count = count.saturating_add(1),
                _ => {
                    at += self.keys[at..].partition_point(|known| *known < key);
                    match self.keys.get(at) {
                        Some(known) if *known == key => self.counts[at] = self.counts[at].saturating_add(1),
                        _ => fresh.push((key, 1)),
                    }
                }
            }
        }
        self.waiting.clear();
        let known = self.keys.len();
        if known + fresh.len() > MOST {
            let fault = format!("has more than {MOST} pairs of a node and a type");
            return Err(Fault::new("file", fault, "import each type of edges from a file of its own"));
        }
        // Merges from the end, in place.
        self.keys.resize(known + fresh.len(), 0);
        self.counts.resize(known + fresh.len(), 0);
        let (mut old, mut end) = (known, known + fresh.len());
        while let Some(&(key, count)) = fresh.last() {
            end -= 1;
            if old > 0 && self.keys[old - 1] > key {
                old -= 1;
                self.keys[end] = self.keys[old];
                self.counts[end] = self.counts[old];
            } else {
                self.keys[end] = key;
                self.counts[end] = count;
                fresh.pop();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Pairs;

    proptest! {
        #[test]
        fn as_a_map(pairs in prop::collection::vec((0_u32..4, 0_u32..20), 0..200), merge_at in 0_usize..200) {
            let mut found = Pairs::default();
            let mut plain = BTreeMap::new();
            for (at, &(edge_type, node)) in pairs.iter().enumerate() {
                found.insert(edge_type, node).unwrap();
                *plain.entry((edge_type, node)).or_insert(0) += 1;
                if at % (merge_at + 1) == merge_at {
                    found.merge().unwrap();
                }
            }
            let found: Vec<_> = found.sorted().unwrap().collect();
            let plain: Vec<_> = plain.into_iter().map(|((of, node), count)| (of, node, count)).collect();
            prop_assert_eq!(found, plain);
        }
    }
}
