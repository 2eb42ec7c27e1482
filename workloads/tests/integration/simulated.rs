//! Running plans, and reading what came of it.

use sim_core::outcome::{End, Run};
use sim_core::time::Time;
use sim_core::{Options, simulate};
use workloads::lower::Lowered;
use workloads::names::{cause, kind};
use workloads::plan::{Built, PipelinePlan, build};

pub(crate) struct Simulated {
    pub(crate) built: Built,
    pub(crate) run: Run,
}

pub(crate) fn simulated(plan: &PipelinePlan) -> Simulated {
    let built = build(plan).unwrap_or_else(|error| panic!("{error}"));
    let Lowered { platform, program, start, .. } = &built.lowered;
    let run =
        simulate(platform, program, start, &Options::default()).unwrap_or_else(|errors| panic!("{errors:?}"));
    Simulated { built, run }
}

/// A run that must reach its end.
pub(crate) fn completed(plan: &PipelinePlan) -> Simulated {
    let simulated = simulated(plan);
    assert_eq!(simulated.run.end, End::Completed);
    simulated
}

impl Simulated {
    /// The marks of a stage, by step: its first start and its last end.
    pub(crate) fn marks(&self, stage: usize) -> Vec<(Time, Time)> {
        let marks = &self.run.streams[self.built.lowered.stages[stage].compute.index()].marks;
        marks.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// The longest of the stages' own spans in the first step.
    pub(crate) fn cost(&self) -> Time {
        let spans = (0..self.built.lowered.stages.len()).map(|stage| self.marks(stage)[0]);
        spans.map(|(start, end)| end - start).max().unwrap()
    }

    /// Peak bytes of every stage's memory.
    pub(crate) fn peaks(&self) -> Vec<u64> {
        let store = |ids: &workloads::lower::RankIds| &self.run.stores[ids.memory.index()];
        self.built.lowered.stages.iter().map(|ids| store(ids).peak.bytes).collect()
    }

    /// Most micro-batches resident in every stage's memory, those of a partner included.
    pub(crate) fn residents(&self) -> Vec<u64> {
        let store = |ids: &workloads::lower::RankIds| &self.run.stores[ids.resident.index()];
        self.built.lowered.stages.iter().map(|ids| store(ids).peak.bytes).collect()
    }

    /// Time of a stage's compute stream by cause.
    pub(crate) fn spent(&self, stage: usize, name: &str) -> Time {
        let cause = cause::ALL.iter().position(|&n| n == name).unwrap();
        self.run.streams[self.built.lowered.stages[stage].compute.index()].spent[cause]
    }

    /// Bytes of a kind at a stage's peak.
    pub(crate) fn at_peak(&self, stage: usize, name: &str) -> u64 {
        let kind = self.built.lowered.program.kinds.iter().position(|n| n == name);
        let peak = &self.run.stores[self.built.lowered.stages[stage].memory.index()].peak;
        kind.and_then(|kind| peak.by_kind.get(kind).copied()).unwrap_or(0)
    }

    /// Nothing but what is held throughout is left in any store.
    pub(crate) fn assert_memory_is_returned(&self, plan: &PipelinePlan) {
        let weights = self.built.lowered.program.kinds.iter().position(|name| name == kind::WEIGHTS);
        for (ids, profile) in self.built.lowered.stages.iter().zip(&plan.model.stages) {
            let held = &self.run.stores[ids.memory.index()].held;
            for (kind, &bytes) in held.iter().enumerate() {
                assert_eq!(bytes, if Some(kind) == weights { profile.weights } else { 0 });
            }
            assert!(self.run.stores[ids.resident.index()].held.iter().all(|&count| count == 0));
        }
    }
}
