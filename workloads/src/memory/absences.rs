//! Storages that are away from a GPU between their uses (offload, swapping), as a run tells: where what returns waits for room
//! nothing else knows when it does.
//!
//! The host frees one that leaves when the forward pass is done with it; it is lent to the copy out until that has ended, for which the
//! allocator waits where memory is short. When its copy back begins it takes memory again, beside what an operator that is executed
//! then reads. One that nobody copies back has stayed.

use std::collections::BTreeMap;

use sim_core::time::Time;

use crate::graph::{OpId, StorageId};

use super::moves::Away;
use super::walk::{Slots, Stage, Tensor, TensorIndex, Walk};
use super::{Executed, Requester};

/// Copies of storages of a rank in a step, by what it computes meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absences {
    /// By operator and micro-batch, what has happened since the operator before it ended.
    before: BTreeMap<(OpId, u32), Vec<Passage>>,
    /// The same of what happens while it is executed.
    during: BTreeMap<(OpId, u32), Vec<Passage>>,
}

/// A moment in the absence of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// What is away.
    pub storage: StorageId,
    /// Whose it is.
    pub micro_batch: u32,
    /// Whether its copy back begins, rather than that its copy out has ended.
    pub returns: bool,
}

/// The execution of an operator by a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The operator.
    pub op: OpId,
    /// Whose it is.
    pub micro_batch: u32,
    /// When it begins.
    pub begin: Time,
    /// When it ends.
    pub end: Time,
}

impl Absences {
    /// Those of a rank that executes operators one after the other.
    pub fn new(mut executions: Vec<Execution>, mut passages: Vec<(Time, Passage)>) -> Self {
        executions.sort_by_key(|execution| execution.begin);
        passages.sort_by_key(|&(moment, _)| moment);
        let mut absences = Self::default();
        for (moment, passage) in passages {
            let next = executions.partition_point(|execution| execution.begin < moment);
            let executed = next.checked_sub(1).map(|before| executions[before]);
            let (at, execution) = match executed.filter(|executed| moment < executed.end) {
                Some(executed) => (&mut absences.during, executed),
                None if next < executions.len() => (&mut absences.before, executions[next]),
                None => break,
            };
            at.entry((execution.op, execution.micro_batch)).or_default().push(passage);
        }
        absences
    }

    /// What has happened before an operator begins, and what happens while it is executed.
    pub(super) fn around(&self, op: OpId, micro_batch: u32) -> [&[Passage]; 2] {
        [&self.before, &self.during].map(|at| at.get(&(op, micro_batch)).map_or(&[][..], Vec::as_slice))
    }
}

impl Walk {
    /// Lets storages go and return while `made` are the tensors of the visit that is executed, beside an operator that has `reads` and
    /// `workspace`.
    pub(super) fn pass(
        &mut self,
        stage: &Stage<'_>,
        passages: &[Passage],
        execution: Executed,
        (reads, workspace): (&[TensorIndex], u64),
        made: &mut Slots,
    ) {
        for &Passage { storage, micro_batch, returns } in passages {
            let Some((chunk, slot)) = stage.slot(storage) else { continue };
            let of_visit = (chunk, micro_batch) == (execution.chunk, execution.micro_batch);
            let slots = if of_visit { Some(&*made) } else { self.made.get(&(chunk, micro_batch)) };
            let Some(tensor) = slots.and_then(|slots| slots.get(slot)) else { continue };
            let Tensor { bytes, last_step: left, .. } = self.tensors[tensor];
            if !returns {
                self.tensors[tensor].copied_by = Some(self.steps.len() - 1);
                continue;
            }
            let copy = Executed { operator: Requester::Framework("copy back"), ..execution };
            let again = self.step(copy, workspace, reads, &[bytes])[0];
            self.returned.push(Away { before: tensor, after: Some(again), left });
            let slots = if of_visit { Some(&mut *made) } else { self.made.get_mut(&(chunk, micro_batch)) };
            if let Some(slots) = slots {
                slots.put(Some(slot), Some(again));
            }
        }
    }
}
