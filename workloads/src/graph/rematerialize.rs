//! Operators of a forward pass, executed again in the backward pass. What they fill again is not
//! saved for it.

use std::collections::BTreeMap;

use super::Phase;
use super::block::Block;
use super::operator::{Operator, Tensor, TensorId};

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
