//! Parameters, gradients and states of the optimizer tensor by tensor, in the order in which Megatron-LM allocates them
//! (`DistributedDataParallel`, `_ParamAndGradBuffer`, `DistributedOptimizer`, `Float16OptimizerWithFloat16Params`).
//!
//! Each parameter is a tensor when the model is made. Gradients are one buffer; where ranks share states of the optimizer
//! parameters are one, too, and the tensors that they were made in are freed. The optimizer then copies its part in fp32,
//! tensor by tensor. Its moments are allocated by its first update, in between what the first step has left of the
//! segments: that is why a training run holds more segments than tensors of a step need.

use crate::graph::Phase;
use crate::model::cut::{Cut, Piece};
use crate::model::transformer::{DataParallel, Group, GroupedGemm, Sharding, States, Work};
use crate::names::kind;

use super::{Executed, RankList};

/// What a rank holds of a model throughout.
pub(super) struct Held {
    /// Parameters but for experts that ranks share, and those.
    buffers: [Buffer; 2],
    states: States,
    sharding: Sharding,
}

/// Parameters that the same ranks hold, or share.
struct Buffer {
    /// Elements of each, in the order of the model.
    parameters: Vec<u64>,
    /// How many ranks that are, and which of them it is.
    ranks: u32,
    rank: u32,
}

impl Held {
    /// What rank `rank` of those of `data` holds on a stage that executes `pieces`.
    pub(super) fn of<'p>(
        cut: &Cut,
        pieces: impl Iterator<Item = &'p Piece>,
        states: States,
        data: &DataParallel,
        rank: u32,
    ) -> Self {
        let (mut others, mut experts) = (Vec::new(), Vec::new());
        for piece in pieces {
            tensors(cut, piece, &mut others, &mut experts);
        }
        let buffer = |parameters, group| {
            let ranks = data.holding(group);
            Buffer { parameters, ranks, rank: rank / (data.ranks / ranks).max(1) }
        };
        let buffers = [buffer(others, Group::Data), buffer(experts, Group::ExpertData)];
        Self { buffers, states, sharding: data.sharding }
    }

    /// Makes the model, its gradients and the optimizer.
    pub(super) fn make(&self, list: &mut RankList) {
        let bytes = self.states.parameter_bytes();
        let parameters = self.buffers.iter().flat_map(|buffer| &buffer.parameters);
        let made: Vec<u32> = parameters.map(|count| list.allocate(count * bytes, kind::PARAMETERS)).collect();
        for buffer in self.buffers.iter().filter(|buffer| buffer.count() > 0) {
            if self.sharding >= Sharding::Optimizer {
                list.allocate(buffer.count() * bytes, kind::PARAMETERS);
            }
            list.allocate(buffer.count() * self.states.gradient_bytes(), kind::GRADIENTS);
        }
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

    /// Elements of the parameters, or parts of them, that the optimizer of this rank updates.
    fn of_optimizer(&self) -> impl Iterator<Item = u64> {
        self.buffers.iter().flat_map(|buffer| buffer.of_optimizer(self.sharding))
    }
}

impl Buffer {
    /// Elements of all parameters.
    fn count(&self) -> u64 {
        self.parameters.iter().sum()
    }

    /// What the optimizer of this rank updates: all, or its even share of the buffer, which has the parameters in reverse.
    fn of_optimizer(&self, sharding: Sharding) -> impl Iterator<Item = u64> {
        let share = self.count().div_ceil(u64::from(self.ranks));
        let (from, to) = match sharding {
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

/// Adds the elements of the parameters of a piece: weights of its products in the order of the forward pass, and the rest.
/// Each expert has tensors of its own.
fn tensors(cut: &Cut, piece: &Piece, others: &mut Vec<u64>, experts: &mut Vec<u64>) {
    let mut left = piece.owned;
    let backward = cut.blocks[piece.block].backward.iter().rev();
    for op in backward.filter(|op| op.phase == Phase::BackwardWeight) {
        // A tied embedding belongs to the embedding.
        let Some(count) = op.work.weights().filter(|&count| count <= left) else { continue };
        left -= count;
        match op.work {
            Work::Grouped(GroupedGemm { groups }) => {
                let of_group = if piece.experts > 0 { &mut *experts } else { &mut *others };
                of_group.extend((0..groups.batch).map(|_| count / groups.batch));
            }
            _ => others.push(count),
        }
    }
    others.extend((left > 0).then_some(left));
}
