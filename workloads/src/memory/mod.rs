//! The tensors of a rank, one by one, as an eager framework allocates and frees them in the order of its host: what the
//! caching allocator ([`hw_models::allocator`]) makes of them is the memory that the rank needs.
//!
//! A tensor is allocated by the operator that fills it and freed after the last one that reads it, as autograd does with
//! what it saves: during a backward pass memory shrinks layer by layer. The lists of operators say who reads what; the
//! order of a stage says which micro-batches are under way. Parameters, sums of gradients, states of the optimizer and
//! the workspace of matrix products stay; states of the optimizer come in two parts ([`training`]). A product that adds a weight gradient to its sum leaves autograd a
//! [`Placeholder`] for it.
//!
//! What other streams use is taken to be done when the host frees it, as if it never ran ahead of collectives. Moves of
//! activations (BPipe) are not part of the list.

mod states;
mod usage;
mod walk;

use hw_models::allocator::{Request, StreamNumber};

use crate::chain::Chain;
use crate::graph::Phase;
use crate::limits::Invalid;
use crate::model::cut::Cut;
use crate::model::transformer::ShardedTransformer;
use crate::names::kind;
use crate::order::{Order, Visit};
use crate::plan::{TransformerPlan, parameters};

use states::Held;
pub use usage::{NotReplayed, StageUsage, usage};
use walk::{Tensor, Walk};

/// What a rank asks of its allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankList {
    /// The requests, in the order of the host.
    pub requests: Vec<Request>,
    /// The first request of each operator that makes any, ascending.
    operators: Vec<(usize, Executed)>,
    /// Tensors so far.
    made: u32,
}

/// What the framework adds to the tensors of the operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framework {
    /// Bytes of workspace that matrix products have.
    pub workspace: u64,
    /// In place of weight gradients.
    pub placeholder: Placeholder,
}

/// What autograd is given in place of a weight gradient that a product has added to the sum over micro-batches: memory of
/// its size, which nobody reads, so that what waits for the gradient is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// Nothing (Megatron-LM up to 2022).
    None,
    /// New memory each time, freed at once (layers of Megatron-LM, `LinearWithGradAccumulationAndAsyncCommunication`).
    Fresh,
    /// One for each shape of a layer's weights, for good (`get_dummy_wgrad` of Transformer Engine); that of the logits,
    /// which are a layer of Megatron-LM, is new each time.
    Kept,
}

/// An operator in execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Its name.
    pub operator: &'static str,
    /// What it is executed for.
    pub phase: Phase,
    /// Chunk of the stage.
    pub chunk: u32,
    /// Block of the chunk, in the order of the forward pass.
    pub block: u32,
    /// The micro-batch.
    pub micro_batch: u32,
}

impl RankList {
    /// Which operator made a request; none for what is there before the first one.
    pub fn executing(&self, request: usize) -> Option<Executed> {
        let after = self.operators.partition_point(|&(first, _)| first <= request);
        Some(self.operators[after.checked_sub(1)?].1)
    }
}

/// The list of a step of a rank of `stage`, which executes the operators of `plan` in `order` and holds its parameters,
/// gradients and states of the optimizer in one tensor each.
///
/// # Errors
/// What is wrong with the model or its split.
pub fn list(
    plan: &TransformerPlan,
    order: &Order,
    stage: u32,
    framework: &Framework,
) -> Result<RankList, Vec<Invalid>> {
    of_rank(plan, order, stage, |rank| rank.step(framework))
}

/// The list of a rank of `stage` from the making of the model to the end of its second step, when it holds all that it will:
/// parameters, gradients and states of the optimizer tensor by tensor. It is the copy `copy` of the model.
///
/// # Errors
/// What is wrong with the model or its split.
pub fn training(
    plan: &TransformerPlan,
    order: &Order,
    (stage, copy): (u32, u32),
    framework: &Framework,
) -> Result<RankList, Vec<Invalid>> {
    of_rank(plan, order, stage, |rank| rank.training(&rank.walk(framework), copy, framework))
}

