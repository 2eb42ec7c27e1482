//! A pipeline known from a profile: times and sizes per stage, nothing about what is inside.

use sim_core::fixed::Rate;
use sim_core::time::Time;

use crate::chain::Chain;
use crate::cost::{CostBook, Message, OpCost};
use crate::graph::operator::{Operator, Work};
use crate::graph::{OpGraph, Phase, Purpose, Storage};
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
    /// The operators of the chunks of `chain`; with `split_backward` the input and the weight gradient are two.
    pub fn graph(&self, chain: Chain, split_backward: bool) -> OpGraph {
        let mut graph = OpGraph::default();
        for (stage, profile) in (0u32..).zip(&self.stages) {
            for chunk in 0..chain.chunks {
                let share = |bytes| part(bytes, chunk, chain.chunks);
                let mut save = |purpose, bytes| graph.storage(Storage { stage, chunk, purpose, bytes });
                let (saved, kept) = if split_backward {
                    let (all, kept) = (share(profile.activation), share(profile.kept_for_weight()));
                    let activation = save(Purpose::Activation, all.saturating_sub(kept));
                    let for_weight = save(Purpose::WeightGradientInput, kept);
                    (vec![activation, for_weight], vec![for_weight])
                } else {
                    (vec![save(Purpose::Activation, share(profile.activation))], Vec::new())
                };
                let mut op = |phase, reads, writes| graph.opaque((stage, chunk), phase, [reads, writes]);
                op(Phase::Forward, Vec::new(), saved.clone());
                if split_backward {
                    op(Phase::BackwardInput, saved, Vec::new());
                    op(Phase::BackwardWeight, kept, Vec::new());
                } else {
                    op(Phase::Backward, saved, Vec::new());
                }
            }
        }
        graph
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
            operators: graph.operators().iter().map(|op| OpCost::Lasting(duration(op))).collect(),
            speeds: Vec::new(),
            messages: self.stages.iter().map(|stage| Message::lasting(stage.transfer)).collect(),
            copies: vec![Rate::UNLIMITED; self.stages.len()],
            tier_copies: Default::default(),
            host_links: Vec::new(),
            issue: None,
        }
    }
}

/// The share of chunk `chunk` when `total` is split into `chunks` parts that differ by at most one and add up.
fn part(total: u64, chunk: u32, chunks: u32) -> u64 {
    let until = |n: u32| (u128::from(total) * u128::from(n) / u128::from(chunks)) as u64;
    until(chunk + 1) - until(chunk)
}
