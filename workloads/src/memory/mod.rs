//! The tensors of a rank, one by one, as an eager framework allocates and frees them in the order of its host: what the
//! caching allocator ([`hw_models::allocator`]) makes of them is the memory that the rank needs.
//!
//! A tensor is allocated by the operator that fills it and freed after the last one that reads it, as autograd does with
//! what it saves: during a backward pass memory shrinks layer by layer. The lists of operators say who reads what; the
//! order of a stage says which micro-batches are under way. Parameters, sums of gradients, states of the optimizer and
//! the workspace of matrix products stay; states of the optimizer come in two parts. A product that adds a weight
//! gradient to its sum leaves autograd a [`Placeholder`] for it.
//!
//! What ranks share is gathered and summed in tensors of their own; what is with another stage for a while is not there.

mod absences;
mod chunks;
mod exchanges;
mod lent;
mod moves;
mod ranks;
mod recorded;
mod shared;
mod states;
mod usage;
mod walk;

use std::collections::BTreeMap;

use hw_models::allocator::{Request, StreamNumber};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::operator::Label;
use crate::graph::{OperatorId, Phase};
use crate::names::kind;

pub use absences::{Absences, Execution, Passage};
use lent::Lending;
pub use ranks::Ranks;
pub use recorded::Recorded;
pub use usage::{NotReplayed, StageUsage};
use walk::{Tensor, Walk};

/// The stream of the operators.
const COMPUTE: StreamNumber = StreamNumber(0);
/// The stream on which parameters are gathered.
const GATHERS: StreamNumber = StreamNumber(1);

/// What a rank asks of its allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankList {
    /// The requests, in the order of the host.
    pub requests: Vec<Request>,
    /// The first request of each operator that makes any, ascending.
    operators: Vec<(usize, Executed)>,
    /// Names of operators, by [`OperatorId`].
    names: Vec<Label>,
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

/// Memory that autograd is given for a weight gradient which a product has added to its sum over
/// micro-batches; nobody reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "GradientPlaceholders")]
pub enum Placeholder {
    /// Nothing (Megatron-LM up to 2022).
    #[default]
    None,
    /// New memory each time, freed at once (layers of Megatron-LM).
    // `LinearWithGradAccumulationAndAsyncCommunication`.
    Fresh,
    /// One for each shape of weights, for good (Transformer Engine).
    // `get_dummy_wgrad`; that of the logits, which are a layer of Megatron-LM, is new each time.
    Kept,
}

/// Source of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// An operator of the graph.
    Operator(OperatorId),
    /// A step of the framework between operators.
    Framework(&'static str),
}

/// An operator in execution, known by its source or by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed<By = Requester> {
    /// The operator.
    pub operator: By,
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
    pub fn executing(&self, request: usize) -> Option<Executed<Label>> {
        let after = self.operators.partition_point(|&(first, _)| first <= request);
        let (_, Executed { operator, phase, chunk, block, micro_batch }) =
            self.operators[after.checked_sub(1)?];
        let operator = match operator {
            Requester::Operator(OperatorId(id)) => self.names[id as usize].clone(),
            Requester::Framework(name) => Label::Borrowed(name),
        };
        Some(Executed { operator, phase, chunk, block, micro_batch })
    }
}

impl RankList {
    /// Asks for a tensor, on the stream of the operators.
    fn allocate(&mut self, bytes: u64, kind: &'static str) -> u32 {
        self.allocate_on(COMPUTE, bytes, kind)
    }

    fn allocate_on(&mut self, stream: StreamNumber, bytes: u64, kind: &'static str) -> u32 {
        self.requests.push(Request::Allocate { bytes, stream, kind });
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
    fn step(&mut self, walk: &Walk, recorded: &Recorded, is_first: bool) {
        let Walk { names, steps, tensors, by_end, .. } = walk;
        self.names.clone_from(names);
        self.requests.reserve(2 * tensors.len());
        self.operators.reserve(steps.len());
        let mut lending = Lending::new(recorded);
        let (mut ending, mut numbers) =
            (by_end.iter().copied().peekable(), Vec::with_capacity(tensors.len()));
        // By step, what copies have read by then.
        let mut copied: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (n, step) in steps.iter().enumerate() {
            let first = self.requests.len();
            while let Some(tensor) = tensors.get(numbers.len()).filter(|tensor| tensor.first_step == n) {
                let bytes = if is_first || tensor.last_step < usize::MAX { tensor.bytes } else { 0 };
                if tensor.is_lent {
                    self.requests.extend(lending.done(tensor.stream));
                }
                numbers.push(self.allocate_on(tensor.stream, bytes, tensor.kind()));
                if tensor.is_lent {
                    self.requests.push(Request::Lend(self.made - 1));
                }
            }
            if step.workspace > 0 {
                let workspace = self.allocate(step.workspace, kind::WORKSPACE);
                self.free(workspace);
            }
            while let Some(tensor) = ending.next_if(|&tensor| tensors[tensor].last_step == n) {
                let (number, Tensor { stream, is_lent, copied_by, .. }) = (numbers[tensor], tensors[tensor]);
                if let Some(copied_by) = copied_by.filter(|&copied_by| copied_by > n) {
                    self.requests.push(Request::Lend(number));
                    copied.entry(copied_by).or_default().push(number);
                }
                self.free(number);
                if is_lent {
                    lending.free(stream, number);
                }
            }
            self.requests.extend(copied.remove(&n).into_iter().flatten().map(Request::Done));
            if self.requests.len() > first {
                self.operators.push((first, step.execution));
            }
        }
        self.requests.extend(lending.end());
    }
}

impl Tensor {
    /// What its bytes count as.
    fn kind(&self) -> &'static str {
        let follows = match (self.first_visit == self.last_visit, self.filled_in, self.last_read_in) {
            (true, Phase::Recompute, _) => kind::RECOMPUTED,
            (true, ..) => kind::WORKSPACE,
            (false, _, Phase::BackwardWeight) => kind::FOR_WEIGHT_GRADIENTS,
            (false, ..) => kind::ACTIVATIONS,
        };
        self.kind.unwrap_or(follows)
    }
}
