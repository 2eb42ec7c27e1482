//! Laws of degrees, where no histogram is published.

use std::collections::BTreeMap;

use crate::degrees::Degrees;

/// Exponent of power laws whose largest degree is not known: the middle of the 2 to 3 that Clauset,
/// Shalizi and Newman (SIAM Review 51, 2009) find for most networks.
pub(crate) const EXPONENT: f64 = 2.5;

/// Degrees up to this one have a bucket each; above it a bucket spans [`GROWTH`].
const SINGLE: u64 = 64;
const GROWTH: f64 = 1.06;

/// Distribution of the degrees of nodes with an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Law {
    /// Degree `d` or more with a chance of `(1 + (d - 1) / s)^(1 - exponent)`: a power law behind a
    /// shoulder, whose scale `s` follows from the mean.
    Power { exponent: f64 },
    /// The power law cut off at a degree.
    PowerCut { exponent: f64, largest: u64 },
    /// The power law of which one node is expected to have this degree or more.
    PowerUpTo { largest: u64 },
    /// Each further edge is as likely as the one before.
    Geometric,
}

/// Nodes and edges that a law spreads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    /// Nodes of degree zero.
    pub(crate) isolated: u64,
    /// Nodes with an edge.
    pub(crate) connected: u64,
    /// Edges.
    pub(crate) edges: u64,
    /// Nodes at the other end: a degree beyond needs parallel edges.
    pub(crate) partners: u64,
}

impl Law {
    /// Degrees that have exactly these nodes and edges.
    pub(crate) fn degrees(self, totals: Totals) -> Degrees {
        let Totals { isolated, connected, edges, partners } = totals;
        if connected == 0 {
            return Degrees::estimate([(0, isolated)]);
        }
        let mean = edges as f64 / connected as f64;
        let cap = partners.max(edges.div_ceil(connected));
        let (tail, largest) = match self {
            Self::Geometric => {
                let tail = Tail::Geometric { stay: 1.0 - 1.0 / mean.max(1.0) };
                (tail, tail.largest(connected, cap))
            }
            Self::Power { exponent } => {
                let tail = Tail::power(exponent, mean, cap);
                (tail, tail.largest(connected, cap))
            }
            Self::PowerCut { exponent, largest } => (Tail::power(exponent, mean, largest), largest),
            Self::PowerUpTo { largest } => (Tail::up_to(largest, mean, connected), largest),
        };
        let mut counts = rounded(&tail.buckets(largest, connected), connected);
        balance(&mut counts, edges, cap);
        Degrees::estimate(counts.into_iter().chain([(0, isolated)]))
    }
}

/// Degrees of nodes that have edges of two kinds, in all `edges`; `isolated` nodes have neither.
pub(crate) fn sum(first: &Degrees, second: &Degrees, isolated: Option<u64>, edges: u64) -> Degrees {
    let all = first.nodes() as f64;
    let [a, b] = [first.without(), second.without()];
    let neither = isolated.map_or(a * b, |nodes| nodes as f64 / all);
    // Chance of a pair of degrees, against that of independent ones, by which of them are zero.
    let factor = |degrees: [f64; 2]| match degrees.map(|degree| degree == 0.0) {
        [true, true] => neither / (a * b),
        [true, false] => (a - neither) / (a * (1.0 - b)),
        [false, true] => (b - neither) / (b * (1.0 - a)),
        [false, false] => (1.0 - a - b + neither) / ((1.0 - a) * (1.0 - b)),
    };
    let [first_buckets, second_buckets] = [first, second]
        .map(|degrees| merged(degrees.counts().iter().map(|&(degree, nodes)| (degree as f64, nodes as f64))));
    let pairs = first_buckets.values().flat_map(|&[nodes, ends]| {
        second_buckets.values().map(move |&[others, other_ends]| {
            let degrees = [ends / nodes, other_ends / others];
            (degrees[0] + degrees[1], nodes * (others / all) * factor(degrees).max(0.0))
        })
    });
    let mut buckets = merged(pairs);
    let isolated = buckets.remove(&0).map_or(0, |[nodes, _]| nodes.round() as u64);
    let connected = (first.nodes() - isolated).min(edges);
    let buckets: Vec<(f64, f64)> = buckets
        .into_values()
        .filter(|[nodes, _]| *nodes > 0.0)
        .map(|[nodes, ends]| (ends / nodes, nodes))
        .collect();
    let mut counts = rounded(&buckets, connected);
    balance(&mut counts, edges, edges);
    Degrees::estimate(counts.into_iter().chain([(0, first.nodes() - connected)]))
}

