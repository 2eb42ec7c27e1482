//! GPUs that do not run at the same clock: the ranks of a stage share everything but their speeds.

use std::collections::BTreeMap;

use sim_core::id::{CapTableId, CostTableId};

use super::Job;
use crate::lower::Lowered;

impl Job<'_> {
    /// The different clocks of the job's GPUs, relative to that of their peak rates, the fastest first.
    pub(crate) fn clocks(&self) -> Vec<f64> {
        let mut clocks: Vec<f64> = (0..self.extent.ranks() as u32).map(|gpu| self.clock(gpu)).collect();
        clocks.sort_unstable_by(|a, b| b.total_cmp(a));
        clocks.dedup();
        clocks
    }

    /// Gives every rank the speeds of its GPU. The program has those of all kernels at the first of [`Job::clocks`], then
    /// at the second, ...; its activities refer to the first.
    pub(crate) fn slow_clocks(&self, lowered: &mut Lowered) {
        let clocks = self.clocks();
        if clocks.len() < 2 {
            return;
        }
        let Lowered { program, streams, .. } = lowered;
        let kernels = program.caps.len() / clocks.len();
        let mut made: BTreeMap<(CostTableId, usize), CostTableId> = BTreeMap::new();
        for (stream, role) in streams.iter().enumerate() {
            let binding = program.streams[stream].binding.index();
            let clock = self.clock(self.gpu(role.stage, role.replica));
            let position = clocks.iter().position(|&known| known == clock).unwrap_or(0);
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
