//! Memory at each operator of a stage: prefetches have room, workspaces take what is left. And
//! what was decided, for reports.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::exchange::Exchange;
use crate::graph::operator::{ConvolutionAlgorithm, Work};
use crate::graph::{OpGraph, OpId, Phase, Purpose};
use crate::liveness::{Liveness, gaps};
use crate::order::Visit;

use super::layers::{Layers, Offloaded};

/// Bytes that a stage needs at each of its operators.
pub(super) struct Needs<'a> {
    liveness: Liveness,
    visits: &'a [Visit],
    room: u64,
}

impl<'a> Needs<'a> {
    /// Needs of a stage that executes `visits` with `room` for what comes and goes.
    pub(super) fn of(
        graph: &OpGraph,
        stage: u32,
        (visits, exchanges): (&'a [Visit], &[Exchange]),
        room: u64,
    ) -> Self {
        Self { liveness: Liveness::of_stage(graph, stage, visits, exchanges), visits, room }
    }

    /// Lets offloaded inputs of a chunk be away. One that has no room when a layer would prefetch
    /// it is prefetched by a later one, at the latest by the layer that needs it.
    pub(super) fn prefetch(
        &mut self,
        graph: &OpGraph,
        layers: &Layers,
        (stage, chunk): (u32, u32),
        offloaded: &mut [Offloaded],
    ) {
        debug_assert_eq!(graph.visit(stage, chunk, Phase::Backward), layers.backward);
        let absences = |phase| {
            let of_chunk = |visit: &&Visit| visit.phase == phase && u32::from(visit.chunk) == chunk;
            let begins = self
                .visits
                .iter()
                .filter(of_chunk)
                .map(|&visit| (visit.micro_batch, self.liveness.begin(visit)));
            begins.filter_map(|(number, begin)| Some((number, begin?))).collect::<BTreeMap<u32, usize>>()
        };
        let (forward, backward) = (absences(Phase::Forward), absences(Phase::Backward));
        let both = forward.iter().filter_map(|(number, &begin)| Some((begin, *backward.get(number)?)));
        let both: Vec<(usize, usize)> = both.collect();
        let away = |it: &Offloaded, asked: usize| {
            let returns = layers.returning[asked].start;
            both.iter()
                .map(move |&(begin, back)| begin + it.left + 1..back + returns)
                .collect::<Vec<Range<usize>>>()
        };
        for it in &*offloaded {
            for steps in away(it, it.needed) {
                self.liveness.alive[steps].iter_mut().for_each(|alive| *alive -= it.bytes);
            }
        }
        for it in offloaded {
            let fits = |layer: usize| {
                let (from, to) = (layers.returning[layer].start, layers.returning[it.needed].start);
                both.iter().all(|&(_, back)| {
                    let alive = &self.liveness.alive[back + from..back + to];
                    alive.iter().all(|alive| alive.saturating_add(it.bytes) <= self.room)
                })
            };
            it.asked = (it.asked..it.needed).find(|&layer| fits(layer)).unwrap_or(it.needed);
            let (from, to) = (layers.returning[it.asked].start, layers.returning[it.needed].start);
            for &(_, back) in &both {
                self.liveness.alive[back + from..back + to].iter_mut().for_each(|alive| *alive += it.bytes);
            }
        }
    }

    /// Bytes that are left while an operator is executed, in whichever micro-batch.
    pub(super) fn left(&self, op: OpId) -> u64 {
        let at = self.liveness.ops.iter().zip(&self.liveness.alive).filter(|(other, _)| **other == op);
        self.room.saturating_sub(at.map(|(_, &alive)| alive).max().unwrap_or(0))
    }
}

/// Decisions of vDNN about a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Virtualised {
    /// The stage.
    pub stage: u32,
    /// Inputs that leave, and their bytes.
    pub offloaded: (u32, u64),
    /// Kernels of convolutions, and those that need no workspace.
    pub kernels: [u32; 2],
    /// Bytes of network-wide allocation, as frameworks had it before: all feature maps, two
    /// gradients of the largest of them, the largest workspace, parameters and what belongs to
    /// them.
    pub network_wide: u64,
}

impl Virtualised {
    pub(super) fn of(
        graph: &OpGraph,
        (stage, ops): (u32, &[OpId]),
        held: u64,
        offloaded: (u32, u64),
    ) -> Self {
        let algorithm = |op: &OpId| match graph.operator(*op).work {
            Work::Convolution(convolution) => convolution.algorithm,
            _ => None,
        };
        let kernels: Vec<ConvolutionAlgorithm> = ops.iter().filter_map(algorithm).collect();
        let implicit = kernels.iter().filter(|&&it| it == ConvolutionAlgorithm::Implicit).count();
        let chunks = graph.visits().filter(|((of, _, phase), _)| (*of, *phase) == (stage, Phase::Forward));
        let maps = chunks.flat_map(|((_, chunk, _), _)| {
            // What a layer keeps for itself alone is no feature map.
            gaps(graph, stage, chunk)
                .into_iter()
                .filter(|gap| gap.at[1] > gap.at[0] || graph.arrives(gap.storage))
        });
        let (all, largest) =
            maps.fold((0, 0), |(all, largest): (u64, u64), gap| (all + gap.bytes, largest.max(gap.bytes)));
        let written = ops.iter().flat_map(|&op| &graph.get(op).writes).map(|&storage| graph.stored(storage));
        let workspace =
            written.filter(|stored| stored.purpose == Purpose::Workspace).map(|stored| stored.bytes).max();
        let network_wide = held + all + 2 * largest + workspace.unwrap_or(0);
        Self { stage, offloaded, kernels: [kernels.len() as u32, implicit as u32], network_wide }
    }
}
