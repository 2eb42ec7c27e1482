//! Parameters, gradients and states of the optimizer tensor by tensor, in the order in which
//! frameworks allocate them.
//!
//! Each parameter is a tensor when the model is made. In Megatron-LM (`DistributedDataParallel`,
//! `_ParamAndGradBuffer`, `DistributedOptimizer`, `Float16OptimizerWithFloat16Params`) gradients
//! are one buffer; where ranks share states of the optimizer parameters are one, too, and the
//! tensors that they were made in are freed. In PyTorch gradients are tensors, with buckets beside
//! them where sums run beside backward passes. Where ranks share parameters every rank has its
//! part of each (`fully_shard`). The optimizer then copies its part in fp32, tensor by tensor. Its
//! moments are allocated by its first update, in between what the first step has left of the
//! segments: that is why a training run holds more segments than tensors of a step need.
//!
//! Where hosts keep the states of the optimizer the GPU has none of them. Gradients that leave in
//! every backward pass have no sums there, parameters that are away no tensors between passes
//! (`model::hosted`).

use crate::graph::Phase;
use crate::graph::cut::{Cut, Piece};
use crate::host_update::HostedStates;
use crate::model::transformer::{Group, GroupedGemm, Sharding, StateBytes, States, Step, Work};
use crate::names::kind;

use super::ranks::{Gradients, Ranks};
use super::{Executed, RankList, Requester};

/// What a rank holds of a model throughout.
pub(super) struct Held<'a> {
    /// Parameters but for experts that ranks share, and those.
    buffers: [Buffer; 2],
    /// Bytes of buckets that gradients are copied to.
    buckets: &'a [u64],
    states: States,
    moments: u64,
    step: Step,
    sharding: Sharding,
    gradients: Gradients,
    /// States that hosts keep. `None`: the GPU keeps all.
    hosted: Option<HostedStates>,
}

/// Parameters that the same ranks hold, or share.
struct Buffer {
    /// Elements of each that is trained, in the order of the model.
    parameters: Vec<u64>,
    /// Elements of those that are not, block by block.
    frozen: Vec<u64>,
    /// How many ranks that are, and which of them it is.
    ranks: u32,
    rank: u32,
}

impl<'a> Held<'a> {
    /// What rank `copy` of those that hold the same parameters holds on a stage.
    pub(super) fn of(ranks: &'a Ranks, stage: u32, copy: u32) -> Self {
        let Ranks { cut, data, states, step, moments, gradients, .. } = ranks;
        let (mut others, mut experts) = (Vec::new(), Vec::new());
        let [mut frozen, mut frozen_experts] = [Vec::new(), Vec::new()];
        for piece in ranks.pieces(stage).flatten() {
            tensors(cut, piece, &mut others, &mut experts);
            if piece.trained < piece.owned {
                frozen.push(piece.owned - piece.trained - piece.experts);
                frozen_experts.push(piece.experts);
            }
        }
        let buffer = |parameters, frozen, group| {
            let ranks = data.holding(group);
            let rank = if group == Group::Shard { copy % ranks } else { copy / (data.ranks / ranks).max(1) };
            Buffer { parameters, frozen, ranks, rank }
        };
        let others = buffer(others, frozen, data.sharers());
        Self {
            buffers: [others, buffer(experts, frozen_experts, Group::ExpertData)],
            buckets: &ranks.buckets[stage as usize],
            states: *states,
            moments: *moments,
            step: *step,
            // What a step without a backward pass is without cannot be shared.
            sharding: if *step == Step::Forward { Sharding::None } else { data.sharding },
            gradients: *gradients,
            hosted: data.hosted,
        }
    }

    /// Bytes of parameters, gradients and states of the optimizer on the GPU.
    pub(super) fn bytes(&self) -> [u64; 3] {
        let mut bytes = [0, self.buckets.iter().sum(), 0];
        for buffer in &self.buffers {
            let held = self.held(buffer);
            bytes[0] += held.parameters;
            bytes[1] += held.gradients;
            bytes[2] += held.optimizer;
        }
        bytes[2] += self.pages().sum::<u64>();
        bytes
    }

    /// Makes the model, its gradients and the optimizer.
    pub(super) fn make(&self, list: &mut RankList) {
        for count in self.buffers.iter().flat_map(|buffer| buffer.frozen(self.sharding)) {
            list.allocate(count * self.states.parameter_bytes(), kind::PARAMETERS);
        }
        match (self.sharding, self.gradients) {
            (Sharding::Parameters, _) | (Sharding::None, Gradients::Tensors) => self.make_tensors(list),
            _ if !self.has_parameters() => self.make_tensors(list),
            _ => self.make_buffers(list),
        }
        for &bytes in self.buckets {
            list.allocate(bytes, kind::GRADIENTS);
        }
        for bytes in self.pages() {
            list.allocate(bytes, kind::OPTIMIZER);
        }
        let (bytes, copy) = (self.states.parameter_bytes(), self.states.copy_bytes());
        for count in
            self.of_optimizer().map(|count| self.updated(count)).filter(|&count| copy > 0 && count > 0)
        {
            let short = list.allocate(count * bytes, kind::OPTIMIZER);
            list.allocate(count * copy, kind::OPTIMIZER);
            list.free(short);
        }
    }

    /// Parameters and gradients, or the rank's part of each, as tensors.
    fn make_tensors(&self, list: &mut RankList) {
        let [parameters, gradients] = [self.states.parameter_bytes(), self.states.gradient_bytes()];
        for count in self.of_optimizer().filter(|_| self.has_parameters()) {
            list.allocate(count * parameters, kind::PARAMETERS);
        }
        let summed = self.of_optimizer().map(|count| self.summed(count));
        for count in summed.filter(|&count| count > 0 && self.step != Step::Forward) {
            list.allocate(count * gradients, kind::GRADIENTS);
        }
    }