/// Nodes and edges of degrees and their nodes, by the first degree of each bucket.
fn merged(counts: impl Iterator<Item = (f64, f64)>) -> BTreeMap<u64, [f64; 2]> {
    let mut buckets: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for (degree, nodes) in counts {
        let bucket = buckets.entry(first_of_bucket(degree.round() as u64)).or_default();
        *bucket = [bucket[0] + nodes, bucket[1] + nodes * degree];
    }
    buckets
}

/// Smallest degree that shares a bucket with this one.
fn first_of_bucket(degree: u64) -> u64 {
    if degree < SINGLE {
        return degree;
    }
    let step = ((degree as f64 / SINGLE as f64).ln() / GROWTH.ln()).floor();
    (SINGLE as f64 * GROWTH.powf(step)) as u64
}

/// Chance that a degree is beyond a number.
#[derive(Clone, Copy, Debug)]
enum Tail {
    Power { exponent: f64, scale: f64 },
    Geometric { stay: f64 },
}

impl Tail {
    /// The power law of this mean up to degree `largest`.
    fn power(exponent: f64, mean: f64, largest: u64) -> Self {
        let of = |scale| Self::Power { exponent, scale };
        let scale = bisect(1e-6, 1e12, |scale| of(scale).mean(largest) > mean);
        of(scale)
    }

    /// The power law of this mean of which one node in `nodes` has degree `largest` or more.
    fn up_to(largest: u64, mean: f64, nodes: u64) -> Self {
        let of = |exponent| Self::power(exponent, mean, largest);
        let rare = |exponent| of(exponent).beyond(largest as f64 - 1.0) * (nodes as f64) < 1.0;
        of(bisect(1.01, 60.0, rare))
    }

    fn beyond(self, degree: f64) -> f64 {
        match self {
            Self::Power { exponent, scale } => (1.0 + degree / scale).powf(1.0 - exponent),
            Self::Geometric { stay } => stay.powf(degree),
        }
    }

    /// Sum of [`beyond`](Self::beyond) from `low` to below `high`: exact where it is steep, by the
    /// midpoint rule elsewhere.
    fn sum(self, low: u64, high: u64) -> f64 {
        let exact: f64 = (low..high.min(SINGLE)).map(|degree| self.beyond(degree as f64)).sum();
        let (from, to) = (low.max(SINGLE) as f64 - 0.5, high as f64 - 0.5);
        if high <= SINGLE {
            return exact;
        }
        let integral = match self {
            Self::Power { exponent, scale } => {
                let power = 2.0 - exponent;
                let at = |degree: f64| (1.0 + degree / scale).ln();
                if power.abs() < 1e-9 {
                    scale * (at(to) - at(from))
                } else {
                    scale / power * ((power * at(to)).exp() - (power * at(from)).exp())
                }
            }
            Self::Geometric { stay } => (stay.powf(to) - stay.powf(from)) / stay.ln(),
        };
        exact + integral
    }

    fn mean(self, largest: u64) -> f64 {
        self.sum(0, largest)
    }

    /// Degree that one of `nodes` is expected to reach.
    fn largest(self, nodes: u64, cap: u64) -> u64 {
        let rare = |degree: f64| self.beyond(degree) * (nodes as f64) < 1.0;
        (bisect(0.0, cap as f64, rare).ceil() as u64).clamp(1, cap)
    }

