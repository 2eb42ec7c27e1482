//! Which operators a rank executes in a step, one after the other, and which tensors they fill and read.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::allocator::StreamNumber;

use crate::chain::Chain;
use crate::disposition::Trip;
use crate::graph::{OpId, Phase};
use crate::model::cut::Piece;
use crate::model::transformer::{Block, Gemm, GroupedGemm, Operator, Work};
use crate::order::Visit;

use super::exchanges::UnderWay;
use super::moves::Away;
use super::ranks::Ranks;
use super::{COMPUTE, Executed, Placeholder};

/// The operators of a rank, and the tensors they fill in the order in which they do.
pub(super) struct Walk {
    pub(super) steps: Vec<Step>,
    pub(super) tensors: Vec<Tensor>,
    visits: u32,
    /// By chunk and micro-batch, the tensor behind every name of every block.
    pub(super) named: BTreeMap<(u32, u32), Vec<Names>>,
    /// What one chunk leaves for the next one on the same rank, by that one's position and micro-batch.
    passed: BTreeMap<(Way, u32, u32), TensorIndex>,
    pub(super) under_way: UnderWay,
    /// By micro-batch, what is with the partner.
    pub(super) away: BTreeMap<u32, Vec<Away>>,
    /// What has been.
    pub(super) returned: Vec<Away>,
    placeholder: Placeholder,
    /// Shapes of weights that have a placeholder.
    kept: BTreeSet<(u64, u64)>,
}

/// An operator.
pub(super) struct Step {
    pub(super) execution: Executed,
    pub(super) workspace: u64,
}

/// A tensor, from the operator that fills it to the last that reads it.
pub(super) struct Tensor {
    pub(super) bytes: u64,
    pub(super) first_step: usize,
    pub(super) last_step: usize,
    pub(super) first_visit: u32,
    pub(super) last_visit: u32,
    pub(super) filled_in: Phase,
    pub(super) last_read_in: Phase,
    /// What its bytes count as, where that does not follow from who reads it.
    pub(super) kind: Option<&'static str>,
    pub(super) stream: StreamNumber,
    /// Whether the allocator waits for the device to be done with it.
    pub(super) is_lent: bool,
}

pub(super) type Names = BTreeMap<&'static str, TensorIndex>;
pub(super) type TensorIndex = usize;

/// Direction along the chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Forward,
    Backward,
}

/// What a rank is given.
struct Stage<'a> {
    ranks: &'a Ranks,
    stage: u32,
    chain: Chain,
    /// Blocks of each chunk.
    chunks: Vec<Vec<&'a Lists>>,
}

/// A block and the parts of its backward pass.
struct Lists {
    block: Block,
    backward_input: Vec<Operator>,
    backward_weight: Vec<Operator>,
}

impl Walk {
    pub(super) fn of(
        ranks: &Ranks,
        stage: u32,
        visits: &[Visit],
        (trips, bound): (&[Trip], u32),
        placeholder: Placeholder,
    ) -> Self {
        let chain = ranks.chain;
        let lists: Vec<Lists> = ranks.cut.blocks.iter().cloned().map(Lists::of).collect();
        let of_chunk = |pieces: &[Piece]| pieces.iter().map(|piece| &lists[piece.block]).collect();
        let stage_of = Stage { ranks, stage, chain, chunks: ranks.pieces(stage).map(of_chunk).collect() };
        let mut walk = Self {
            steps: Vec::new(),
            tensors: Vec::new(),
            visits: 0,
            named: BTreeMap::new(),
            passed: BTreeMap::new(),
            under_way: UnderWay::default(),
            away: BTreeMap::new(),
            returned: Vec::new(),
            placeholder,
            kept: BTreeSet::new(),
        };
        for &visit in visits {
            walk.visit(&stage_of, chain.position(stage, u32::from(visit.chunk)), visit);
            walk.end_exchanges();
            walk.travel(trips, bound as usize, walk.visits);
            walk.visits += 1;
        }
        walk.arrive_home();
        // What is gathered ahead was noted late.
        walk.tensors.sort_by_key(|tensor| tensor.first_step);
        walk
    }

