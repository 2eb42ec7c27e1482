//! Which operators a rank executes in a step, one after the other, and which tensors they fill and read.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::allocator::StreamNumber;

use crate::chain::Chain;
use crate::graph::operator::{Label, OperatorList};
use crate::graph::{OpGraph, Phase, StorageId};
use crate::model::transformer::GATHER_RECEIVED;
use crate::order::Visit;

use super::chunks::{Chunk, Listed, Slot, WeightGradient};
use super::exchanges::UnderWay;
use super::moves::{Away, Lending};
use super::ranks::Ranks;
use super::{Absences, COMPUTE, Executed, Placeholder, Requester};

/// The operators of a rank, and the tensors they fill in the order in which they do.
pub(super) struct Walk {
    /// Names of operators, by their ids.
    pub(super) names: Vec<Label>,
    pub(super) steps: Vec<Step>,
    /// How many of them are before each visit.
    pub(super) begun: Vec<usize>,
    pub(super) tensors: Vec<Tensor>,
    /// The tensors in the order in which they are freed.
    pub(super) by_end: Vec<TensorIndex>,
    /// By chunk and micro-batch, its tensors.
    pub(super) made: BTreeMap<(u32, u32), Slots>,
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
#[derive(Clone, Copy)]
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
    /// The step by which a copy has read it, if that is after its last.
    pub(super) copied_by: Option<usize>,
}

pub(super) type TensorIndex = usize;

/// The tensors of a chunk that have been made for a micro-batch.
pub(super) struct Slots(Vec<Option<TensorIndex>>);

