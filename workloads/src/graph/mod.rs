//! The operator graph: operators and the storages they read and write, per stage, chunk and phase. It has no time and
//! no order; techniques that change *what* is executed act here.

pub mod block;
pub mod cut;
pub mod handed;
pub mod math;
pub mod module;
pub mod operator;
pub mod part;
mod rematerialize;
pub mod tier;

use std::collections::BTreeMap;

use self::operator::Operator;
use crate::names::kind;

/// What an operator does for a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Forward pass (F).
    Forward,
    /// Gradient of the chunk's input (B); the previous chunk waits for nothing else.
    BackwardInput,
    /// Gradient of the chunk's weights (W).
    BackwardWeight,
    /// Both gradients in one (BW).
    Backward,
    /// Forward pass again, for what was not kept.
    Recompute,
    /// For every micro-batch but the first: sums that more is added to are fetched.
    Accumulate,
    /// Once per step, after the last micro-batch: sums of gradients, optimizer.
    Update,
}

impl Phase {
    /// The name used in blocks, timelines and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::BackwardInput => "backward input",
            Self::BackwardWeight => "backward weight",
            Self::Backward => "backward",
            Self::Recompute => "recompute",
            Self::Accumulate => "accumulate",
            Self::Update => "update",
        }
    }

    /// True if gradients are computed in it.
    pub const fn is_backward(self) -> bool {
        matches!(self, Self::BackwardInput | Self::BackwardWeight | Self::Backward)
    }
}

/// An operator of an [`OpGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(pub u32);

/// An [`Operator`] that operators of an [`OpGraph`] are executions of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperatorId(pub u32);

/// A storage of an [`OpGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorageId(pub u32);

/// An operator; one execution per micro-batch. The operators of one stage, chunk and phase are a *visit*: they run one
/// after the other, in the order in which they were added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its work, which equal layers share.
    pub operator: OperatorId,
    /// Stage it runs on.
    pub stage: u32,
    /// Chunk of that stage.
    pub chunk: u32,
    /// What it does.
    pub phase: Phase,
    /// Storages of the same micro-batch that must be resident.
    pub reads: Vec<StorageId>,
    /// Storages it fills.
    pub writes: Vec<StorageId>,
    /// Operators of its visit that follow and run beside it: it is a collective whose result is waited for after them.
    pub beside: u32,
    /// Whether the host issues what follows when it is done.
    pub awaited: bool,
}

impl Op {
    /// The storages that it reads and fills.
    pub fn uses(&self) -> impl Iterator<Item = &StorageId> {
        self.reads.iter().chain(&self.writes)
    }
}

/// What a storage is for; it decides the kind its bytes count as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Saved by the forward pass and last read by the input gradient (or the fused backward).
    Activation,
    /// Saved by the forward pass and last read by the weight gradient.
    WeightGradientInput,
    /// Parameters gathered from the ranks that share them.
    Gathered,
    /// Gradients of one micro-batch that are not summed over ranks yet.
    Unreduced,
    /// Filled and read in one pass.
    Working,
    /// What an operator needs beside, while it is executed.
    Workspace,
    /// The same, filled by what is executed again.
    Recomputed,
}

impl Purpose {
    /// The name used in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Activation => "activation",
            Self::WeightGradientInput => "activation kept for W",
            Self::Gathered => "gathered parameters",
            Self::Unreduced => "gradients to be reduced",
            Self::Working | Self::Workspace => "workspace",
            Self::Recomputed => "recomputed tensor",
        }
    }

    /// Whether it lives within one pass.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Working | Self::Workspace | Self::Recomputed)
    }

    /// Whether a forward pass leaves it for the backward pass of its micro-batch.
    pub const fn is_activation(self) -> bool {
        matches!(self, Self::Activation | Self::WeightGradientInput)
    }
}

/// Bytes with one instance per micro-batch in flight. (What a stage holds throughout has no storage: it is never
/// allocated, freed or moved.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Stage that produces it.
    pub stage: u32,
    /// Chunk of that stage.
    pub chunk: u32,
    /// What it is for.
    pub purpose: Purpose,
    /// Size of one instance.
    pub bytes: u64,
}

/// Operators and storages of all stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpGraph {
    ops: Vec<Op>,
    operators: Vec<Operator>,
    storages: Vec<Storage>,
    /// By storage, whether it arrives filled, by what comes before a visit.
    arriving: Vec<bool>,
    visits: BTreeMap<(u32, u32, Phase), Vec<OpId>>,
}

impl OpGraph {
    /// Adds a storage.
    pub fn storage(&mut self, storage: Storage) -> StorageId {
        self.storages.push(storage);
        self.arriving.push(false);
        StorageId(self.storages.len() as u32 - 1)
    }

    /// Adds a storage that arrives filled before the first operator that writes it, which merely takes it in.
    pub fn arriving(&mut self, storage: Storage) -> StorageId {
        let id = self.storage(storage);
        self.arriving[id.0 as usize] = true;
        id
    }

    /// Adds work that operators may have. Its tensors are numbered by the block that it comes from.
    pub fn work(&mut self, operator: Operator) -> OperatorId {
        self.operators.push(operator);
        OperatorId(self.operators.len() as u32 - 1)
    }