    fn visit(&mut self, stage: &Stage<'_>, position: u32, visit: Visit) {
        let chunk = u32::from(visit.chunk);
        let blocks = &stage.chunks[visit.chunk as usize];
        let execution = Executed {
            operator: "receive",
            phase: visit.phase,
            chunk,
            block: 0,
            micro_batch: visit.micro_batch,
        };
        let key = (chunk, visit.micro_batch);
        let mut names = self.named.remove(&key).unwrap_or_else(|| vec![Names::new(); blocks.len()]);
        match visit.phase {
            Phase::Forward => self.forward(stage, position, execution, &mut names),
            Phase::Backward | Phase::BackwardInput => self.backward(stage, position, execution, &mut names),
            Phase::BackwardWeight => {
                for (n, lists) in blocks.iter().enumerate().rev() {
                    let execution = Executed { block: n as u32, ..execution };
                    self.execute(stage, &lists.block, (&lists.backward_weight, 0), execution, &mut names[n]);
                }
            }
            Phase::Recompute | Phase::Accumulate | Phase::Update => {}
        }
        if !matches!(visit.phase, Phase::Backward | Phase::BackwardWeight) {
            self.named.insert(key, names);
        }
    }

    fn forward(&mut self, stage: &Stage<'_>, position: u32, execution: Executed, names: &mut [Names]) {
        let blocks = &stage.chunks[execution.chunk as usize];
        let mut input = if position == 0 {
            let tokens = blocks.first().map_or(0, |first| first.block.input.bytes);
            Some(self.step(Executed { operator: "load tokens", ..execution }, 0, &[], &[tokens])[0])
        } else {
            self.arrive(stage, Way::Forward, position, execution)
        };
        for (n, Lists { block, .. }) in blocks.iter().enumerate() {
            names[n].extend(input.map(|input| (block.input.name, input)));
            let execution = Executed { block: n as u32, ..execution };
            self.execute(stage, block, (&block.forward, 0), execution, &mut names[n]);
            input = block.output().and_then(|output| names[n].get(output.name).copied());
        }
        self.leave(stage, Way::Forward, position, execution.micro_batch, input);
    }

    fn backward(&mut self, stage: &Stage<'_>, position: u32, execution: Executed, names: &mut [Names]) {
        let blocks = &stage.chunks[execution.chunk as usize];
        let is_last = position + 1 == stage.chain.positions();
        let last = blocks.len().saturating_sub(1) as u32;
        let execution = Executed { block: last, ..execution };
        let mut gradient =
            if is_last { None } else { self.arrive(stage, Way::Backward, position, execution) };
        for (n, lists) in blocks.iter().enumerate().rev() {
            names[n].extend(lists.block.output_gradient.zip(gradient));
            let list = lists.backward(execution.phase);
            let until = list.len() - lists.block.afterwards();
            let execution = Executed { block: n as u32, ..execution };
            self.execute(stage, &lists.block, (&list[..until], 0), execution, &mut names[n]);
            let result = lists.block.input_gradient();
            gradient = result.and_then(|result| names[n].get(result.name).copied());
        }
        self.leave(stage, Way::Backward, position, execution.micro_batch, gradient);
        for (n, lists) in blocks.iter().enumerate() {
            let list = lists.backward(execution.phase);
            let execution = Executed { block: n as u32, ..execution };
            let from = list.len() - lists.block.afterwards();
            self.execute(stage, &lists.block, (list, from), execution, &mut names[n]);
        }
    }

    /// What comes from the neighbour position: a message, made whole, or what another chunk of the rank has left.
    fn arrive(
        &mut self,
        stage: &Stage<'_>,
        way: Way,
        position: u32,
        execution: Executed,
    ) -> Option<TensorIndex> {
        let lower = if way == Way::Forward { position - 1 } else { position };
        if stage.chain.hop(lower).is_none() {
            return self.passed.remove(&(way, position, execution.micro_batch));
        }
        let bytes = stage.ranks.boundaries[stage.chain.stage(lower) as usize];
        let mut arrived = self.step(execution, 0, &[], &[bytes])[0];
        for op in &stage.ranks.receive {
            let bytes: Vec<u64> = op.writes.iter().map(|tensor| tensor.bytes).collect();
            let whole = self.step(Executed { operator: op.name, ..execution }, 0, &[arrived], &bytes);
            arrived = whole.first().copied().unwrap_or(arrived);
        }
        Some(arrived)
    }

