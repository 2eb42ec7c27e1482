//! GPUs that do not run at the same clock: the ranks of a stage share everything but their speeds.

use std::collections::BTreeMap;

use sim_core::id::{CapTableId, CostTableId};

use super::{Job, Kinds};
use crate::lower::Lowered;

impl Job<'_> {
    /// The different clocks of the job's GPUs of a kind, relative to that of their peak rates, the
    /// fastest first.
    pub(crate) fn clocks(&self, kinds: &Kinds, kind: usize) -> Vec<f64> {
        let replicas = self.extent.replicas();
        let ranks =
            kinds.stages_of(kind).flat_map(|stage| (0..replicas).map(move |replica| (stage, replica)));
        let mut clocks: Vec<f64> =
            ranks.map(|(stage, replica)| self.clock(self.gpu(stage, replica))).collect();
        clocks.sort_unstable_by(|a, b| b.total_cmp(a));
        clocks.dedup();
        clocks
    }

    /// Gives every rank the speeds of its GPU. The program has those of all kernels at the first of [`Job::clocks`], then
    /// at the second, ...; its activities refer to the first.
    pub(crate) fn slow_clocks(&self, kinds: &Kinds, lowered: &mut Lowered) {
        let clocks: Vec<Vec<f64>> = (0..kinds.count()).map(|kind| self.clocks(kinds, kind)).collect();
        let most = clocks.iter().map(Vec::len).max().unwrap_or(0);
        if most < 2 {
            return;
        }
        let Lowered { program, streams, .. } = lowered;
        let kernels = program.caps.len() / most;
        let mut made: BTreeMap<(CostTableId, usize), CostTableId> = BTreeMap::new();
        for (stream, role) in streams.iter().enumerate() {
            let binding = program.streams[stream].binding.index();
            let clock = self.clock(self.gpu(role.stage, role.replica));
            let of_kind = &clocks[kinds.of_stage(role.stage)];
            let position = of_kind.iter().position(|&known| known == clock).unwrap_or(0);
            let Some(costs) = program.bindings[binding].costs.filter(|_| position > 0) else { continue };
            let slower = *made.entry((costs, position)).or_insert_with(|| {
                let mut table = program.costs[costs.index()].clone();
                for units in table.activities.iter_mut().filter_map(|activity| activity.units.as_mut()) {
                    units.table = CapTableId::from(units.table.index() + position * kernels);
                }
                program.cost_table(table.activities, table.sizes)
            });
            program.bindings[binding].costs = Some(slower);
        }
    }

    fn clock(&self, gpu: u32) -> f64 {
        self.machine.clock(self.machine.gpu(gpu))
    }
}
