//! Duplicates among more edges than fit into memory.

use super::Duplicates;

/// Fingerprints held at most: 512 MiB.
const MOST: usize = 1 << 26;

/// A sample of edges by hash: all of them up to [`MOST`], then those whose hash ends in ever more
/// zeros. Equal edges have equal hashes, so all of them are in the sample or none. Two edges of
/// 60 million share 64 bits by chance once in 10,000 lists.
pub(super) struct Fingerprints {
    hashes: Vec<u64>,
    zeros: u32,
    /// Duplicates, scaled to all edges.
    found: u64,
    most: usize,
}

impl Default for Fingerprints {
    fn default() -> Self {
        Self::holding(MOST)
    }
}

impl Fingerprints {
    fn holding(most: usize) -> Self {
        Self { hashes: Vec::new(), zeros: 0, found: 0, most }
    }

    pub(super) fn insert(&mut self, hash: u64) {
        if hash.trailing_zeros() < self.zeros {
            return;
        }
        while self.hashes.len() >= self.most {
            self.compact();
            if self.hashes.len() > self.most / 2 {
                self.zeros += 1;
                let zeros = self.zeros;
                self.hashes.retain(|hash| hash.trailing_zeros() >= zeros);
            }
        }
        if hash.trailing_zeros() >= self.zeros {
            self.hashes.push(hash);
        }
    }

    pub(super) fn duplicates(mut self) -> Duplicates {
        self.compact();
        if self.zeros == 0 { Duplicates::Counted(self.found) } else { Duplicates::Estimated(self.found) }
    }

    /// Counts what is there more than once, and keeps one of each.
    fn compact(&mut self) {
        self.hashes.sort_unstable();
        let held = self.hashes.len();
        self.hashes.dedup();
        self.found += ((held - self.hashes.len()) as u64) << self.zeros.min(63);
    }
}

/// Hash of an edge (the finaliser of SplitMix64, Steele et al. 2014).
pub(super) fn hash(source: u32, destination: u32, edge_type: u32) -> u64 {
    let mix = |mut bits: u64| {
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    };
    let ends = u64::from(source) << 32 | u64::from(destination);
    mix(mix(ends.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_add(u64::from(edge_type)))
}

#[cfg(test)]
mod tests {
    use super::{Duplicates, Fingerprints, hash};

    #[test]
    fn one_edge_many_times() {
        let mut sample = Fingerprints::holding(64);
        (0..10_000).for_each(|_| sample.insert(hash(1, 2, 0)));
        assert_eq!(sample.duplicates(), Duplicates::Counted(9_999));
    }

    #[test]
    fn samples_tell_the_share() {
        let mut sample = Fingerprints::holding(4096);
        for edge in 0..100_000_u32 {
            // Every tenth edge comes twice.
            (0..1 + u32::from(edge % 10 == 0)).for_each(|_| sample.insert(hash(edge, edge + 1, 0)));
        }
        let Duplicates::Estimated(found) = sample.duplicates() else { panic!("more than are held") };
        assert!((8_000..12_000).contains(&found), "{found} of 10000");
    }
}
