//! The ranks of a plan, whatever its model: what they execute and hold.

use crate::chain::Chain;
use crate::diagnostic::Diagnostic;
use crate::graph::OpGraph;
use crate::graph::cut::{Cut, Piece};
use crate::graph::operator::OperatorList;
use crate::memo::Memo;
use crate::model::laid::Laid;
use crate::model::transformer::{DataParallel, ShardedTransformer, Sharding, States, Step};
use crate::names::kind;
use crate::order::{Order, Visit};
use crate::plan::{Built, LayeredPlan, TransformerPlan};

use super::alike::Alike;
use super::moves::Lending;
use super::shared::Shared;
use super::states::Held;
use super::step_list::StepList;
use super::walk::Walk;
use super::{Absences, Framework, RankList, Recorded};

/// The ranks of a plan.
#[derive(Clone, Debug)]
pub struct Ranks {
    pub(super) chain: Chain,
    pub(super) cut: Cut,
    /// Its model on its stages, tensor by tensor.
    pub(super) laid: Laid,
    /// By stage, bytes that it sends to the next for a micro-batch.
    pub(super) boundaries: Vec<u64>,
    /// What a rank does with what it receives.
    pub(super) receive: OperatorList,
    pub(super) states: States,
    /// The part of a step that is executed: what it has no use for is not there.
    pub(super) step: Step,
    /// Bytes of a parameter's states that the first update allocates.
    pub(super) moments: u64,
    pub(super) data: DataParallel,
    pub(super) shared: Shared,
    pub(super) gradients: Gradients,
    /// By stage, bytes of the buckets that gradients are copied to.
    pub(super) buckets: Vec<Vec<u64>>,
}

/// How sums of gradients are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gradients {
    /// As one buffer (Megatron-LM).
    Buffer,
    /// As a tensor for each parameter, which is copied to a bucket where buckets are summed (`DistributedDataParallel` of
    /// PyTorch without `gradient_as_bucket_view`).
    Tensors,
}

impl Ranks {
    /// Ranks of a transformer, whose model on its stages `memo` may know.
    ///
    /// # Errors
    /// What is wrong with the model or its split.
    pub fn of_transformer(plan: &TransformerPlan, memo: Option<&Memo>) -> Result<Self, Vec<Diagnostic>> {
        let model = ShardedTransformer::new(&plan.model, &plan.execution)?;
        let chain = plan.deployment.pipelining.schedule.chain(plan.execution.split.stages);
        let boundary = model.boundary(plan.scatter_gather);
        let (states, data) = (plan.execution.states, plan.data_parallel());
        let (laid, exchanges) = plan.lay(&model, chain, memo);
        let cut = plan.cut(&model, chain);
        Ok(Self {
            chain,
            cut,
            boundaries: vec![boundary.bytes; chain.stages as usize],
            receive: boundary.receive,
            states,
            step: plan.execution.step,
            moments: states.optimizer_bytes() - states.copy_bytes(),
            data,
            shared: Shared::of(&laid, &exchanges, states, &data),
            laid,
            gradients: Gradients::Buffer,
            buckets: vec![Vec::new(); chain.stages as usize],
        })
    }

    /// Ranks of a list of layers.
    pub fn of_layers(plan: &LayeredPlan) -> Self {
        let chain = plan.deployment.pipelining.schedule.chain(plan.stages);
        let (execution, data) = (plan.model.execution(), plan.data_parallel());
        let (laid, exchanges) = plan.lay();
        let (cut, buckets) = (plan.cut(chain), plan.buckets(&laid, &exchanges));
        Self {
            chain,
            cut,
            boundaries: plan.model.boundaries(plan.stages),
            receive: OperatorList::default(),
            states: execution.states,
            step: execution.step,
            moments: execution.optimizer_bytes() - execution.states.copy_bytes(),
            data,
            shared: Shared::of(&laid, &exchanges, execution.states, &data),
            laid,
            gradients: Gradients::Tensors,
            buckets,
        }
    }

    /// The list of a step of a rank of `stage`, which executes its operators in `order` and holds its parameters, gradients
    /// and states of the optimizer in one tensor each.
    pub fn step(&self, order: &Order, stage: u32, framework: &Framework) -> RankList {
        let held = Held::of(self, stage, 0);
        let mut list = RankList::default();
        let [parameters, gradients, optimizer] = held.bytes();
        let throughout = [
            (kind::PARAMETERS, parameters),
            (kind::GRADIENTS, gradients),
            (kind::OPTIMIZER, optimizer),
            (kind::WORKSPACE, framework.workspace),
        ];
        for (kind, bytes) in throughout {
            list.allocate(bytes, kind);
        }
        list.append(&self.requested(&self.laid.graph, (stage, visits(order, stage)), framework), true);
        list
    }