    /// Leaves the result of a position for the next one, if that is on the same rank; else it has been sent.
    fn leave(
        &mut self,
        stage: &Stage<'_>,
        way: Way,
        position: u32,
        micro_batch: u32,
        result: Option<TensorIndex>,
    ) {
        let next = if way == Way::Forward { Some(position + 1) } else { position.checked_sub(1) };
        let lower = if way == Way::Forward { Some(position) } else { next };
        if let (Some(next), Some(lower), Some(result)) = (next, lower, result)
            && stage.chain.hop(lower).is_none()
        {
            self.passed.insert((way, next, micro_batch), result);
        }
    }

    /// Executes a list of a block, beginning with an operator of it.
    fn execute(
        &mut self,
        stage: &Stage<'_>,
        block: &Block,
        (operators, from): (&[Operator], usize),
        execution: Executed,
        names: &mut Names,
    ) {
        let shared = &stage.ranks.shared;
        let first = shared.first((stage.stage, execution.chunk), execution.block, execution.phase);
        for (n, op) in (0u32..).zip(operators).skip(from) {
            let id = first.map(|first| OpId(first.0 + n));
            self.begin_exchanges(shared, id, execution);
            let reads: Vec<TensorIndex> =
                op.reads.iter().filter_map(|name| names.get(name).copied()).collect();
            let bytes: Vec<u64> = op.writes.iter().map(|tensor| tensor.bytes).collect();
            let phase = if op.phase == Phase::Recompute { Phase::Recompute } else { execution.phase };
            let execution = Executed { operator: op.name, phase, ..execution };
            let filled = match op.work {
                Work::Gemm(gemm) | Work::Grouped(GroupedGemm { groups: gemm })
                    if gemm.accumulate.is_some() =>
                {
                    self.accumulate(block, &gemm, execution, op.workspace, &reads)
                }
                _ => self.step(execution, op.workspace, &reads, &bytes),
            };
            self.follow_exchanges(shared, id, execution, &filled);
            names.extend(op.writes.iter().map(|tensor| tensor.name).zip(filled));
        }
    }

    /// Executes a product that adds to a sum, which fills nothing, with its placeholder.
    fn accumulate(
        &mut self,
        block: &Block,
        gemm: &Gemm,
        execution: Executed,
        workspace: u64,
        reads: &[TensorIndex],
    ) -> Vec<TensorIndex> {
        let bytes = gemm.m * gemm.n * gemm.dtype.bytes();
        let of_layer = block.output_gradient.is_some();
        match self.placeholder {
            Placeholder::None => self.step(execution, workspace, reads, &[]),
            Placeholder::Kept if of_layer => {
                let fills = self.kept.insert((gemm.m, gemm.n)).then_some(bytes);
                for tensor in self.step(execution, workspace, reads, fills.as_slice()) {
                    self.tensors[tensor].last_step = usize::MAX;
                }
                Vec::new()
            }
            Placeholder::Fresh | Placeholder::Kept => self.step(execution, workspace + bytes, reads, &[]),
        }
    }

    /// Executes an operator; returns what it fills.
    pub(super) fn step(
        &mut self,
        execution: Executed,
        workspace: u64,
        reads: &[TensorIndex],
        fills: &[u64],
    ) -> Vec<TensorIndex> {
        let (step, visit, phase) = (self.steps.len(), self.visits, execution.phase);
        self.steps.push(Step { execution, workspace });
        for &read in reads {
            let tensor = &mut self.tensors[read];
            (tensor.last_step, tensor.last_visit, tensor.last_read_in) = (step, visit, phase);
        }
        fills.iter().map(|&bytes| self.note(bytes, step, execution)).collect()
    }

    /// Notes a tensor that is filled at a step and, so far, read by none after.
    pub(super) fn note(&mut self, bytes: u64, step: usize, execution: Executed) -> TensorIndex {
        self.tensors.push(Tensor {
            bytes,
            first_step: step,
            last_step: step,
            first_visit: self.visits,
            last_visit: self.visits,
            filled_in: execution.phase,
            last_read_in: execution.phase,
            kind: None,
            stream: COMPUTE,
            is_lent: false,
        });
        self.tensors.len() - 1
    }
}

impl Lists {
    fn of(block: Block) -> Self {
        let (backward_input, backward_weight) = (block.backward_input(), block.backward_weight());
        Self { block, backward_input, backward_weight }
    }

    /// What a visit of a backward pass executes.
    fn backward(&self, phase: Phase) -> &[Operator] {
        if phase == Phase::BackwardInput { &self.backward_input } else { &self.block.backward }
    }
}
