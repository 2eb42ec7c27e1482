//! The operator graph: operators and the storages they read and write, per stage, chunk and phase. It has no time and
//! no order; techniques that change *what* is executed act here.

use std::collections::BTreeMap;

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
        }
    }
}

/// An operator of an [`OpGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(pub u32);

/// A storage of an [`OpGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorageId(pub u32);

/// An operator; one execution per micro-batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
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
}

/// What a storage is for; it decides the kind its bytes count as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Saved by the forward pass and last read by the input gradient (or the fused backward).
    Activation,
    /// Saved by the forward pass and last read by the weight gradient.
    WeightGradientInput,
    /// What recomputation starts from.
    Checkpoint,
}

impl Purpose {
    /// The name used in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Activation => "activation",
            Self::WeightGradientInput => "activation kept for W",
            Self::Checkpoint => "checkpoint",
        }
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpGraph {
    ops: Vec<Op>,
    storages: Vec<Storage>,
    by_phase: BTreeMap<(u32, u32, Phase), OpId>,
}

impl OpGraph {
    /// Adds a storage.
    pub fn storage(&mut self, storage: Storage) -> StorageId {
        self.storages.push(storage);
        StorageId(self.storages.len() as u32 - 1)
    }

    /// Adds an operator; there is one per stage, chunk and phase.
    pub fn op(&mut self, op: Op) -> OpId {
        let id = OpId(self.ops.len() as u32);
        let earlier = self.by_phase.insert((op.stage, op.chunk, op.phase), id);
        debug_assert!(earlier.is_none(), "one operator per stage, chunk and phase");
        self.ops.push(op);
        id
    }

    /// The operators, indexed by [`OpId`].
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The storages, indexed by [`StorageId`].
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// The operator of a phase, if the graph has it.
    pub fn find(&self, stage: u32, chunk: u32, phase: Phase) -> Option<OpId> {
        self.by_phase.get(&(stage, chunk, phase)).copied()
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

    /// A storage, to rewrite.
    pub fn stored_mut(&mut self, storage: StorageId) -> &mut Storage {
        &mut self.storages[storage.0 as usize]
    }

    /// The storages an operator reads last: no later phase of the micro-batch reads them.
    pub fn last_read_by(&self, op: OpId) -> impl Iterator<Item = StorageId> + '_ {
        let Op { stage, chunk, phase, .. } = *self.get(op);
        let weight = self.find(stage, chunk, Phase::BackwardWeight).filter(|_| phase == Phase::BackwardInput);
        let reads = match phase {
            Phase::Forward | Phase::Recompute => &[],
            _ => self.get(op).reads.as_slice(),
        };
        reads.iter().copied().filter(move |s| weight.is_none_or(|w| !self.get(w).reads.contains(s)))
    }

    /// A storage in words, `activation of stage 3` (with the chunk where a stage has several).
    pub fn describe(&self, storage: StorageId) -> String {
        let Storage { stage, chunk, purpose, .. } = self.stored(storage);
        let chunks = self.by_phase.contains_key(&(*stage, 1, Phase::Forward));
        let of = if chunks { format!("chunk {chunk} of stage {stage}") } else { format!("stage {stage}") };
        format!("{} of {of}", purpose.name())
    }
}