    /// Adds an operator, the last of its visit.
    pub fn op(&mut self, op: Op) -> OpId {
        self.op_of(op.phase, op)
    }

    /// Adds an operator, the last of the visit of another phase: what is recomputed in a backward pass.
    pub fn op_of(&mut self, phase: Phase, op: Op) -> OpId {
        let visit = (op.stage, op.chunk, phase);
        let id = self.op_beside_visits(op);
        self.visits.entry(visit).or_default().push(id);
        id
    }

    /// Adds an operator to the visit of another, right before it.
    fn op_before(&mut self, before: OpId, phase: Phase, op: Op) -> OpId {
        let visit = (op.stage, op.chunk, phase);
        let id = self.op_beside_visits(op);
        let ops = self.visits.entry(visit).or_default();
        let at = ops.iter().position(|&other| other == before).unwrap_or(ops.len());
        ops.insert(at, id);
        id
    }

    /// Adds an operator of no visit: it runs on a lane of its own ([`crate::exchange`]).
    pub fn op_beside_visits(&mut self, op: Op) -> OpId {
        self.ops.push(op);
        OpId(self.ops.len() as u32 - 1)
    }

    /// The operators, indexed by [`OpId`].
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The work of all operators, indexed by [`OperatorId`].
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// The work of an operator.
    pub fn operator(&self, op: OpId) -> &Operator {
        self.work_of(self.get(op))
    }

    /// The work that an operator names.
    pub fn work_of(&self, op: &Op) -> &Operator {
        &self.operators[op.operator.0 as usize]
    }

    /// The storages, indexed by [`StorageId`].
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// The operators of a visit, in order; none if the graph does not have it.
    pub fn visit(&self, stage: u32, chunk: u32, phase: Phase) -> &[OpId] {
        self.visits.get(&(stage, chunk, phase)).map_or(&[], Vec::as_slice)
    }

    /// All visits, each a stage, a chunk and a phase.
    pub fn visits(&self) -> impl Iterator<Item = ((u32, u32, Phase), &[OpId])> {
        self.visits.iter().map(|(&visit, ops)| (visit, ops.as_slice()))
    }

    /// An operator.
    pub fn get(&self, op: OpId) -> &Op {
        &self.ops[op.0 as usize]
    }

    /// An operator, to rewrite.
    pub fn get_mut(&mut self, op: OpId) -> &mut Op {
        &mut self.ops[op.0 as usize]
    }

    /// A storage.
    pub fn stored(&self, storage: StorageId) -> &Storage {
        &self.storages[storage.0 as usize]
    }

    /// Whether a storage is filled by what comes before a visit.
    pub fn arrives(&self, storage: StorageId) -> bool {
        self.arriving[storage.0 as usize]
    }

    /// A storage, to rewrite.
    pub fn stored_mut(&mut self, storage: StorageId) -> &mut Storage {
        &mut self.storages[storage.0 as usize]
    }

    /// Per operator of a visit, the storages that it uses last: no later operator of the micro-batch reads them, and what is
    /// there for one pass may be read by none.
    pub fn last_uses(&self) -> Vec<Vec<StorageId>> {
        let mut last: Vec<Option<OpId>> = vec![None; self.storages.len()];
        for phase in [Phase::Forward, Phase::Backward, Phase::BackwardInput, Phase::BackwardWeight] {
            for (_, ops) in self.visits.iter().filter(|((.., of), _)| *of == phase) {
                for &op in ops {
                    let Op { reads, writes, .. } = self.get(op);
                    let passing = writes.iter().filter(|&&storage| self.stored(storage).purpose.is_passing());
                    for storage in reads.iter().chain(passing) {
                        last[storage.0 as usize] = Some(op);
                    }
                }
            }
        }
        let mut uses = vec![Vec::new(); self.ops.len()];
        for (storage, op) in (0u32..).zip(last) {
            if let Some(op) = op {
                uses[op.0 as usize].push(StorageId(storage));
            }
        }
        uses
    }

    /// The word for the bytes of a storage in the memory of its own stage.
    pub fn kind(&self, storage: StorageId) -> &'static str {
        match self.stored(storage).purpose {
            Purpose::WeightGradientInput => kind::FOR_WEIGHT_GRADIENTS,
            Purpose::Activation => kind::ACTIVATIONS,
            Purpose::Gathered => kind::GATHERED,
            Purpose::Unreduced => kind::UNREDUCED,
            Purpose::Working | Purpose::Workspace => kind::WORKSPACE,
            Purpose::Recomputed => kind::RECOMPUTED,
        }
    }

    /// A storage in words, `activation of stage 3` (with the chunk where a stage has several).
    pub fn describe(&self, storage: StorageId) -> String {
        let Storage { stage, chunk, purpose, .. } = self.stored(storage);
        let chunks = !self.visit(*stage, 1, Phase::Forward).is_empty();
        let of = if chunks { format!("chunk {chunk} of stage {stage}") } else { format!("stage {stage}") };
        format!("{} of {of}", purpose.name())
    }
}
