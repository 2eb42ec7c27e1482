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
mod alike;
mod chunks;
mod driver;
mod exchanges;
mod lent;
mod moves;
mod ranks;
mod recorded;
mod shared;
mod states;
mod step_list;
mod usage;
mod walk;

use hw_models::allocator::{Request, StreamNumber};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::operator::Label;
use crate::graph::{OpId, OperatorId, Phase};

pub use absences::{Absences, Execution, Passage};
pub use driver::OperatorCalls;
pub use ranks::Ranks;
pub use recorded::Recorded;
use step_list::StepList;
pub use usage::{NotReplayed, StageUsage};

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
    /// Where each step begins.
    steps: Vec<usize>,
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

/// Memory that autograd gets in place of a weight gradient already added to its sum; nobody reads
/// it.
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
    Operator {
        /// Where it is in the graph.
        op: OpId,
        /// Its work.
        operator: OperatorId,
    },
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
            Requester::Operator { operator: OperatorId(id), .. } => self.names[id as usize].clone(),
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

    /// Appends a step, at whose first time it takes what it keeps for good.
    fn append(&mut self, StepList { list: step, stay, .. }: &StepList, is_first: bool) {
        let (begin, made) = (self.requests.len(), self.made);
        self.steps.push(begin);
        self.requests.extend(step.requests.iter().map(|&request| match request {
            Request::Allocate { .. } => request,
            Request::Free(tensor) => Request::Free(made + tensor),
            Request::Lend(tensor) => Request::Lend(made + tensor),
            Request::Done(tensor) => Request::Done(made + tensor),
        }));
        for stays in stay.iter().filter(|_| !is_first) {
            if let Request::Allocate { bytes, .. } = &mut self.requests[begin + stays] {
                *bytes = 0;
            }
        }
        self.operators.extend(step.operators.iter().map(|&(first, executed)| (begin + first, executed)));
        self.names.clone_from(&step.names);
        self.made += step.made;
    }
}
