//! Histograms of degrees.

/// Nodes by degree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degrees {
    counts: Vec<(u64, u64)>,
    estimate: bool,
}

impl Degrees {
    /// Counted nodes of each degree, in any order.
    pub fn exact(counts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self::of(counts, false)
    }

    /// Estimated nodes of each degree, in any order.
    pub fn estimate(counts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self::of(counts, true)
    }

    fn of(counts: impl IntoIterator<Item = (u64, u64)>, estimate: bool) -> Self {
        let mut counts: Vec<_> = counts.into_iter().filter(|&(_, nodes)| nodes > 0).collect();
        counts.sort_unstable();
        counts.dedup_by(|next, kept| {
            let equal = next.0 == kept.0;
            if equal {
                kept.1 += next.1;
            }
            equal
        });
        Self { counts, estimate }
    }

    /// Degrees, ascending, each with its nodes.
    pub fn counts(&self) -> &[(u64, u64)] {
        &self.counts
    }

    /// Nodes, those of degree zero included.
    pub fn nodes(&self) -> u64 {
        self.counts.iter().map(|&(_, nodes)| nodes).sum()
    }

    /// Nodes with an edge.
    pub fn connected(&self) -> u64 {
        self.counts.iter().filter(|&&(degree, _)| degree > 0).map(|&(_, nodes)| nodes).sum()
    }

    /// Share of the nodes that have no edge.
    pub fn without(&self) -> f64 {
        1.0 - self.connected() as f64 / self.nodes() as f64
    }

    /// Edges.
    pub fn edges(&self) -> u64 {
        self.counts.iter().map(|&(degree, nodes)| degree * nodes).sum()
    }

    /// Edges of a node, on average.
    pub fn mean(&self) -> f64 {
        self.edges() as f64 / self.nodes() as f64
    }

    /// Largest degree.
    pub fn largest(&self) -> u64 {
        self.counts.last().map_or(0, |&(degree, _)| degree)
    }

    /// True if a law gave these degrees, rather than a count.
    pub fn is_estimate(&self) -> bool {
        self.estimate
    }
}
