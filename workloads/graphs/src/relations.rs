//! Estimates of node types and relations where only totals are published.

use crate::degrees::Degrees;
use crate::graph::{NodeType, Relation};
use crate::laws::{Law, Totals};
use crate::settings::EstimatedRelations;

/// Distinct pairs of a source and a type, for an edge, in FB15k-237 with reverse types: 161,922 of
/// 620,232, counted from the triples. Of graphs of which no pairs are known it is an estimate.
const PAIRS_PER_EDGE: f64 = 161_922.0 / 620_232.0;

/// Node types whose sizes follow Zipf's law: type `i` has `1/i` of the first.
pub(crate) fn node_types(nodes: u64, count: u64) -> Vec<NodeType> {
    let sizes = split(nodes, &zipf(count), |_| nodes);
    let named = |(place, nodes)| NodeType { name: format!("type-{}", place + 1), nodes };
    sizes.into_iter().enumerate().map(named).collect()
}

/// Relations of which totals are known. Edges follow Zipf's law where not given; distinct sources
/// are in proportion to edges; ends lie in node types as their nodes do; degrees are geometric.
pub(crate) fn estimated(known: &EstimatedRelations, types: &[NodeType]) -> Vec<Relation> {
    let edges = known.edges_each.clone().unwrap_or_else(|| {
        let (edges, count) = (known.edges.unwrap_or_default(), known.count.unwrap_or_default());
        split(edges, &zipf(count), |_| edges)
    });
    let total: u64 = edges.iter().sum();
    let ends: Vec<[usize; 2]> = (0..edges.len()).map(|place| ends(place, types)).collect();
    let shares: Vec<f64> = edges.iter().map(|&edges| edges as f64 / total as f64).collect();
    let most = |end: usize| {
        let (edges, ends) = (&edges, &ends);
        move |place: usize| edges[place].min(types[ends[place][end]].nodes)
    };
    let estimate = || ((total as f64 * PAIRS_PER_EDGE) as u64).max(edges.len() as u64);
    let pairs = known.distinct_pairs.unwrap_or_else(estimate);
    let [sources, destinations] = [split(pairs, &shares, most(0)), split(pairs, &shares, most(1))];
    let relation = |place: usize| {
        let [source, destination] = ends[place];
        let [from, to] = [types[source].nodes, types[destination].nodes];
        let edges = edges[place];
        let degrees = |connected: u64, nodes: u64, partners: u64| -> Degrees {
            Law::Geometric.degrees(Totals { isolated: nodes - connected, connected, edges, partners })
        };
        let in_degrees = degrees(destinations[place], to, from);
        let out_degrees = degrees(sources[place], from, to);
        Relation {
            name: format!("relation-{}", place + 1),
            source,
            destination,
            edges,
            sources: out_degrees.connected(),
            destinations: in_degrees.connected(),
            in_degrees,
            out_degrees,
            reciprocal: 0.0,
        }
    };
    (0..edges.len()).map(relation).collect()
}

/// Shares of Zipf's law with exponent 1. The median type of FB15k-237 has 0.137 % of the edges of
/// its 237, against 0.139 % by this law.
fn zipf(count: u64) -> Vec<f64> {
    let harmonic: f64 = (1..=count).map(|place| 1.0 / place as f64).sum();
    (1..=count).map(|place| 1.0 / place as f64 / harmonic).collect()
}

/// Numbers of at least one and at most `most` that add up to `total`, close to these shares.
fn split(total: u64, shares: &[f64], most: impl Fn(usize) -> u64) -> Vec<u64> {
    let wanted = |(place, share): (usize, &f64)| ((total as f64 * share) as u64).clamp(1, most(place).max(1));
    let mut parts: Vec<u64> = shares.iter().enumerate().map(wanted).collect();
    let mut given: u64 = parts.iter().sum();
    // Few are left, unless limits bind: the largest with room take them first.
    for (place, part) in parts.iter_mut().enumerate() {
        let more = total.saturating_sub(given).min(most(place).saturating_sub(*part));
        let step = more.min(1 + (total.saturating_sub(given)) / shares.len() as u64);
        *part += step;
        given += step;
    }
    for (place, part) in parts.iter_mut().enumerate() {
        let more = total.saturating_sub(given).min(most(place).saturating_sub(*part));
        let fewer = given.saturating_sub(total).min(*part - 1);
        *part = *part + more - fewer;
        given = given + more - fewer;
    }
    parts
}

/// Node types of both ends of a relation: a low-discrepancy sequence over the nodes, so that types
/// with more nodes are ends of more relations.
fn ends(place: usize, types: &[NodeType]) -> [usize; 2] {
    // Fractional parts of multiples of the inverse plastic number and of its square (Roberts 2018).
    const STEPS: [f64; 2] = [0.754_877_666_246_693, 0.569_840_290_998_053];
    let nodes: u64 = types.iter().map(|of| of.nodes).sum();
    STEPS.map(|step| {
        let mut left = (step * place as f64).fract() * nodes as f64;
        let holds = |of: &NodeType| {
            left -= of.nodes as f64;
            left < 0.0
        };
        types.iter().position(holds).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::{node_types, split, zipf};

    #[test]
    fn parts_add_up_within_their_limits() {
        for total in [7, 100, 48_810] {
            let parts = split(total, &zipf(7), |place| if place == 0 { total / 5 } else { total });
            assert_eq!(parts.iter().sum::<u64>(), total);
            assert!(parts[0] <= (total / 5).max(1) && parts.iter().all(|&part| part > 0), "{parts:?}");
        }
        assert_eq!(node_types(7_262, 7).iter().map(|of| of.nodes).sum::<u64>(), 7_262);
    }
}
