//! Hit rates of caches that hold a share of the rows of a graph.
//!
//! A mini-batch reads each node's row with a chance that follows from its edges out
//! ([`sampling`](crate::sampling)); an epoch is as many mini-batches as the training nodes give. Of
//! `b` mini-batches a node is read in a binomial number. Policies differ in what they know: degree
//! the edges out, pre-sampling counts of an earlier epoch (GNNLab, Yang et al., EuroSys 2022), the
//! optimum the counts of the epoch itself.
//!
//! Nodes of one degree are alike but for being in reach of training nodes or not
//! ([`Graph::reach`]). In fact those next to training nodes are read more often, epoch after epoch:
//! where one node in ten is trained on, counts serve up to 6 points more than this says.

use std::collections::BTreeMap;

use crate::graph::Graph;
use crate::sampling::{Batch, Frontier, missed, reach};
use crate::settings::Problem;

/// Choice of the rows that a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any rows.
    Random,
    /// Nodes with the most edges out.
    Degree,
    /// Nodes read most often in these epochs before.
    Presample {
        /// Epochs that were counted.
        epochs: u32,
    },
    /// Nodes read most often in the epoch that is judged.
    Optimal,
}

/// Rows that mini-batches read.
#[derive(Clone, Debug)]
pub struct Reads {
    classes: Vec<Class>,
    nodes: f64,
    batches: u32,
}

/// Nodes that are read alike.
#[derive(Clone, Copy, Debug)]
struct Class {
    degree: u64,
    nodes: f64,
    /// Chance that a mini-batch reads a node.
    chance: f64,
}

/// Mini-batches whose counts are told apart one by one: those of longer epochs are too alike to
/// change a ranking.
const MOST_BATCHES: u32 = 4096;

impl Reads {
    /// Reads of mini-batches of a homogeneous graph.
    ///
    /// # Errors
    /// If the graph has several relations, or training nodes are not known.
    pub fn of(graph: &Graph, batch: Batch<'_>) -> Result<Self, Problem> {
        let [relation] = graph.relations.as_slice() else {
            let fault = format!("has {} types of edges", graph.relations.len());
            return Err(Problem::new("graph", fault, "hit rates are known of graphs with one type of edges"));
        };
        let Some(training) = graph.training_nodes else {
            let remedy = format!("write `training_nodes: {}` to train on all", graph.nodes());
            return Err(Problem::new("training_nodes", "are not known", remedy));
        };
        let mut frontier = Frontier::new(graph, batch);
        for &fan_out in batch.fan_out {
            frontier.hop(fan_out);
        }
        let used = frontier.used(0);
        let nodes = graph.nodes() as f64;
        let training = (training as f64).min(nodes * reach(graph));
        // In an epoch each training node is a seed once.
        let seeded = (batch.seeds as f64 / training).min(1.0);
        let mut classes = Vec::new();
        for &(degree, count) in relation.out_degrees.counts() {
            let reachable = count as f64 * reach(graph);
            let trained = (training * frontier.seeds_with(0, degree, count)).min(reachable);
            let missed = missed(used, degree as f64);
            classes.extend([
                Class { degree, nodes: count as f64 - reachable, chance: 0.0 },
                Class { degree, nodes: reachable - trained, chance: 1.0 - missed },
                Class { degree, nodes: trained, chance: 1.0 - missed * (1.0 - seeded) },
            ]);
        }
        let batches = (1.0 / seeded).ceil().min(f64::from(MOST_BATCHES)) as u32;
        Ok(Self { classes, nodes, batches })
    }

    /// Rows of a mini-batch.
    pub fn rows(&self) -> f64 {
        self.classes.iter().map(|class| class.nodes * class.chance).sum()
    }

    /// Share of the reads that a cache of this share of all rows serves.
    pub fn hit_rate(&self, policy: Policy, share: f64) -> f64 {
        let share = share.clamp(0.0, 1.0);
        let served = match policy {
            Policy::Random => return share,
            Policy::Degree => {
                let alike = |class: &Class| (class.degree, [class.nodes, class.nodes * class.chance]);
                self.best(share, self.classes.iter().map(alike))
            }
            Policy::Presample { epochs } => {
                let epochs = epochs.max(1).min(MOST_BATCHES / self.batches.max(1)).max(1);
                self.best(share, self.counted(epochs * self.batches, |class, _| class.chance))
            }
            Policy::Optimal => {
                let batches = f64::from(self.batches);
                self.best(share, self.counted(self.batches, |_, count| f64::from(count) / batches))
            }
        };
        (served / self.rows()).min(1.0)
    }

    /// Nodes by their reads in a number of mini-batches, each with nodes and their worth.
    fn counted(
        &self,
        batches: u32,
        worth: impl Fn(&Class, u32) -> f64,
    ) -> impl Iterator<Item = (u64, [f64; 2])> {
        let of_class = move |class: &Class| {
            let worth = &worth;
            let ranked = binomial(batches, class.chance).map(move |(count, share)| {
                let nodes = class.nodes * share;
                (u64::from(count), [nodes, nodes * worth(class, count)])
            });
            ranked.collect::<Vec<_>>()
        };
        self.classes.iter().flat_map(of_class)
    }

    /// Worth of the best nodes that fit, ranked by their keys; of those with one key any are taken.
    fn best(&self, share: f64, ranked: impl Iterator<Item = (u64, [f64; 2])>) -> f64 {
        let mut ranks: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
        for (key, [nodes, worth]) in ranked {
            let rank = ranks.entry(key).or_default();
            *rank = [rank[0] + nodes, rank[1] + worth];
        }
        let mut room = share * self.nodes;
        let mut served = 0.0;
        for [nodes, worth] in ranks.into_values().rev() {
            if nodes > room {
                return served + worth * room / nodes;
            }
            room -= nodes;
            served += worth;
        }
        served
    }
}

/// Counts of successes with their chances, those that matter.
fn binomial(trials: u32, chance: f64) -> impl Iterator<Item = (u32, f64)> {
    let n = f64::from(trials);
    let chance = chance.clamp(0.0, 1.0);
    let spread = 9.0 * (n * chance * (1.0 - chance)).sqrt() + 9.0;
    let low = (n * chance - spread).floor().max(0.0) as u32;
    let high = (n * chance + spread).ceil().min(n) as u32;
    let mut logarithm = log_choose(trials, low);
    (low..=high).map(move |count| {
        let [wins, losses] = [f64::from(count), n - f64::from(count)];
        let power = |base: f64, times: f64| if times == 0.0 { 0.0 } else { times * base.ln() };
        let share = (logarithm + power(chance, wins) + power(1.0 - chance, losses)).exp();
        logarithm += ((n - wins) / (wins + 1.0)).ln();
        (count, share)
    })
}

fn log_choose(of: u32, count: u32) -> f64 {
    (0..count).map(|at| (f64::from(of - at) / f64::from(at + 1)).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::binomial;

    #[test]
    fn chances_add_up() {
        for (trials, chance) in [(1, 0.3), (52, 0.001), (151, 0.5), (4096, 0.9), (151, 0.0), (151, 1.0)] {
            let [sum, mean] = binomial(trials, chance).fold([0.0, 0.0], |[sum, mean], (count, share)| {
                [sum + share, mean + share * f64::from(count)]
            });
            assert!((sum - 1.0).abs() < 1e-6, "{trials} {chance}: {sum}");
            assert!((mean - f64::from(trials) * chance).abs() < 1e-6 * f64::from(trials), "{mean}");
        }
    }
}
