//! Nodes and edges of a mini-batch by expectation, hop by hop.
//!
//! A graph is taken as the random one with its degrees (Newman, Strogatz and Watts, Phys. Rev. E
//! 64, 2001): the source of an edge is a node drawn in proportion to its edges out. Samplers draw
//! neighbours without replacement, so that a destination of `d` edges in uses `min(d, fan-out)` of
//! them. As in DGL, the sources of a hop include its destinations, and all are destinations of the
//! next: a node is sampled again in each later hop, and reaches new nodes only over edges that it
//! has not used.
//!
//! Where a share `r` of the edges stands in both directions, `r d` of the edges out of a node with
//! `d` edges in are the reverse of these, and the others independent of `d`. With a share `u` of
//! the edges used, a node is missed with a chance of `m (1 - u)^(r d)`, where `m` is such that
//! nodes of all degrees together are missed as their edges out say; of its edges in, `r` lead back
//! to where it was reached from.
//!
//! Relations are independent of each other. Of one that holds the reverses of another's edges up to
//! a tenth more edges are drawn than is said here, as degrees of nodes agree then.

use crate::graph::{Graph, Relation};

/// A mini-batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Nodes whose labels are trained on.
    pub seeds: u64,
    /// Their type, by its place in [`Graph::node_types`].
    pub seed_type: usize,
    /// Neighbours drawn of each relation, from the seeds outward: the reverse of DGL's list, which
    /// begins at the input layer.
    pub fan_out: &'a [u64],
}

/// One hop of a mini-batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// Nodes that gather, by node type.
    pub destinations: Vec<f64>,
    /// Distinct nodes that are gathered from, destinations included, by node type.
    pub sources: Vec<f64>,
    /// Sampled edges, by relation.
    pub edges: Vec<f64>,
    /// By relation, numbers of destinations by their edges in, ascending.
    pub lists: Vec<Vec<(u64, f64)>>,
}

impl Hop {
    /// Distinct rows that the hop reads.
    pub fn rows(&self) -> f64 {
        self.sources.iter().sum()
    }

    /// Sampled edges of all relations.
    pub fn sampled(&self) -> f64 {
        self.edges.iter().sum()
    }

    /// Most edges in that at least one of the destinations has.
    pub fn longest(&self) -> u64 {
        let of = |lists: &Vec<(u64, f64)>| {
            let mut longer = 0.0;
            let mut from_the_longest = lists.iter().rev();
            let longest = from_the_longest.find(|&&(_, nodes)| {
                longer += nodes;
                longer >= 0.5
            });
            longest.map_or(0, |&(degree, _)| degree)
        };
        self.lists.iter().map(of).max().unwrap_or(0)
    }
}

/// Hops of a mini-batch, from the seeds outward; the rows of the last one are read from storage.
pub fn expected(graph: &Graph, batch: Batch<'_>) -> Vec<Hop> {
    let mut frontier = Frontier::new(graph, batch);
    batch.fan_out.iter().map(|&fan_out| frontier.hop(fan_out)).collect()
}

/// Nodes that a mini-batch has reached.
pub(crate) struct Frontier<'a> {
    graph: &'a Graph,
    seeds: Seeds,
    fan_outs: Vec<u64>,
    /// State before the first hop and after each.
    states: Vec<State>,
}

/// Edges used up to a hop.
struct State {
    /// Share of the edges of each relation that was used.
    used: Vec<f64>,
    /// Chance for each relation that no used edge comes from a node of its source type.
    missed: Vec<f64>,
    /// Chance for each node type that no used edge of any relation comes from a node.
    unreached: Vec<f64>,
    /// Chance for each relation that none of the edges in of a destination has a used reverse.
    unreturned: Vec<f64>,
}

impl State {
    fn new(graph: &Graph, used: Vec<f64>) -> Self {
        let of = |(relation, &used): (&Relation, &f64)| {
            let degrees = &relation.out_degrees;
            let missed = |&(degree, nodes): &(u64, u64)| nodes as f64 * missed(used, degree as f64);
            degrees.counts().iter().map(missed).sum::<f64>() / degrees.nodes() as f64
        };
        let missed: Vec<f64> = graph.relations.iter().zip(&used).map(of).collect();
        let mut unreached = vec![1.0; graph.node_types.len()];
        for (relation, missed) in graph.relations.iter().zip(&missed) {
            unreached[relation.source] *= missed;
        }
        let of = |(relation, &used): (&Relation, &f64)| {
            let chance = |bucket: Bucket| {
                bucket.share() * drawn(graph, relation, &bucket) * unreturned(relation, used, &bucket)
            };
            buckets(relation).map(chance).sum()
        };
        let unreturned = graph.relations.iter().zip(&used).map(of).collect();
        Self { used, missed, unreached, unreturned }
    }
}