/// What a rank of `stage` lists.
fn of_rank(
    plan: &TransformerPlan,
    order: &Order,
    stage: u32,
    list: impl FnOnce(&Rank<'_>) -> RankList,
) -> Result<RankList, Vec<Invalid>> {
    let model = ShardedTransformer::new(&plan.model, &plan.execution)?;
    let chain = order.shape.chain;
    let cut = model.cut(chain, plan.recompute, &plan.data_parallel());
    let visits = order.stages.get(stage as usize).map_or(&[][..], Vec::as_slice);
    Ok(list(&Rank { plan, model: &model, cut: &cut, chain, stage, visits }))
}

/// A rank of a stage, and what it executes.
struct Rank<'a> {
    plan: &'a TransformerPlan,
    model: &'a ShardedTransformer,
    cut: &'a Cut,
    chain: Chain,
    stage: u32,
    visits: &'a [Visit],
}

impl Rank<'_> {
    /// The operators of a step.
    fn walk(&self, framework: &Framework) -> Walk {
        let Self { plan, model, chain, stage, visits, .. } = *self;
        Walk::of(plan, model, (chain, stage), visits, framework.placeholder)
    }

    /// One step, beside states in a tensor each.
    fn step(&self, framework: &Framework) -> RankList {
        let Self { plan, model, chain, stage, .. } = *self;
        let states = model.state_bytes(&parameters(model, chain, stage), &plan.data_parallel());
        let mut list = RankList::default();
        let throughout = [
            (kind::PARAMETERS, states.parameters),
            (kind::GRADIENTS, states.gradients),
            (kind::OPTIMIZER, states.optimizer),
            (kind::WORKSPACE, framework.workspace),
        ];
        for (kind, bytes) in throughout {
            list.allocate(bytes, kind);
        }
        list.step(&self.walk(framework), true);
        list
    }

    /// Two steps of a walk, the model and its states.
    fn training(&self, walk: &Walk, copy: u32, framework: &Framework) -> RankList {
        let Self { plan, cut, chain, stage, visits, .. } = *self;
        let positions = (0..chain.chunks).map(|chunk| chain.position(stage, chunk));
        let pieces = positions.flat_map(|position| &cut.positions[position as usize]);
        let held = Held::of(cut, pieces, plan.execution.states, &plan.data_parallel(), copy);
        let mut list = RankList::default();
        held.make(&mut list);
        list.allocate(framework.workspace, kind::WORKSPACE);
        list.step(walk, true);
        held.update(&mut list, visits.last().map_or(0, |visit| visit.micro_batch));
        list.step(walk, false);
        list
    }
}

impl RankList {
    /// Asks for a tensor, on the stream of the operators.
    fn allocate(&mut self, bytes: u64, kind: &'static str) -> u32 {
        self.requests.push(Request::Allocate { bytes, stream: StreamNumber(0), kind });
        self.made += 1;
        self.made - 1
    }

    /// Frees a tensor.
    fn free(&mut self, tensor: u32) {
        self.requests.push(Request::Free(tensor));
    }

    /// What follows is asked by an operator.
    fn execute(&mut self, executed: Executed) {
        self.operators.push((self.requests.len(), executed));
    }

    /// Appends the requests of a step; what it keeps for good is there after the first one.
    fn step(&mut self, Walk { steps, tensors, .. }: &Walk, is_first: bool) {
        let mut by_end: Vec<usize> = (0..tensors.len()).collect();
        by_end.sort_by_key(|&tensor| tensors[tensor].last_step);
        let (mut ending, mut numbers) = (by_end.into_iter().peekable(), Vec::with_capacity(tensors.len()));
        for (n, step) in steps.iter().enumerate() {
            let first = self.requests.len();
            while let Some(tensor) = tensors.get(numbers.len()).filter(|tensor| tensor.first_step == n) {
                let bytes = if is_first || tensor.last_step < usize::MAX { tensor.bytes } else { 0 };
                numbers.push(self.allocate(bytes, tensor.kind()));
            }
            if step.workspace > 0 {
                let workspace = self.allocate(step.workspace, kind::WORKSPACE);
                self.free(workspace);
            }
            while let Some(tensor) = ending.next_if(|&tensor| tensors[tensor].last_step == n) {
                self.free(numbers[tensor]);
            }
            if self.requests.len() > first {
                self.operators.push((first, step.execution));
            }
        }
    }
}

impl Tensor {
    /// What its bytes count as.
    fn kind(&self) -> &'static str {
        match (self.first_visit == self.last_visit, self.filled_in, self.last_read_in) {
            (true, Phase::Recompute, _) => kind::RECOMPUTED,
            (true, ..) => kind::WORKSPACE,
            (false, _, Phase::BackwardWeight) => kind::FOR_WEIGHT_GRADIENTS,
            (false, ..) => kind::ACTIVATIONS,
        }
    }
}
