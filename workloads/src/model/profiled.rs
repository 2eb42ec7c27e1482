//! A pipeline known from a profile: times and sizes per stage, nothing about what is inside.

use sim_core::fixed::Rate;
use sim_core::time::Time;

use crate::chain::Chain;
use crate::cost::{CostBook, Message, OpCost};
use crate::graph::block::Block;
use crate::graph::cut::{Cut, LayerPlace, PartKind, Piece};
use crate::graph::handed::Handed;
use crate::graph::operator::{Label, Operator, OperatorList, Tensor, TensorId, Work};
use crate::graph::{OpGraph, Phase};
use crate::model::laid::lay;
use crate::names::kind;
use crate::schedule::StageMemory;

/// Profiled times and sizes of the stages of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledPipeline {
    /// One per stage.
    pub stages: Vec<StageProfile>,
    /// Bytes of a stage's device that the pipeline may use (memory less what is reserved); none: unlimited.
    pub capacity: Option<u64>,
}

/// What one stage needs per micro-batch, and holds. With several chunks per stage, times and bytes are split evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageProfile {
    /// Forward pass.
    pub forward: Time,
    /// Gradient of the stage's input.
    pub backward_input: Time,
    /// Gradient of the stage's weights.
    pub backward_weight: Time,
    /// A message to the next stage (for the last stage: to the first, with interleaved chunks), and its gradient back.
    pub transfer: Time,
    /// Forward pass again, from what recomputation keeps; none: as long as `forward`.
    pub recompute: Option<Time>,
    /// Bytes held from the forward pass to the end of the backward pass.
    pub activation: u64,
    /// Bytes of those that the weight gradient needs after the input gradient, where the two are separate operations;
    /// none: 16/17 of `activation`. That is 32 of 34 s b h, what the two gradients of a transformer layer need without
    /// attention scores (Qi et al. 2024, section 3.2; with scores kept it is less, so this errs on the safe side).
    pub activation_kept_for_weight: Option<u64>,
    /// Bytes held throughout: weights, gradients, optimizer states.
    pub weights: u64,
}

impl StageProfile {
    /// Bytes the weight gradient keeps of one micro-batch.
    pub fn kept_for_weight(&self) -> u64 {
        let default = u128::from(self.activation) * 16 / 17;
        self.activation_kept_for_weight.unwrap_or(default as u64)
    }
}

impl ProfiledPipeline {
    /// A block for every chunk of `chain`; with `split_backward` the input and the weight gradient
    /// are two operators.
    pub fn cut(&self, chain: Chain, split_backward: bool) -> Cut {
        let mut cut = Cut::default();
        for position in 0..chain.positions() {
            let (stage, chunk) = (chain.stage(position), chain.chunk(position));
            let profile = &self.stages[stage as usize];
            let share = |bytes| part(bytes, chunk, chain.chunks);
            let op = |phase: Phase, reads: &[TensorId], writes: &[TensorId]| Operator {
                reads: reads.to_vec(),
                writes: writes.to_vec(),
                ..Operator::of(phase.name(), phase, Work::Opaque { stage, chunk })
            };
            let [input, activation, for_weight] = [0, 1, 2].map(TensorId);
            let (all, kept) = (share(profile.activation), share(profile.kept_for_weight()));
            let (saved, bytes, backward) = if split_backward {
                let saved = vec![activation, for_weight];
                let gradients =
                    [op(Phase::BackwardInput, &saved, &[]), op(Phase::BackwardWeight, &[for_weight], &[])];
                (saved, [0, all.saturating_sub(kept), kept], gradients.to_vec())
            } else {
                (vec![activation], [0, all, 0], vec![op(Phase::Backward, &[activation], &[])])
            };
            let names = ["input", "activation", "activation kept for W"].map(Label::Borrowed);
            let tensors = names.into_iter().zip(bytes).map(|(name, bytes)| Tensor { name, bytes }).collect();
            let block = cut.block(Block {
                tensors,
                input,
                output: None,
                output_gradient: None,
                input_gradient: None,
                forward: vec![op(Phase::Forward, &[], &saved)],
                backward,
                middle: None,
                handed: Handed::default(),
            });
            let (kind, layer) = (PartKind::Layer, Some(LayerPlace::default()));
            cut.positions.push(vec![Piece { kind, block, layer, owned: 0, trained: 0, read: 0, experts: 0 }]);
        }
        cut
    }

    /// The memory of the stages.
    pub fn memory(&self) -> Vec<StageMemory> {
        let capacity = self.capacity.unwrap_or(u64::MAX);
        let memory = |stage: &StageProfile| {
            let persistent = vec![(kind::WEIGHTS, stage.weights)];
            StageMemory {
                fragments: 0,
                capacity,
                persistent,
                hosted: Vec::new(),
                exchanged: Vec::new(),
                locked: None,
                on_drives: Vec::new(),
                rows: 0,
                resident_bound: None,
                waits: false,
            }
        };
        self.stages.iter().map(memory).collect()
    }

    /// The durations of a graph's operators (after techniques have rewritten it), all of them opaque, and of messages.
    pub fn costs(&self, chain: Chain, graph: &OpGraph) -> CostBook {
        let duration = |op: &Operator| {
            let Work::Opaque { stage, chunk } = op.work else { return Time::ZERO };
            let profile = &self.stages[stage as usize];
            let share = |time: Time| Time(part(time.0, chunk, chain.chunks));
            match op.phase {
                Phase::Forward => share(profile.forward),
                Phase::BackwardInput => share(profile.backward_input),
                Phase::BackwardWeight => share(profile.backward_weight),
                Phase::Backward => share(profile.backward_input) + share(profile.backward_weight),
                Phase::Recompute => share(profile.recompute.unwrap_or(profile.forward)),
                Phase::Accumulate | Phase::Update => Time::ZERO,
            }
        };
        CostBook {
            kinds: vec![0; self.stages.len()],
            operators: vec![graph.operators().iter().map(|op| OpCost::Lasting(duration(op))).collect()],
            speeds: Vec::new(),
            messages: self.stages.iter().map(|stage| Message::lasting(stage.transfer)).collect(),
            copies: vec![Rate::UNLIMITED; self.stages.len()],
            tier_copies: vec![Default::default()],
            host_links: Vec::new(),
            issue: None,
        }
    }
}

/// The operators of blocks of a profile on the positions of `chain`.
pub fn graph(blocks: &Cut, chain: Chain, split_backward: bool) -> OpGraph {
    lay(blocks, chain, split_backward, &OperatorList::default(), |_| OperatorList::default()).graph
}

/// The share of chunk `chunk` when `total` is split into `chunks` parts that differ by at most one and add up.
fn part(total: u64, chunk: u32, chunks: u32) -> u64 {
    let until = |n: u32| (u128::from(total) * u128::from(n) / u128::from(chunks)) as u64;
    until(chunk + 1) - until(chunk)
}
