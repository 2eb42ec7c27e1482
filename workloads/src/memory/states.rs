//! Parameters, gradients and states of the optimizer tensor by tensor, in the order in which Megatron-LM allocates them
//! (`DistributedDataParallel`, `_ParamAndGradBuffer`, `DistributedOptimizer`, `Float16OptimizerWithFloat16Params`).
//!
//! Each parameter is a tensor when the model is made. Gradients are one buffer; where ranks share states of the optimizer
//! parameters are one, too, and the tensors that they were made in are freed. The optimizer then copies its part in fp32,
//! tensor by tensor. Its moments are allocated by its first update, in between what the first step has left of the
//! segments: that is why a training run holds more segments than tensors of a step need.

use crate::graph::Phase;
use crate::model::cut::{Cut, Piece};
use crate::model::transformer::{Sharding, States};
use crate::names::kind;

use super::{Executed, RankList};

/// What a rank holds of a model throughout.
pub(super) struct Held {
    /// Elements of its parameters, in the order of the model.
    parameters: Vec<u64>,
    states: States,
    sharding: Sharding,
    /// Ranks that share, and which of them it is.
    ranks: u32,
    rank: u32,
}

impl Held {
    /// What a rank of a stage that executes `pieces` holds, if it is `rank` of `ranks` that share.
    pub(super) fn of<'p>(
        cut: &Cut,
        pieces: impl Iterator<Item = &'p Piece>,
        (states, sharding): (States, Sharding),
        (rank, ranks): (u32, u32),
    ) -> Self {
        Self {
            parameters: pieces.flat_map(|piece| tensors(cut, piece)).collect(),
            states,
            sharding,
            ranks,
            rank,
        }
    }

    /// Elements of all parameters.
    fn count(&self) -> u64 {
        self.parameters.iter().sum()
    }

    /// Makes the model, its gradients and the optimizer.
    pub(super) fn make(&self, list: &mut RankList) {
        let bytes = self.states.parameter_bytes();
        let made: Vec<u32> =
            self.parameters.iter().map(|count| list.allocate(count * bytes, kind::PARAMETERS)).collect();
        if self.sharding >= Sharding::Optimizer {
            list.allocate(self.count() * bytes, kind::PARAMETERS);
        }
        list.allocate(self.count() * self.states.gradient_bytes(), kind::GRADIENTS);
        if self.sharding >= Sharding::Optimizer {
            made.into_iter().for_each(|tensor| list.free(tensor));
        }
        let copy = self.states.copy_bytes();
        for count in self.of_optimizer().filter(|_| copy > 0) {
            let short = list.allocate(count * bytes, kind::OPTIMIZER);
            list.allocate(count * copy, kind::OPTIMIZER);
            list.free(short);
        }
    }

    /// Updates the parameters for the first time, after the operators of a step.
    pub(super) fn update(&self, list: &mut RankList, micro_batch: u32) {
        let execution =
            Executed { operator: "first update", phase: Phase::Update, chunk: 0, block: 0, micro_batch };
        list.execute(execution);
        let rest = self.states.optimizer_bytes() - self.states.copy_bytes();
        // Moments are tensors of fp32, as is a copy of the gradient.
        for count in self.of_optimizer() {
            for _ in 0..rest / 4 {
                list.allocate(4 * count, kind::OPTIMIZER);
            }
        }
    }

    /// Elements of the parameters, or parts of them, that the optimizer of this rank updates: all, or its even share of the
    /// buffer, which has the parameters in reverse.
    fn of_optimizer(&self) -> impl Iterator<Item = u64> {
        let share = self.count().div_ceil(u64::from(self.ranks.max(1)));
        let (from, to) = match self.sharding {
            Sharding::None => (0, u64::MAX),
            _ => (share * u64::from(self.rank), share * (u64::from(self.rank) + 1)),
        };
        let mut end = self.count();
        let parts = self.parameters.iter().map(move |count| {
            // Counted from the end of the model.
            end -= count;
            (end + count).min(to).saturating_sub(end.max(from))
        });
        parts.filter(|&count| count > 0)
    }
}

/// Elements of the parameters of a piece: weights of its products in the order of the forward pass, and the rest.
fn tensors(cut: &Cut, piece: &Piece) -> Vec<u64> {
    let mut left = piece.owned;
    let backward = cut.blocks[piece.block].backward.iter().rev();
    let weights = backward.filter(|op| op.phase == Phase::BackwardWeight).filter_map(|op| op.work.weights());
    let mut tensors: Vec<u64> = Vec::new();
    for count in weights {
        // A tied embedding belongs to the embedding.
        if count <= left {
            tensors.push(count);
            left -= count;
        }
    }
    tensors.extend((left > 0).then_some(left));
    tensors
}
