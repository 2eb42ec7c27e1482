//! Hosts that ask for what a backward pass needs, as hooks of autograd do: module by module, ahead
//! of the GPU (Wu et al., SSDTrain, DAC 2025).

use crate::graph::{OpGraph, OpId, Phase};

/// Modules of a chunk in the order in which the host enters their backward passes: operators that
/// need what the forward pass has saved.
pub(super) struct Modules {
    entered: Vec<OpId>,
    /// The first operator of the backward pass.
    first: OpId,
}

impl Modules {
    /// Modules that are asked for together (`prefetch_num_leaves_per_chunk` of SSDTrain).
    const TOGETHER: usize = 2;

    /// Modules of these operators, which are in order.
    pub(super) fn of(
        graph: &OpGraph,
        (stage, chunk): (u32, u32),
        needing: impl Iterator<Item = OpId>,
    ) -> Self {
        let mut entered: Vec<OpId> = needing.collect();
        entered.dedup();
        let first = graph.visit(stage, chunk, Phase::Backward).first();
        let first = first.or(entered.first()).copied().unwrap_or(OpId(0));
        Self { entered, first }
    }

    /// The operator at which the host asks for what another needs: as it enters the last module of
    /// those that were asked for before.
    pub(super) fn asks(&self, needed_by: OpId) -> OpId {
        let module = self.entered.iter().position(|&op| op == needed_by).unwrap_or_default();
        let before = (module / Self::TOGETHER * Self::TOGETHER).checked_sub(1);
        before.map_or(self.first, |before| self.entered[before])
    }
}
