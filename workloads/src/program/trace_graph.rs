//! Graph of all traces of a program: traces merge where the same is done at the same place.
//!
//! A node is what is done and its place, shapes apart. Where a loop whose trips vary stays rolled,
//! they are one place (Kim et al., Terra: Imperative-Symbolic Co-Execution of Imperative Deep
//! Learning Programs, NeurIPS 2021, supplement A). The graph accepts a path if each step follows
//! the one before in some trace.

use std::collections::{BTreeMap, BTreeSet};

use super::execution::Loops;
use super::path::{Place, Region, Step, What};

/// A node of traces: what is done, and where.
type Node = (Place, What);

/// The graph of all traces so far.
#[derive(Clone, Debug)]
pub struct TraceGraph {
    loops: Loops,
    /// By node, those that have followed it; the first of an iteration follows `None`, and `None`
    /// follows the last.
    followers: BTreeMap<Option<Node>, BTreeSet<Option<Node>>>,
}

impl TraceGraph {
    /// A graph of no trace.
    pub const fn new(loops: Loops) -> Self {
        Self { loops, followers: BTreeMap::new() }
    }

    /// Adds a trace: the traced steps of a path. Tells whether that added anything.
    pub fn merge(&mut self, trace: &[Step]) -> bool {
        let mut added = false;
        let mut before = None;
        for node in trace.iter().map(Some).chain([None]) {
            let node = node.map(|step| self.node(step));
            added |= self.followers.entry(before).or_default().insert(node);
            before = node;
        }
        added
    }

    /// The first step of a trace that follows the one before in no trace so far; the number of
    /// steps if only its end does not.
    pub fn departs(&self, trace: &[Step]) -> Option<usize> {
        let mut before = None;
        let nodes = trace.iter().map(|step| Some(self.node(step))).chain([None]);
        nodes.enumerate().find_map(|(at, node)| {
            let known = self.followers.get(&before).is_some_and(|known| known.contains(&node));
            before = node;
            (!known).then_some(at)
        })
    }

    /// True if several steps have followed what stands before a step of a trace: its graph waits
    /// there to be told the path.
    pub fn is_divided_before(&self, trace: &[Step], at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|at| trace.get(at)).map(|step| self.node(step));
        self.followers.get(&before).is_some_and(|known| known.len() > 1)
    }

    /// Steps that a graph executes by itself behind a step, until it has to be told the path: they
    /// follow in all traces.
    pub fn alone_behind(&self, trace: &[Step], at: usize) -> Vec<What> {
        let mut before = at.checked_sub(1).and_then(|at| trace.get(at)).map(|step| self.node(step));
        let mut alone = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some(known) = self.followers.get(&before)
            && let (Some(&Some(only)), 1) = (known.first(), known.len())
            && seen.insert(only)
        {
            alone.push(only.1);
            before = Some(only);
        }
        alone
    }

    /// Regions that some trace runs.
    pub fn regions(&self) -> Vec<Region> {
        let nodes = self.followers.keys().flatten();
        let regions = nodes.filter_map(|(_, what)| match what {
            What::Run(region) => Some(*region),
            _ => None,
        });
        regions.collect::<BTreeSet<Region>>().into_iter().collect()
    }

    /// Number of different nodes.
    pub fn nodes(&self) -> usize {
        self.followers.len().saturating_sub(1)
    }

    fn node(&self, step: &Step) -> Node {
        let varying_trip = match self.loops {
            Loops::Rolled => 0,
            Loops::Unrolled => step.place.varying_trip,
        };
        (Place { varying_trip, ..step.place }, step.what)
    }
}