    /// Mean degree and share of the nodes, bucket by bucket; the last has all that the law puts
    /// beyond.
    fn buckets(self, largest: u64, nodes: u64) -> Vec<(f64, f64)> {
        let mut buckets = Vec::new();
        let mut low = 1;
        while low <= largest {
            let width = if low < SINGLE { 1 } else { ((low as f64 * (GROWTH - 1.0)) as u64).max(1) };
            let high = (low + width).min(largest + 1);
            let above = if high > largest { 0.0 } else { self.beyond(high as f64 - 1.0) };
            let share = self.beyond(low as f64 - 1.0) - above;
            let within = self.sum(low, high - 1) - above * (high - 1 - low) as f64;
            if share > 0.0 {
                buckets.push((low as f64 + within / share, share * nodes as f64));
            }
            low = high;
        }
        buckets
    }
}

/// The number between `low` and `high` from which on `beyond` holds.
fn bisect(mut low: f64, mut high: f64, beyond: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        // Halves the exponent where the range spans orders of magnitude.
        let middle = if low > 0.0 && high > 4.0 * low { (low * high).sqrt() } else { 0.5 * (low + high) };
        if beyond(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// Nodes of whole degrees, which add up to `connected`.
fn rounded(buckets: &[(f64, f64)], connected: u64) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    let (mut wanted, mut given) = (0.0, 0);
    for &(degree, nodes) in buckets.iter().rev() {
        wanted += nodes;
        let nodes = (wanted.round() as u64).min(connected).saturating_sub(given);
        given += nodes;
        *counts.entry((degree.round() as u64).max(1)).or_default() += nodes;
    }
    *counts.entry(1).or_default() += connected - given;
    counts.retain(|_, nodes| *nodes > 0);
    counts
}

/// Moves nodes to neighbouring degrees until there are `edges`.
fn balance(counts: &mut BTreeMap<u64, u64>, edges: u64, cap: u64) {
    loop {
        let given: u64 = counts.iter().map(|(degree, nodes)| degree * nodes).sum();
        let (missing, more) = (edges.abs_diff(given), edges > given);
        let movable = |&(degree, _): &(&u64, &u64)| if more { *degree < cap } else { *degree > 1 };
        let fullest = counts.iter().filter(movable).max_by_key(|(_, nodes)| **nodes);
        let Some((degree, nodes)) = fullest.map(|(degree, nodes)| (*degree, *nodes)) else { return };
        if missing == 0 {
            return;
        }
        let room = if more { cap - degree } else { degree - 1 };
        let step = (missing / nodes).clamp(1, room);
        let moved = nodes.min(missing / step);
        let target = if more { degree + step } else { degree - step };
        counts.entry(degree).and_modify(|left| *left -= moved);
        counts.retain(|_, nodes| *nodes > 0);
        *counts.entry(target).or_default() += moved;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Law, Totals};

    proptest! {
        #[test]
        fn totals_come_out(
            isolated in 0_u64..1000, connected in 1_u64..2_000_000, mean in 1.0_f64..60.0, law in 0_usize..4,
        ) {
            let edges = (connected as f64 * mean) as u64;
            let law = [Law::Geometric, Law::Power { exponent: 2.1 }, Law::Power { exponent: 3.0 },
                Law::PowerUpTo { largest: 100_000 }][law];
            let degrees = law.degrees(Totals { isolated, connected, edges, partners: 1_000_000 });
            prop_assert_eq!(degrees.edges(), edges);
            prop_assert_eq!(degrees.connected(), connected);
            prop_assert_eq!(degrees.nodes(), isolated + connected);
        }
    }

    #[test]
    fn a_power_law_ends_at_the_published_degree() {
        let totals =
            Totals { isolated: 0, connected: 40_000_000, edges: 1_400_000_000, partners: 40_000_000 };
        let degrees = Law::PowerUpTo { largest: 3_000_000 }.degrees(totals);
        assert!((2_000_000..=3_100_000).contains(&degrees.largest()), "{}", degrees.largest());
    }

    #[test]
    fn a_geometric_law_halves() {
        let totals = Totals { isolated: 0, connected: 1 << 20, edges: 1 << 21, partners: 1 << 20 };
        let degrees = Law::Geometric.degrees(totals);
        let [first, second] = [degrees.counts()[0].1, degrees.counts()[1].1];
        assert!(first.abs_diff(1 << 19) < 100 && second.abs_diff(1 << 18) < 100, "{first}, {second}");
    }
}
