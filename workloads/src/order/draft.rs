//! A step drafted on a clock of its own, for heuristics that choose the order by what would happen next.

use std::collections::VecDeque;

use sim_core::time::Time;

use super::{Order, Shape, Visit};
use crate::graph::Phase;

/// Durations and sizes as a heuristic knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// One per position of the chain.
    pub chunks: Vec<ChunkTiming>,
    /// Bytes of activations that each stage may hold.
    pub limit: Vec<u64>,
}

/// What one micro-batch needs at one position of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkTiming {
    /// Forward pass.
    pub forward: Time,
    /// Input gradient, with what is recomputed before it.
    pub backward_input: Time,
    /// Weight gradient.
    pub backward_weight: Time,
    /// Message to the next position, and its gradient back; zero on the same stage.
    pub message: Time,
    /// Bytes held from the forward pass on.
    pub activation: u64,
    /// Bytes held from the input to the weight gradient.
    pub kept_for_weight: u64,
}

/// What to do with a weight gradient when it is longer than the gap it would fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overfill {
    /// Leave the gap.
    Never,
    /// Fill it if leaving it would make this the stage with most idle time.
    IfWorst,
    /// Fill it.
    Always,
}

/// The drafted part of a step: every stage's clock, memory and visits so far.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    pub(super) shape: Shape,
    pub(super) timing: &'a Timing,
    stages: Vec<StageDraft>,
    /// Micro-batches done by each position: forward, input gradient, weight gradient.
    done: [Vec<u32>; 3],
    /// When each forward and each input gradient ended, by position and micro-batch.
    ends: [Vec<Time>; 2],
    most_idle: Time,
    /// Idle time a stage may have without being the worst, from an earlier attempt.
    allowance: Vec<Time>,
}

#[derive(Clone, Debug, Default)]
struct StageDraft {
    start: Time,
    clock: Time,
    idle: Time,
    memory: u64,
    visits: Vec<Visit>,
    /// Chunks whose weight gradient is still to be done, in the order of their input gradients.
    pending: VecDeque<u32>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(shape: Shape, timing: &'a Timing) -> Self {
        let positions = shape.chain.positions() as usize;
        let instances = positions * shape.micro_batches as usize;
        Self {
            shape,
            timing,
            stages: vec![StageDraft::default(); shape.stages() as usize],
            done: std::array::from_fn(|_| vec![0; positions]),
            ends: std::array::from_fn(|_| vec![Time::ZERO; instances]),
            most_idle: Time::ZERO,
            allowance: vec![Time::ZERO; shape.stages() as usize],
        }
    }

    /// A fresh draft in which stages may be idle as long as it did not make them the worst here.
    pub(super) fn retry(&self) -> Self {
        let allowance = self.stages.iter().map(|stage| self.most_idle.saturating_sub(stage.idle)).collect();
        Self { allowance, ..Self::new(self.shape, self.timing) }
    }

    /// Forwards done by a stage's chunk.
    pub(super) fn forwards(&self, stage: u32, chunk: u32) -> u32 {
        self.done[0][self.position(stage, chunk)]
    }

    /// Input gradients done by a stage's chunk.
    pub(super) fn backwards(&self, stage: u32, chunk: u32) -> u32 {
        self.done[1][self.position(stage, chunk)]
    }

    pub(super) fn clock(&self, stage: u32) -> Time {
        self.stages[stage as usize].clock
    }

    pub(super) fn memory(&self, stage: u32) -> u64 {
        self.stages[stage as usize].memory
    }

    /// How much more idle time a stage may have before it is the worst.
    pub(super) fn slack(&self, stage: u32) -> Time {
        let most = self.most_idle.max(self.allowance[stage as usize]);
        most.saturating_sub(self.stages[stage as usize].idle)
    }

    /// The longest of the stages' own spans, from first start to last end.
    pub(super) fn cost(&self) -> Time {
        self.stages.iter().map(|stage| stage.clock.saturating_sub(stage.start)).max().unwrap_or_default()
    }

    /// When the input of a chunk's next forward or input gradient is there; none if that is not known yet, or if all
    /// are done.
    pub(super) fn arrival(&self, stage: u32, phase: Phase, chunk: u32) -> Option<Time> {
        let position = self.position(stage, chunk);
        let kind = usize::from(phase == Phase::BackwardInput);
        let next = self.done[kind][position];
        let end = |kind: usize, position: usize| {
            (self.done[kind][position] > next).then(|| self.ends[kind][self.instance(position, next)])
        };
        let hop = |from: usize| self.timing.chunks[from].message;
        if next == self.shape.micro_batches {
            return None;
        }
        match phase {
            Phase::Forward if position == 0 => Some(Time::ZERO),
            Phase::Forward => end(0, position - 1).map(|t| t.saturating_add(hop(position - 1))),
            _ if position + 1 == self.done[1].len() => end(0, position),
            _ => end(1, position + 1).map(|t| t.saturating_add(hop(position))),
        }
    }

