//! Operators of a forward pass, executed again in the backward pass. What they fill again is not
//! saved for it.

use std::collections::BTreeMap;

use super::block::Block;
use super::operator::{Operator, Tensor, TensorId};
use super::{Op, OpGraph, OpId, Phase, Purpose, Storage, StorageId};

impl Block {
    /// Executes `operators` of the forward pass again, right before the operator `before` of the
    /// backward pass. From there on it reads what they fill, but for tensors that it has read
    /// earlier: those are saved anyway.
    pub fn rematerialize(&mut self, operators: impl IntoIterator<Item = usize>, before: usize) {
        let mut filled: BTreeMap<TensorId, TensorId> = BTreeMap::new();
        let mut again = Vec::new();
        for op in operators.into_iter().map(|n| &self.forward[n]) {
            let current = |id: &TensorId| filled.get(id).copied().unwrap_or(*id);
            let reads = op.reads.iter().map(current).collect();
            for &id in &op.writes {
                filled.entry(id).or_insert_with(|| {
                    self.tensors.push(self.tensors[id.0 as usize].clone());
                    TensorId(self.tensors.len() as u32 - 1)
                });
            }
            let writes = op.writes.iter().map(|id| filled[id]).collect();
            again.push(Operator { phase: Phase::Recompute, reads, writes, ..op.clone() });
        }
        let (earlier, later) = self.backward.split_at_mut(before);
        for id in earlier.iter().flat_map(|op| &op.reads) {
            if let Some(unread) = filled.remove(id) {
                let Tensor { name, .. } = &mut self.tensors[unread.0 as usize];
                *name = format!("{name} again").into();
            }
        }
        for id in later.iter_mut().flat_map(|op| &mut op.reads) {
            *id = filled.get(id).copied().unwrap_or(*id);
        }
        self.backward.splice(before..before, again);
    }
}

impl OpGraph {
    /// Executes the operator `by` of a forward pass again, right before the operator `before` of
    /// the backward pass. The latter reads what is filled then: `storage` no longer lives from pass
    /// to pass.
    pub fn rematerialize(&mut self, storage: StorageId, by: OpId, before: OpId) {
        let Storage { stage, chunk, bytes, .. } = *self.stored(storage);
        self.stored_mut(storage).purpose = Purpose::Working;
        let filled = self.storage(Storage { stage, chunk, purpose: Purpose::Recomputed, bytes });
        for op in self.visit(stage, chunk, Phase::Backward).to_vec() {
            for read in self.get_mut(op).reads.iter_mut().filter(|read| **read == storage) {
                *read = filled;
            }
        }
        let mut writes = vec![filled];
        for workspace in self.get(by).writes.clone().into_iter().filter(|&other| other != storage) {
            writes.push(self.storage(self.stored(workspace).clone()));
        }
        let op = Op { phase: Phase::Recompute, writes, awaited: false, ..self.get(by).clone() };
        self.op_before(before, Phase::Backward, op);
    }
}