    /// The list of a rank of `stage` from the making of the model to the end of its second step, when it holds all that it
    /// will: parameters, gradients and states of the optimizer tensor by tensor. It is the copy `copy` of the model.
    pub fn training(&self, order: &Order, (stage, copy): (u32, u32), framework: &Framework) -> RankList {
        let visits = visits(order, stage);
        let step = self.requested(&self.laid.graph, (stage, visits), framework);
        self.two_steps(&step, (stage, copy), visits, (0, 0), framework)
    }

    /// [`Self::training`] by a walk of every micro-batch: slow and plainly right.
    pub fn training_plainly(
        &self,
        order: &Order,
        (stage, copy): (u32, u32),
        framework: &Framework,
    ) -> RankList {
        let visits = visits(order, stage);
        let step = self.walked(&self.laid.graph, (stage, visits), framework);
        self.two_steps(&step, (stage, copy), visits, (0, 0), framework)
    }

    /// Requests of a rank in a step of a stage in which nothing leaves.
    pub(super) fn requested(
        &self,
        graph: &OpGraph,
        (stage, visits): (u32, &[Visit]),
        framework: &Framework,
    ) -> StepList {
        let alike = Alike::of(visits);
        let walked: Vec<Visit> = visits.iter().copied().filter(|visit| alike.walks(visit)).collect();
        let repeated = alike.repeat(visits, &self.walked(graph, (stage, &walked), framework));
        repeated.unwrap_or_else(|| self.walked(graph, (stage, visits), framework))
    }

    /// [`Self::requested`] by a walk of all visits.
    fn walked(&self, graph: &OpGraph, (stage, visits): (u32, &[Visit]), framework: &Framework) -> StepList {
        let nothing = (Lending::default(), &Absences::default());
        let walk = Walk::of((self, graph), stage, visits, nothing, framework.placeholder);
        StepList::of(&walk, &Recorded::default())
    }

    /// Two steps, the model and its states, and `count` buffers of `bytes` each for another stage.
    pub(super) fn two_steps(
        &self,
        step: &StepList,
        (stage, copy): (u32, u32),
        visits: &[Visit],
        (count, bytes): (u32, u64),
        framework: &Framework,
    ) -> RankList {
        let held = Held::of(self, stage, copy);
        let mut list = RankList::default();
        held.make(&mut list);
        list.allocate(framework.workspace, kind::WORKSPACE);
        for _ in 0..count {
            list.allocate(bytes, kind::HELD_FOR_PARTNER);
        }
        // The first update, too.
        list.requests.reserve(2 * (step.list.requests.len() + list.requests.len()));
        list.append(step, true);
        held.update(&mut list, visits.last().map_or(0, |visit| visit.micro_batch));
        list.append(step, false);
        list
    }

    /// By chunk of a stage, the pieces that it executes.
    pub(super) fn pieces(&self, stage: u32) -> impl Iterator<Item = &[Piece]> {
        let Self { chain, cut, .. } = self;
        let positions = (0..chain.chunks).map(move |chunk| chain.position(stage, chunk));
        positions.map(|position| cut.positions[position as usize].as_slice())
    }

    /// Whether it takes a run to tell when memory of a plan comes back.
    pub fn need_run(&self, built: &Built) -> bool {
        self.lends() || built.memory.iter().any(|memory| memory.waits)
    }

    /// Whether the device returns memory: gathers, or gradients that leave for the host, are lent.
    pub fn lends(&self) -> bool {
        let leaves = self.shared.leaves && !self.shared.sums.is_empty();
        leaves || self.shared.gathers.values().flatten().any(|gather| gather.is_lent)
    }

    /// Whether copies of the model hold different parts of the states of its optimizer.
    pub(super) fn copies_differ(&self) -> bool {
        [Sharding::Optimizer, Sharding::Gradients].contains(&self.data.sharding)
    }
}

/// What a stage executes.
fn visits(order: &Order, stage: u32) -> &[Visit] {
    order.stages.get(stage as usize).map_or(&[][..], Vec::as_slice)
}