/// Chance that none of the edges into a destination of this bucket has a used reverse.
fn unreturned(of: &Relation, used: f64, bucket: &Bucket) -> f64 {
    missed(used, of.reciprocal * bucket.degree as f64)
}

impl<'a> Frontier<'a> {
    pub(crate) fn new(graph: &'a Graph, batch: Batch<'_>) -> Self {
        let none = State::new(graph, vec![0.0; graph.relations.len()]);
        Self { graph, seeds: Seeds::new(graph, batch), fan_outs: Vec::new(), states: vec![none] }
    }

    /// Samples once more.
    pub(crate) fn hop(&mut self, fan_out: u64) -> Hop {
        let destinations = self.reached();
        let lists: Vec<_> = (0..self.graph.relations.len()).map(|relation| self.lists(relation)).collect();
        let sampled = |&(degree, nodes): &(u64, f64)| nodes * degree.min(fan_out) as f64;
        let edges = lists.iter().map(|lists| lists.iter().map(sampled).sum()).collect();
        self.fan_outs.push(fan_out);
        let used = (0..self.graph.relations.len()).map(|relation| self.share_used(relation));
        let used = used.collect();
        self.states.push(State::new(self.graph, used));
        Hop { destinations, sources: self.reached(), edges, lists }
    }

    /// Share of the edges of a relation that the last hop has used.
    pub(crate) fn used(&self, relation: usize) -> f64 {
        self.states[self.states.len() - 1].used[relation]
    }

    /// Share of the seeds that have this many edges out of a relation, of `nodes` such sources.
    pub(crate) fn seeds_with(&self, relation: usize, degree: u64, nodes: u64) -> f64 {
        self.seeds.with_out(&self.graph.relations[relation], degree, nodes)
    }

    /// Nodes reached, by type.
    fn reached(&self) -> Vec<f64> {
        (0..self.graph.node_types.len()).map(|of| self.reached_of(of)).collect()
    }

    fn reached_of(&self, node_type: usize) -> f64 {
        let nodes = self.graph.node_types[node_type].nodes as f64 * reach(self.graph);
        let unreached = self.states[self.states.len() - 1].unreached[node_type];
        let (others, seeds) = (nodes - self.seeds.of(node_type), self.seeds.of(node_type));
        others.max(0.0) * (1.0 - unreached) + seeds
    }

    /// Nodes reached so far, by their edges in of a relation.
    fn lists(&self, relation: usize) -> Vec<(u64, f64)> {
        let last = self.states.len() - 1;
        let reached = |bucket: Bucket| {
            let nodes = (0..=last).map(|hop| self.entered(relation, &bucket, hop)).sum();
            (bucket.degree, nodes)
        };
        buckets(&self.graph.relations[relation]).map(reached).collect()
    }

    /// Share of the edges of a relation that any hop up to now used.
    fn share_used(&self, relation: usize) -> f64 {
        let of = &self.graph.relations[relation];
        let last = self.states.len() - 1;
        let edges = |bucket: &Bucket| {
            let degree = bucket.degree as f64;
            let by_entry = |hop: usize| {
                let unused: f64 = self.fan_outs[hop..]
                    .iter()
                    .map(|&fan_out| 1.0 - (fan_out as f64 / degree).min(1.0))
                    .product();
                let onward = if hop > 0 { degree - of.reciprocal } else { degree };
                self.entered(relation, bucket, hop) * onward * (1.0 - unused)
            };
            (0..=last).map(by_entry).sum::<f64>()
        };
        let used: f64 = buckets(&self.graph.relations[relation])
            .filter(|bucket| bucket.degree > 0)
            .map(|bucket| edges(&bucket))
            .sum();
        (used / (of.edges as f64 * reach(self.graph))).min(1.0)
    }

    /// Nodes of a bucket that a hop reached first; hop 0 has the seeds.
    fn entered(&self, relation: usize, bucket: &Bucket, hop: usize) -> f64 {
        let of = &self.graph.relations[relation];
        let seeds = match self.seeds.of(of.destination) {
            0.0 => 0.0,
            seeds => seeds * self.seeds.share(of, bucket),
        };
        if hop == 0 {
            return seeds;
        }
        let [before, after] = [hop - 1, hop].map(|hop| self.unreached(relation, bucket, &self.states[hop]));
        let unseeded = (bucket.nodes as f64 * reach(self.graph) - seeds).max(0.0);
        unseeded * drawn(self.graph, &self.graph.relations[relation], bucket) * (before - after)
    }

