//! The tensors of a rank, one by one, as an eager framework allocates and frees them in the order of its host: what the
//! caching allocator ([`hw_models::allocator`]) makes of them is the memory that the rank needs.
//!
//! A tensor is allocated by the operator that fills it and freed after the last one that reads it, as autograd does with
//! what it saves: during a backward pass memory shrinks layer by layer. The lists of operators say who reads what; the
//! order of a stage says which micro-batches are under way. Parameters, sums of gradients, states of the optimizer and
//! the workspace of matrix products come first and stay. A product that adds a weight gradient to its sum leaves autograd a
//! [`Placeholder`] for it.
//!
//! What other streams use is taken to be done when the host frees it, as if it never ran ahead of collectives. Moves of
//! activations (BPipe) are not part of the list.

mod usage;
mod walk;

use hw_models::allocator::{Request, StreamNumber};

use crate::chain::Chain;
use crate::graph::Phase;
use crate::limits::Invalid;
use crate::model::transformer::ShardedTransformer;
use crate::names::kind;
use crate::order::{Order, Visit};
use crate::plan::{TransformerPlan, parameters};

pub use usage::{NotReplayed, StageUsage, usage};
use walk::{Tensor, Walk};

/// What a rank asks of its allocator in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankList {
    /// The requests, in the order of the host.
    pub requests: Vec<Request>,
    /// The first request of each operator that makes any, ascending.
    operators: Vec<(usize, Executed)>,
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

/// The list of a rank of `stage`, which executes the operators of `plan` in `order`.
///
/// # Errors
/// What is wrong with the model or its split.
pub fn list(
    plan: &TransformerPlan,
    order: &Order,
    stage: u32,
    framework: &Framework,
) -> Result<RankList, Vec<Invalid>> {
    let model = ShardedTransformer::new(&plan.model, &plan.execution)?;
    let visits = order.stages.get(stage as usize).map_or(&[][..], Vec::as_slice);
    Ok(list_of(plan, &model, (order.shape.chain, stage), visits, framework))
}

/// The list of a rank that executes `visits` as a stage of a chain, with `model`, which is that of the plan.
fn list_of(
    plan: &TransformerPlan,
    model: &ShardedTransformer,
    (chain, stage): (Chain, u32),
    visits: &[Visit],
    framework: &Framework,
) -> RankList {
    let count = parameters(model, chain, stage).total();
    let states = plan.execution.states.bytes(count, plan.sharding, plan.data);
    let throughout = [
        (kind::PARAMETERS, states.parameters),
        (kind::GRADIENTS, states.gradients),
        (kind::OPTIMIZER, states.optimizer),
        (kind::WORKSPACE, framework.workspace),
    ];
    let mut list = RankList { requests: Vec::new(), operators: Vec::new() };
    list.requests.extend(throughout.map(|(kind, bytes)| allocate(bytes, kind)));
    list.extend(
        &Walk::of(plan, model, (chain, stage), visits, framework.placeholder),
        throughout.len() as u32,
    );
    list
}

impl RankList {
    /// Appends the requests of a walk; `made` tensors have been allocated before.
    fn extend(&mut self, walk: &Walk, mut made: u32) {
        let Walk { steps, tensors, .. } = walk;
        let mut by_end: Vec<usize> = (0..tensors.len()).collect();
        by_end.sort_by_key(|&tensor| tensors[tensor].last_step);
        let (mut ending, mut numbers) = (by_end.into_iter().peekable(), Vec::with_capacity(tensors.len()));
        for (n, step) in steps.iter().enumerate() {
            let first = self.requests.len();
            while let Some(tensor) = tensors.get(numbers.len()).filter(|tensor| tensor.first_step == n) {
                self.requests.push(allocate(tensor.bytes, tensor.kind()));
                numbers.push(made);
                made += 1;
            }
            if step.workspace > 0 {
                self.requests.extend([allocate(step.workspace, kind::WORKSPACE), Request::Free(made)]);
                made += 1;
            }
            while let Some(tensor) = ending.next_if(|&tensor| tensors[tensor].last_step == n) {
                self.requests.push(Request::Free(numbers[tensor]));
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

/// All on the stream of the operators.
const fn allocate(bytes: u64, kind: &'static str) -> Request {
    Request::Allocate { bytes, stream: StreamNumber(0), kind }
}