    /// Parameters and gradients as buffers: Megatron-LM copies parameters to theirs on the device,
    /// ZeRO-2 (DeepSpeed, `stage_1_and_2.py`) takes them to the host before.
    fn make_buffers(&self, list: &mut RankList) {
        let bytes = self.states.parameter_bytes();
        let parameters = self.buffers.iter().flat_map(|buffer| &buffer.parameters);
        let mut made: Vec<u32> =
            parameters.map(|count| list.allocate(count * bytes, kind::PARAMETERS)).collect();
        if self.sharding == Sharding::Gradients {
            made.drain(..).for_each(|tensor| list.free(tensor));
        }
        for buffer in self.buffers.iter().filter(|buffer| buffer.count() > 0) {
            if self.sharding >= Sharding::Optimizer {
                list.allocate(buffer.count() * bytes, kind::PARAMETERS);
            }
            list.allocate(self.held(buffer).gradients, kind::GRADIENTS);
        }
        if self.sharding == Sharding::Optimizer {
            made.into_iter().for_each(|tensor| list.free(tensor));
        }
    }

    /// Bytes of a buffer that the GPU of the rank holds.
    fn held(&self, buffer: &Buffer) -> StateBytes {
        let all = self.states.bytes(buffer.count(), self.sharding, buffer.ranks).of_step(self.step);
        let optimizer = self.updated(all.optimizer / self.states.optimizer_bytes());
        let frozen = buffer.frozen(self.sharding).sum::<u64>() * self.states.parameter_bytes();
        StateBytes {
            parameters: if self.has_parameters() { all.parameters + frozen } else { 0 },
            gradients: self.summed(all.gradients),
            optimizer: optimizer * (self.states.copy_bytes() + self.moments),
        }
    }

    /// Whether parameters are on the GPU between passes.
    fn has_parameters(&self) -> bool {
        !self.hosted.is_some_and(|hosted| hosted.parameters.are_away())
    }

    /// Gradients of `count` whose sums are on the GPU.
    fn summed(&self, count: u64) -> u64 {
        self.hosted.filter(|hosted| hosted.beside).map_or(count, |hosted| count - hosted.on_host(count))
    }

    /// Parameters of `count` that the GPU updates, whose states it keeps.
    fn updated(&self, count: u64) -> u64 {
        let here = self.hosted.map_or(count, |hosted| count - hosted.on_host(count));
        if self.step == Step::Whole { here } else { 0 }
    }

    /// Bytes of buffers for states that come for their update.
    fn pages(&self) -> impl Iterator<Item = u64> {
        let updating = self.step == Step::Whole;
        let hosted = self.hosted.filter(|hosted| hosted.pages && updating).into_iter();
        hosted.flat_map(|hosted| {
            let shared: u64 = self.of_optimizer().map(|count| hosted.on_host(count)).sum();
            let mut left = hosted.buffered(shared);
            let each = self.states.copy_bytes() + self.moments;
            (0..hosted.buffers).map_while(move |_| {
                let group = left.min(hosted.group);
                left -= group;
                (group > 0).then_some(group * each)
            })
        })
    }

    /// Updates the parameters for the first time, after the operators of a step that does.
    pub(super) fn update(&self, list: &mut RankList, micro_batch: u32) {
        // Moments are tensors of fp32, as is a copy of the gradient.
        let moments = self.of_optimizer().map(|count| self.updated(count)).filter(|&count| count > 0);
        let moments: Vec<u64> = moments.collect();
        if moments.is_empty() {
            return;
        }
        let execution = Executed {
            operator: Requester::Framework("first update"),
            phase: Phase::Update,
            chunk: 0,
            block: 0,
            micro_batch,
        };
        list.execute(execution);
        for count in moments {
            for _ in 0..self.moments / 4 {
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

    /// Elements that are not trained, of each block: all of them, or the rank's part.
    fn frozen(&self, sharding: Sharding) -> impl Iterator<Item = u64> {
        let of_each = if sharding == Sharding::Parameters { u64::from(self.ranks) } else { 1 };
        let parts = self.frozen.iter().map(move |count| count.div_ceil(of_each));
        parts.filter(|&count| count > 0)
    }

    /// What the optimizer of this rank updates: all, its part of every parameter, or its even
    /// share of the buffer, which has the parameters in reverse.
    fn of_optimizer(&self, sharding: Sharding) -> impl Iterator<Item = u64> {
        let ranks = u64::from(self.ranks);
        let share = self.count().div_ceil(ranks);
        let (from, to) = match sharding {
            Sharding::None | Sharding::Parameters => (0, u64::MAX),
            Sharding::Optimizer | Sharding::Gradients => {
                (share * u64::from(self.rank), share * (u64::from(self.rank) + 1))
            }
        };
        let of_each = if sharding == Sharding::Parameters { ranks } else { 1 };
        let mut end = self.count();
        let parts = self.parameters.iter().map(move |count| {
            // Counted from the end of the model.
            end -= count;
            (end + count).min(to).saturating_sub(end.max(from)).div_ceil(of_each)
        });
        parts.filter(|&count| count > 0)
    }
}

/// Adds the elements of the parameters of a piece: weights of its products and convolutions in the
/// order of the forward pass, and the rest. Each expert has tensors of its own.
fn tensors(cut: &Cut, piece: &Piece, others: &mut Vec<u64>, experts: &mut Vec<u64>) {
    let mut left = piece.trained;
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