    /// Chance that no used edge of any relation comes from a destination of this bucket.
    fn unreached(&self, relation: usize, bucket: &Bucket, state: &State) -> f64 {
        let of = &self.graph.relations[relation];
        let returned = unreturned(of, state.used[relation], bucket);
        let all = state.unreturned[relation];
        if all > 0.0 {
            return (state.unreached[of.destination] * returned / all).min(1.0);
        }
        // All edges are used: what is missed by the other relations is.
        let others = self.graph.relations.iter().zip(&state.missed).enumerate();
        let from = others.filter(|(at, (other, _))| *at != relation && other.source == of.destination);
        returned * from.map(|(_, (_, missed))| missed).product::<f64>()
    }
}

/// Share of the nodes of a bucket among sources of edges, against that among all nodes, where edges
/// have no reverses.
fn drawn(graph: &Graph, of: &Relation, bucket: &Bucket) -> f64 {
    let Some(isolated) = graph.isolated.filter(|_| of.reciprocal == 0.0) else { return 1.0 };
    let [into, out] = [of.in_degrees.without(), of.out_degrees.without()];
    // Of the sources of edges, share that has no edge in.
    let without = (into - isolated as f64 / bucket.all as f64) / (1.0 - out);
    if bucket.degree > 0 { (1.0 - without) / (1.0 - into) } else { without / into }
}

fn buckets(of: &Relation) -> impl Iterator<Item = Bucket> {
    let all = of.in_degrees.nodes();
    of.in_degrees.counts().iter().map(move |&(degree, nodes)| Bucket { degree, nodes, all })
}

/// Chance that none of `degree` edges was used.
pub(crate) fn missed(used: f64, degree: f64) -> f64 {
    if degree == 0.0 { 1.0 } else { (degree * (-used).ln_1p()).exp() }
}

/// Share of the nodes that mini-batches can reach.
pub(crate) fn reach(graph: &Graph) -> f64 {
    graph.reach.unwrap_or(1.0)
}

/// Destinations of a relation with one degree.
struct Bucket {
    degree: u64,
    nodes: u64,
    /// Destinations of all degrees.
    all: u64,
}

impl Bucket {
    /// Share of the destinations.
    fn share(&self) -> f64 {
        self.nodes as f64 / self.all as f64
    }
}

/// Seeds, drawn from the nodes of their type that have an edge of any relation: an edge in or out,
/// or an edge in.
struct Seeds {
    node_type: usize,
    count: f64,
    edges_in: bool,
    /// Chance that a node of the type has no edge at all.
    isolated: f64,
    /// Chance that a node of the type is none that seeds are drawn from.
    excluded: f64,
}

impl Seeds {
    fn new(graph: &Graph, batch: Batch<'_>) -> Self {
        let Batch { seeds, seed_type, .. } = batch;
        let into = |relation: &Relation| {
            if relation.destination == seed_type { relation.in_degrees.without() } else { 1.0 }
        };
        let without_edge = |relation: &Relation| match relation.reciprocal {
            _ if relation.source != seed_type => into(relation),
            0.0 => into(relation) * relation.out_degrees.without(),
            // Where edges in have reverses, nodes without an edge out have none in either.
            _ => into(relation).min(relation.out_degrees.without()),
        };
        let without_in = || graph.relations.iter().map(into).product();
        let independent = || graph.relations.iter().map(without_edge).product();
        let isolated =
            graph.isolated.map_or_else(independent, |isolated| isolated as f64 / graph.nodes() as f64);
        let edges_in = graph.training_edges_in;
        let excluded = if edges_in { without_in() } else { isolated };
        // Where no relation knows the type, any of its nodes can be a seed.
        let drawn_from = if excluded < 1.0 { 1.0 - excluded } else { 1.0 };
        let nodes = graph.node_types[seed_type].nodes as f64 * reach(graph) * drawn_from;
        Self { node_type: seed_type, count: (seeds as f64).min(nodes), edges_in, isolated, excluded }
    }

    fn of(&self, node_type: usize) -> f64 {
        if node_type == self.node_type { self.count } else { 0.0 }
    }

    /// Share of the seeds that lie in a bucket of destinations of a relation.
    fn share(&self, of: &Relation, bucket: &Bucket) -> f64 {
        let without = of.in_degrees.without();
        let left = if bucket.degree > 0 { 1.0 } else { 1.0 - self.excluded / without };
        bucket.share() * left / (1.0 - self.excluded)
    }

    /// Share of the seeds that have this many edges out of a relation, of `nodes` such sources.
    fn with_out(&self, of: &Relation, degree: u64, nodes: u64) -> f64 {
        let without = of.out_degrees.without();
        let left = match (degree, self.edges_in) {
            (0, _) => 1.0 - self.isolated / without,
            (_, true) => (1.0 - self.excluded - without + self.isolated) / (1.0 - without),
            (_, false) => 1.0,
        };
        nodes as f64 / of.out_degrees.nodes() as f64 * left / (1.0 - self.excluded)
    }
}
