//! How large a plan on a machine is, counted without building it.

use std::collections::BTreeMap;

use crate::chain::Chain;
use crate::exchange::{Exchange, LaunchedBy, Tie};
use crate::graph::{OpGraph, Phase};
use crate::model::laid::Laid;
use crate::model::transformer::{Group, Operator, ShardedTransformer, Work};
use crate::passes::realise::messages::SendMode;
use crate::passes::{Added, Size, list};
use crate::placement::Extent;

use super::deployment::Deployment;
use super::launch::Launch;
use super::transformer::TransformerPlan;
use super::{Estimate, Pipelining, profile};

/// The size of a plan, without building it; a plan that cannot be built takes nothing. Saturates.
///
/// Activities are counted as the engine does, a collective once for its whole group. They are a
/// bound with BPipe, as if every micro-batch of a stage that lends some made a trip, where
/// activations are offloaded or swapped, as if all were, and where hosts issue operators beside
/// anything else, as if each were issued by itself.
pub fn estimate_transformer(plan: &TransformerPlan) -> Estimate {
    let chain = plan.deployment.pipelining.schedule.chain(plan.execution.split.stages);
    let model = ShardedTransformer::new(&plan.model, &plan.execution).ok();
    let Some(model) = model.filter(|_| chain.chunks == plan.execution.split.chunks) else {
        return Estimate { visits: 0, activities: 0 };
    };
    let (laid, exchanges) = plan.lay(&model, chain, None);
    estimate_laid((&laid, &exchanges), chain, plan.extent(), &plan.deployment)
}

/// The size of a plan of a model that is laid.
pub(super) fn estimate_laid(
    (laid, exchanges): (&Laid, &[Exchange]),
    chain: Chain,
    extent: Extent,
    Deployment { pipelining, launch, .. }: &Deployment,
) -> Estimate {
    let Pipelining { micro_batches, send, .. } = *pipelining;
    let passes = list(pipelining, Vec::new());
    let profiled = if passes.iter().any(|pass| pass.needs_profile()) {
        profile::steps(pipelining.micro_batches)
    } else {
        0
    };
    let steps = pipelining.steps.saturating_add(profiled);
    let hosted = pipelining.hosted(chain.stages);
    let (mut of_micro_batch, mut of_step) = (Tally::default(), Tally::default());
    for op in laid.graph.ops() {
        let operator = laid.graph.work_of(op);
        of_step.on_ranks += hosted.map_or(0, |hosted| hosted.beside(operator));
        let tally = if op.phase == Phase::Update { &mut of_step } else { &mut of_micro_batch };
        tally.operator(operator, extent);
    }
    let visits_of = |phases: &[Phase]| visits(&laid.graph, chain, phases);
    let forward = visits_of(&[Phase::Forward]);
    let backward = visits_of(&[Phase::BackwardInput, Phase::BackwardWeight, Phase::Backward]);
    if send != SendMode::Latency {
        let ways = if backward > 0 { 2 } else { 1 };
        of_micro_batch.on_ranks += ways * chain.hops();
    }
    let size = Size { graph: &laid.graph, stages: chain.stages, micro_batches, visits: forward + backward };
    let added: Vec<Added> = passes.iter().map(|pass| pass.adds(&size)).collect();
    of_micro_batch.on_ranks += added.iter().map(|added| added.on_ranks).sum::<u64>();
    if *launch != Launch::Free {
        // Two activities of the host for every part that it issues.
        of_micro_batch.on_ranks += 2 * (forward + backward + interruptions(&laid.graph, exchanges));
        of_step.on_ranks += 2 * visits_of(&[Phase::Update]);
    }
    let beside = laid.graph.ops().iter().any(|op| op.beside > 0) || !exchanges.is_empty();
    let moved = hosted.is_some() || added.iter().any(|added| added.on_ranks + added.together > 0);
    if *launch == Launch::Eager && (beside || moved) {
        // Each operator that may be late is a part of its own. Prices, which nobody knows yet, tell
        // which: at most all of them.
        let updates = laid.graph.ops().iter().filter(|op| op.phase == Phase::Update).count() as u64;
        of_micro_batch.on_ranks += 2 * (laid.graph.ops().len() as u64 - updates);
        of_step.on_ranks += 2 * updates;
    }

    let micro_batches = u64::from(micro_batches);
    let together = added.iter().map(|added| added.together).sum();
    let of_micro_batch = of_micro_batch.activities(extent).saturating_add(together);
    let in_step = micro_batches.saturating_mul(of_micro_batch);
    let activities = in_step.saturating_add(of_step.activities(extent)).saturating_mul(steps.into());
    let instances = [micro_batches, u64::from(steps), 2 * u64::from(chain.chunks)];
    Estimate { visits: instances.into_iter().fold(extent.ranks(), u64::saturating_mul), activities }
}

/// Visits of these phases with operators, over all stages.
fn visits(graph: &OpGraph, chain: Chain, phases: &[Phase]) -> u64 {
    let positions = (0..chain.positions()).map(|position| (chain.stage(position), chain.chunk(position)));
    let visits = positions.flat_map(|(stage, chunk)| phases.iter().map(move |&phase| (stage, chunk, phase)));
    visits.filter(|&(stage, chunk, phase)| !graph.visit(stage, chunk, phase).is_empty()).count() as u64
}

/// Breaks of the host in what it issues for visits: it waits for an operator, or takes memory for a gather.
fn interruptions(graph: &OpGraph, exchanges: &[Exchange]) -> u64 {
    let awaited = graph.ops().iter().filter(|op| op.awaited).count();
    let by_host = |tie: &Tie| matches!(tie, Tie::Gather { launched: LaunchedBy::Host { .. }, .. });
    let gathers = exchanges.iter().filter(|exchange| by_host(&exchange.tie)).count();
    (awaited + gathers) as u64
}

/// Operators over all stages, by who executes them.
#[derive(Default)]
struct Tally {
    /// On every rank of the stage.
    on_ranks: u64,
    /// Of a group together.
    of_groups: BTreeMap<Group, u64>,
}

impl Tally {
    fn operator(&mut self, operator: &Operator, extent: Extent) {
        let Work::Collective(collective) = operator.work else {
            self.on_ranks += 1;
            return;
        };
        for phase in collective.phases(extent.sharing) {
            *self.of_groups.entry(phase.group).or_default() += 1;
        }
    }

    fn activities(&self, extent: Extent) -> u64 {
        let replicas = u128::from(extent.replicas());
        let of_groups = self
            .of_groups
            .iter()
            .map(|(&group, &count)| u128::from(count) * replicas / u128::from(members(extent, group).max(1)));
        let all = u128::from(self.on_ranks) * replicas + of_groups.sum::<u128>();
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

/// Ranks of a group.
fn members(extent: Extent, group: Group) -> u64 {
    match group {
        Group::Tensor => extent.tensor.into(),
        Group::Context => extent.context.into(),
        Group::Expert => extent.expert.into(),
        Group::Data => extent.copies(),
        Group::Shard => extent.sharing.into(),
        Group::Replica => extent.copies() / u64::from(extent.sharing.max(1)),
        Group::ExpertData => extent.copies() / u64::from(extent.expert.max(1)),
        Group::Embedding => 2,
        Group::Model => u64::from(extent.tensor) * u64::from(extent.stages),
    }
}