    /// Whether a stage has room for a forward or an input gradient of the chunk. (A gradient needs room where what it
    /// reads is recomputed, and the weight gradient then keeps more than the forward pass did.)
    pub(super) fn fits(&self, stage: u32, phase: Phase, chunk: u32) -> bool {
        let ChunkTiming { activation, kept_for_weight, .. } = self.at(stage, chunk);
        let needed = match phase {
            Phase::Forward => activation,
            _ => kept_for_weight.saturating_sub(activation),
        };
        self.memory(stage).saturating_add(needed) <= self.timing.limit[stage as usize]
    }

    /// Does weight gradients until a forward or an input gradient of the chunk fits; whether it does in the end.
    pub(super) fn make_room(&mut self, stage: u32, phase: Phase, chunk: u32) -> bool {
        while !self.fits(stage, phase, chunk) && self.place_weight(stage) {}
        self.fits(stage, phase, chunk)
    }

    /// Does weight gradients until `arrival`.
    pub(super) fn fill(&mut self, stage: u32, arrival: Time, overfill: Overfill) {
        while let Some(&chunk) = self.stages[stage as usize].pending.front() {
            let weight = self.at(stage, chunk).backward_weight;
            let clock = self.clock(stage);
            let gap = arrival.saturating_sub(clock);
            if clock.saturating_add(weight) <= arrival {
                self.place_weight(stage);
                continue;
            }
            let worst = overfill == Overfill::IfWorst && gap > self.slack(stage);
            if gap > Time::ZERO && (worst || overfill == Overfill::Always) {
                self.place_weight(stage);
            }
            return;
        }
    }

    /// Does all weight gradients that are due.
    pub(super) fn flush_weights(&mut self, stage: u32) {
        while self.place_weight(stage) {}
    }

    /// Does the next forward or input gradient of a chunk, whose input must be known to arrive.
    pub(super) fn place(&mut self, stage: u32, phase: Phase, chunk: u32) {
        let arrival = self.arrival(stage, phase, chunk).expect("only visits with a known input are placed");
        let position = self.position(stage, chunk);
        let timing = self.timing.chunks[position];
        let (kind, duration) = match phase {
            Phase::Forward => (0, timing.forward),
            _ => (1, timing.backward_input),
        };
        let micro_batch = self.done[kind][position];
        let instance = self.instance(position, micro_batch);
        let at = &mut self.stages[stage as usize];
        let start = at.clock.max(arrival);
        if at.visits.is_empty() {
            at.start = start;
        } else {
            at.idle += start - at.clock;
            self.most_idle = self.most_idle.max(at.idle);
        }
        at.clock = start.saturating_add(duration);
        if phase == Phase::Forward {
            at.memory = at.memory.saturating_add(timing.activation);
        } else {
            at.memory = at.memory.saturating_sub(timing.activation).saturating_add(timing.kept_for_weight);
            at.pending.push_back(chunk);
        }
        at.visits.push(Visit::new(phase, chunk, micro_batch));
        self.ends[kind][instance] = at.clock;
        self.done[kind][position] += 1;
    }

    /// Does the oldest weight gradient that is due; whether there was one.
    pub(super) fn place_weight(&mut self, stage: u32) -> bool {
        let Some(chunk) = self.stages[stage as usize].pending.pop_front() else { return false };
        let position = self.position(stage, chunk);
        let timing = self.timing.chunks[position];
        let at = &mut self.stages[stage as usize];
        at.clock = at.clock.saturating_add(timing.backward_weight);
        at.memory = at.memory.saturating_sub(timing.kept_for_weight);
        at.visits.push(Visit::new(Phase::BackwardWeight, chunk, self.done[2][position]));
        self.done[2][position] += 1;
        true
    }

    /// The order drafted.
    pub(super) fn into_order(self) -> Order {
        Order { shape: self.shape, stages: self.stages.into_iter().map(|stage| stage.visits).collect() }
    }

    /// What a stage's chunk needs.
    pub(super) fn at(&self, stage: u32, chunk: u32) -> ChunkTiming {
        self.timing.chunks[self.position(stage, chunk)]
    }

    fn position(&self, stage: u32, chunk: u32) -> usize {
        self.shape.chain.position(stage, chunk) as usize
    }

    fn instance(&self, position: usize, micro_batch: u32) -> usize {
        position * self.shape.micro_batches as usize + micro_batch as usize
    }
}