impl Slots {
    pub(super) fn put(&mut self, slot: Option<Slot>, tensor: Option<TensorIndex>) {
        if let Some((slot, tensor)) = slot.zip(tensor) {
            self.0[slot] = Some(tensor);
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<TensorIndex> {
        self.0[slot]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TensorIndex> {
        self.0.iter_mut().flatten()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = TensorIndex> {
        self.0.iter().flatten().copied()
    }
}

/// Direction along the chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Forward,
    Backward,
}

/// What a rank is given.
pub(super) struct Stage<'a> {
    ranks: &'a Ranks,
    chain: Chain,
    chunks: Vec<Chunk>,
    absences: &'a Absences,
}

impl Stage<'_> {
    /// The chunk of a storage, and its slot there.
    pub(super) fn slot(&self, storage: StorageId) -> Option<(u32, Slot)> {
        let slots = (0..).zip(&self.chunks).map(|(number, chunk)| Some((number, chunk.slot(storage)?)));
        slots.flatten().next()
    }
}

impl Walk {
    pub(super) fn of(
        (ranks, graph): (&Ranks, &OpGraph),
        stage: u32,
        visits: &[Visit],
        (Lending { trips, bound, .. }, absences): (Lending<'_>, &Absences),
        placeholder: Placeholder,
    ) -> Self {
        let chain = ranks.chain;
        let chunks = (0..chain.chunks).map(|chunk| Chunk::of(&ranks.laid, graph, (stage, chunk)));
        let stage_of = Stage { ranks, chain, chunks: chunks.collect(), absences };
        let mut walk = Self {
            names: graph.operators().iter().map(|op| op.name.clone()).collect(),
            steps: Vec::new(),
            begun: Vec::with_capacity(visits.len()),
            tensors: Vec::new(),
            by_end: Vec::new(),
            made: BTreeMap::new(),
            passed: BTreeMap::new(),
            under_way: UnderWay::default(),
            away: BTreeMap::new(),
            returned: Vec::new(),
            placeholder,
            kept: BTreeSet::new(),
        };
        for (number, &visit) in (0..).zip(visits) {
            walk.begun.push(walk.steps.len());
            walk.visit(&stage_of, chain.position(stage, u32::from(visit.chunk)), visit);
            walk.end_exchanges();
            walk.travel(trips, bound as usize, number);
        }
        walk.arrive_home();
        // What is gathered ahead was noted late.
        if !walk.tensors.is_sorted_by_key(|tensor| tensor.first_step) {
            walk.tensors.sort_by_key(|tensor| tensor.first_step);
        }
        walk.by_end = by_end(&walk.tensors, walk.steps.len());
        walk
    }

    fn visit(&mut self, stage: &Stage<'_>, position: u32, visit: Visit) {
        let number = u32::from(visit.chunk);
        let chunk = &stage.chunks[visit.chunk as usize];
        let execution = Executed {
            operator: Requester::Framework("receive"),
            phase: visit.phase,
            chunk: number,
            block: 0,
            micro_batch: visit.micro_batch,
        };
        let key = (number, visit.micro_batch);
        let mut made = self.made.remove(&key).unwrap_or_else(|| Slots(vec![None; chunk.storages.len()]));
        match visit.phase {
            Phase::Forward => self.forward(stage, (chunk, position), execution, &mut made),
            Phase::Backward | Phase::BackwardInput => {
                self.backward(stage, (chunk, position), execution, &mut made);
            }
            Phase::BackwardWeight => {
                self.execute(stage, &chunk.visit(visit.phase).blocks, execution, &mut made);
            }
            Phase::Recompute | Phase::Accumulate | Phase::Update => {}
        }
        if !matches!(visit.phase, Phase::Backward | Phase::BackwardWeight) {
            self.made.insert(key, made);
        }
    }

    fn forward(
        &mut self,
        stage: &Stage<'_>,
        (chunk, position): (&Chunk, u32),
        execution: Executed,
        made: &mut Slots,
    ) {
        let input = if position == 0 {
            let load = Executed { operator: Requester::Framework("load tokens"), ..execution };
            Some(self.step(load, 0, &[], &[chunk.input_bytes])[0])
        } else {
            self.arrive(stage, Way::Forward, position, execution)
        };
        made.put(chunk.input, input);
        self.execute(stage, &chunk.visit(execution.phase).blocks, execution, made);
        let output = chunk.output.and_then(|output| made.get(output));
        self.leave(stage, Way::Forward, position, execution.micro_batch, output);
    }

    fn backward(
        &mut self,
        stage: &Stage<'_>,
        (chunk, position): (&Chunk, u32),
        execution: Executed,
        made: &mut Slots,
    ) {
        let visited = chunk.visit(execution.phase);
        let last = visited.blocks.first().map_or(0, |op| op.block);
        if position + 1 < stage.chain.positions() {
            let execution = Executed { block: last, ..execution };
            let gradient = self.arrive(stage, Way::Backward, position, execution);
            made.put(chunk.gradient, gradient);
        }
        self.execute(stage, &visited.blocks, execution, made);
        let gradient = chunk.input_gradient.and_then(|gradient| made.get(gradient));
        self.leave(stage, Way::Backward, position, execution.micro_batch, gradient);
        self.execute(stage, &visited.afterwards, execution, made);
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
        let OperatorList { tensors, operators } = &stage.ranks.receive;
        for op in operators {
            let bytes: Vec<u64> = op.writes.iter().map(|tensor| tensors[tensor.0 as usize].bytes).collect();
            let operator = Requester::Framework(GATHER_RECEIVED);
            let whole = self.step(Executed { operator, ..execution }, 0, &[arrived], &bytes);
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

    /// Executes operators one after the other.
    fn execute(&mut self, stage: &Stage<'_>, operators: &[Listed], visit: Executed, made: &mut Slots) {
        let shared = &stage.ranks.shared;
        for op in operators {
            let execution = Executed { block: op.block, ..visit };
            let [before, during] = stage.absences.around(op.op, visit.micro_batch);
            self.pass(stage, before, execution, (&[], 0), made);
            self.begin_exchanges(shared, op.op, execution);
            let phase = if op.is_recomputed { Phase::Recompute } else { visit.phase };
            let execution = Executed {
                operator: Requester::Operator { op: op.op, operator: op.operator },
                phase,
                ..execution
            };
            let reads = op.reads.iter().filter_map(|&slot| made.get(slot));
            let step = self.begin(execution, op.workspace, reads);
            let mut filled = None;
            match op.adds {
                Some(gradient) => self.add(gradient, step, execution),
                None => {
                    for &(slot, bytes) in &op.fills {
                        let tensor = self.note(bytes, step, execution);
                        filled = filled.or(Some(tensor));
                        made.put(Some(slot), Some(tensor));
                    }
                }
            }
            if !during.is_empty() {
                let reads: Vec<TensorIndex> = op.reads.iter().filter_map(|&slot| made.get(slot)).collect();
                self.pass(stage, during, execution, (&reads, op.workspace), made);
            }
            self.follow_exchanges(shared, op.op, execution, filled);
        }
    }

    /// Gives a product that adds to a sum, which fills nothing, its placeholder.
    fn add(&mut self, gradient: WeightGradient, step: usize, execution: Executed) {
        let WeightGradient { shape, bytes, of_layer } = gradient;
        match self.placeholder {
            Placeholder::None => {}
            Placeholder::Kept if of_layer => {
                if self.kept.insert(shape) {
                    let tensor = self.note(bytes, step, execution);
                    self.tensors[tensor].last_step = usize::MAX;
                }
            }
            Placeholder::Fresh | Placeholder::Kept => self.steps[step].workspace += bytes,
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
        let step = self.begin(execution, workspace, reads.iter().copied());
        fills.iter().map(|&bytes| self.note(bytes, step, execution)).collect()
    }

    /// Begins an operator that reads so much.
    fn begin(
        &mut self,
        execution: Executed,
        workspace: u64,
        reads: impl Iterator<Item = TensorIndex>,
    ) -> usize {
        let (step, visit, phase) = (self.steps.len(), self.visit_number(), execution.phase);
        self.steps.push(Step { execution, workspace });
        for read in reads {
            let tensor = &mut self.tensors[read];
            (tensor.last_step, tensor.last_visit, tensor.last_read_in) = (step, visit, phase);
        }
        step
    }

    /// The visit that is executed.
    fn visit_number(&self) -> u32 {
        self.begun.len() as u32 - 1
    }

    /// Notes a tensor that is filled at a step and, so far, read by none after.
    pub(super) fn note(&mut self, bytes: u64, step: usize, execution: Executed) -> TensorIndex {
        let visit = self.visit_number();
        self.tensors.push(Tensor {
            bytes,
            first_step: step,
            last_step: step,
            first_visit: visit,
            last_visit: visit,
            filled_in: execution.phase,
            last_read_in: execution.phase,
            kind: None,
            stream: COMPUTE,
            is_lent: false,
            copied_by: None,
        });
        self.tensors.len() - 1
    }
}

/// The tensors by their last step, of one step in their order; those that stay come last.
fn by_end(tensors: &[Tensor], steps: usize) -> Vec<TensorIndex> {
    let end = |tensor: &Tensor| tensor.last_step.min(steps);
    // Where those of each step begin.
    let mut next = vec![0; steps + 2];
    tensors.iter().for_each(|tensor| next[end(tensor) + 1] += 1);
    for step in 0..steps {
        next[step + 1] += next[step];
    }
    let mut by_end = vec![0; tensors.len()];
    for (index, tensor) in tensors.iter().enumerate() {
        let place = &mut next[end(tensor)];
        by_end[*place] = index;
        *place += 1;
    }
    by_end
}
