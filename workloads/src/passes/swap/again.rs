//! Producing a tensor again rather than swapping it, where the step is expected to be shorter (Peng et al., Capuchin, ASPLOS 2020:
//! swap what can be hidden, recompute what saves most bytes for its time). An operator of the backward pass fills it from what
//! is there anyway: tensors that the rest of that pass is still to read. What is gained is judged with links shared by all copies
//! of the model that copy at the same time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::cost::{CostBook, HostLinks, OpCost};
use crate::exchange::Exchange;
use crate::graph::{OpGraph, OpId, Phase, StorageId};
use crate::order::Visit;
use crate::transfer::Store;

use super::estimate;
use super::online::learn;
use super::plan::SwapPlan;
use super::timeline::{Candidate, Timeline};

/// A tensor that the backward pass produces again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Again {
    storage: StorageId,
    /// The operator of the forward pass that fills it.
    by: OpId,
    /// The operator of the backward pass that reads it first.
    before: OpId,
    pub(crate) bytes: u64,
    seconds: f64,
}

/// A stage to choose for.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) stage: u32,
    pub(crate) visits: &'a [Visit],
    pub(crate) exchanges: &'a [Exchange],
    pub(crate) room: u64,
    pub(crate) links: HostLinks,
    pub(crate) prefetch: usize,
    pub(crate) store: Store,
}

impl Choice<'_> {
    /// What is produced again: of tensors of one size and one cost, those that save most for their time first, as many as make
    /// the step shortest, all of them or half as many and so on, those needed first before others.
    pub(crate) fn made(&self, graph: &OpGraph, costs: &CostBook) -> Vec<Again> {
        let timeline = self.timeline(graph, costs);
        let (mut chosen, mut least) = (Vec::new(), self.expected(&timeline));
        if timeline.peak() <= self.room {
            return chosen;
        }
        for alike in alike(self.producible(&timeline, graph, costs)) {
            let fitting = independent(&alike, &chosen, graph);
            let counts = std::iter::successors(Some(fitting.len()), |&count| Some(count / 2));
            let mut best = None;
            for count in counts.take_while(|&count| count > 0) {
                let more: Vec<Again> = chosen.iter().chain(&fitting[..count]).copied().collect();
                let mut graph = graph.clone();
                realise(&more, &mut graph);
                let expected = self.expected(&self.timeline(&graph, costs));
                if expected < least {
                    (best, least) = (Some(more), expected);
                }
            }
            chosen = best.unwrap_or(chosen);
        }
        chosen
    }

    fn timeline(&self, graph: &OpGraph, costs: &CostBook) -> Timeline {
        Timeline::of(self.visits, self.stage, (graph, self.exchanges, costs), self.store)
    }

    /// What a step takes with the plan of the online engine (s); for ever where there is no room.
    fn expected(&self, timeline: &Timeline) -> f64 {
        let nothing = vec![false; timeline.candidates.len()];
        let links = HostLinks { rate: self.links.at_once, ..self.links };
        learn(timeline, self.room, nothing, |_| 0).map_or(f64::INFINITY, |plan: SwapPlan| {
            let plan = plan.asked_ahead(timeline, self.room, self.prefetch);
            estimate::seconds(&plan, timeline, self.room, links)
        })
    }

    /// Tensors that one kernel fills, from others that the backward pass reads no earlier.
    fn producible(&self, timeline: &Timeline, graph: &OpGraph, costs: &CostBook) -> Vec<Again> {
        let chunk = |candidate: &Candidate| graph.stored(candidate.storage).chunk;
        let visit = |chunk, phase| graph.visit(self.stage, chunk, phase);
        let mut last_read: BTreeMap<StorageId, usize> = BTreeMap::new();
        for chunk in timeline.candidates.iter().map(chunk) {
            for (at, &op) in visit(chunk, Phase::Backward).iter().enumerate() {
                last_read.extend(graph.get(op).reads.iter().map(|&storage| (storage, at)));
            }
        }
        let again = |candidate: &Candidate| {
            let &Candidate { storage, bytes, .. } = candidate;
            let fills = |op: &&OpId| graph.get(**op).writes.contains(&storage);
            let mut by = visit(chunk(candidate), Phase::Forward).iter().filter(fills);
            let (&by, None) = (by.next()?, by.next()) else { return None };
            let op = graph.get(by);
            let alone =
                op.writes.iter().all(|&other| other == storage || graph.stored(other).purpose.is_passing());
            let needed = candidate.before_needed();
            let there = |input: &StorageId| {
                graph.stored(*input).purpose.is_activation()
                    && last_read.get(input).is_some_and(|&last| last >= needed)
            };
            let backward = visit(chunk(candidate), Phase::Backward);
            // Operators that run beside a collective are counted.
            let beside = backward[..needed].iter().enumerate();
            let beside = beside.map(|(at, &op)| at + graph.get(op).beside as usize).max();
            let kernel = matches!(costs.of(graph.get(by)), OpCost::Kernel { .. } | OpCost::Lasting(_));
            let can = kernel && alone && op.beside == 0 && !op.reads.is_empty() && op.reads.iter().all(there);
            let seconds = costs.alone(graph.get(by)).as_secs();
            (can && beside.is_none_or(|last| last < needed)).then_some(Again {
                storage,
                by,
                before: backward[needed],
                bytes,
                seconds,
            })
        };
        timeline.candidates.iter().filter_map(again).collect()
    }
}

/// By bytes and time, those first that save most for their time; otherwise in the given order.
fn alike(mut all: Vec<Again>) -> Vec<Vec<Again>> {
    // Times are positive, so that their bits are in their order.
    let rank = |again: &Again| Reverse((again.bytes as f64 / again.seconds.max(1e-12)).to_bits());
    all.sort_by_key(rank);
    all.chunk_by(|one, other| (one.bytes, one.seconds) == (other.bytes, other.seconds))
        .map(<[Again]>::to_vec)
        .collect()
}

/// Those of `alike`, one after the other, that neither read what is produced again nor fill what it is produced from.
fn independent(alike: &[Again], chosen: &[Again], graph: &OpGraph) -> Vec<Again> {
    let reads = |one: &Again, other: &Again| graph.get(one.by).reads.contains(&other.storage);
    let mut fitting: Vec<Again> = Vec::new();
    for again in alike {
        let clash = |other: &&Again| reads(again, other) || reads(other, again);
        if !chosen.iter().chain(&fitting).any(|other| clash(&other)) {
            fitting.push(*again);
        }
    }
    fitting
}

/// Drops what is chosen after its last use in the forward pass, and fills it in the backward pass.
pub(crate) fn realise(chosen: &[Again], graph: &mut OpGraph) {
    for &Again { storage, by, before, .. } in chosen {
        graph.rematerialize(storage, by, before);
    }
}
