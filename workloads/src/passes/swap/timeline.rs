//! The operators of a stage with their times, what its memory holds at each when nothing is away, and what may be away meanwhile.

use crate::cost::CostBook;
use crate::exchange::Exchange;
use crate::graph::{OpGraph, OpId, Phase, StorageId};
use crate::liveness::{Gap, Liveness, gaps};
use crate::order::Visit;
use crate::transfer::Store;

/// The operators of a stage in a step, one after the other, without the time that they wait for other stages.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) steps: Vec<Step>,
    /// Bytes of storages at each of them, what it fills and what is gathered by then included.
    pub(crate) alive: Vec<u64>,
    /// What may be away, in the order in which a backward pass needs it.
    pub(crate) candidates: Vec<Candidate>,
}

/// An operator of a micro-batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) op: OpId,
    /// What it takes when nothing contends.
    pub(crate) seconds: f64,
}

/// A storage that is used in both passes of a micro-batch.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) storage: StorageId,
    pub(crate) bytes: u64,
    /// The operator of the forward pass after which it is copied.
    pub(crate) copied_after: OpId,
    /// The last operator of the forward pass that uses it.
    pub(crate) leaves_after: OpId,
    /// In every micro-batch.
    pub(crate) absences: Vec<Absence>,
}

/// Steps between which a storage is not needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absence {
    /// That of the operator after which it is copied, the one that filled it or a later one.
    pub(crate) copied: usize,
    /// That of the last operator that used it.
    pub(crate) left: usize,
    /// That of the first operator of the backward pass.
    pub(crate) returns: usize,
    /// That of the operator that needs it.
    pub(crate) needed: usize,
}

impl Candidate {
    /// Operators of the backward pass that come before the first that needs it.
    pub(crate) fn before_needed(&self) -> usize {
        self.absences[0].needed - self.absences[0].returns
    }
}

impl Timeline {
    /// That of a stage, whose visits are `visits`, with copies that begin as `store` says. Where micro-batches follow each other,
    /// each with nothing left of the one before, one stands for all.
    pub(crate) fn of(
        visits: &[Visit],
        stage: u32,
        (graph, exchanges, costs): (&OpGraph, &[Exchange], &CostBook),
        store: Store,
    ) -> Self {
        let one_by_one = visits.chunks(2).all(|pair| pair[0].micro_batch == pair[pair.len() - 1].micro_batch);
        let visits = if one_by_one { visits.get(..2).unwrap_or(visits) } else { visits };
        let liveness = Liveness::of_stage(graph, stage, visits, exchanges);
        let candidates = candidates(graph, stage, visits, &liveness, store);
        let step = |&op: &OpId| Step { op, seconds: costs.alone(graph.get(op)).as_secs() };
        Self { steps: liveness.ops.iter().map(step).collect(), alive: liveness.alive, candidates }
    }

    /// Most bytes at once when nothing is away.
    pub(crate) fn peak(&self) -> u64 {
        self.alive.iter().copied().max().unwrap_or(0)
    }

    /// The operator of the backward pass that so many others of it come before, where a candidate may be asked for.
    pub(crate) fn returning(&self, candidate: &Candidate, asked: usize) -> OpId {
        self.steps[candidate.absences[0].returns + asked].op
    }

    /// Time of all operators.
    pub(crate) fn seconds(&self) -> f64 {
        self.steps.iter().map(|step| step.seconds).sum()
    }
}

/// Activations that are used in both passes of a stage's chunks.
fn candidates(
    graph: &OpGraph,
    stage: u32,
    visits: &[Visit],
    liveness: &Liveness,
    store: Store,
) -> Vec<Candidate> {
    let mut chunks: Vec<u16> = visits.iter().map(|visit| visit.chunk).collect();
    chunks.sort_unstable();
    chunks.dedup();
    let candidate = |chunk: u16, gap: Gap| {
        let Gap { storage, bytes, filled_by, last_used_by, at: [filled, left, needed], .. } = gap;
        let (copied, copied_after) = match store {
            Store::Produced => (filled, filled_by),
            Store::LastUse => (left, last_used_by),
        };
        let absences = absences(liveness, visits, chunk, [copied, left, needed]);
        Candidate { storage, bytes, copied_after, leaves_after: last_used_by, absences }
    };
    let of_chunk =
        |chunk: u16| gaps(graph, stage, u32::from(chunk)).into_iter().map(move |gap| candidate(chunk, gap));
    let mut found: Vec<Candidate> = chunks.into_iter().flat_map(of_chunk).collect();
    // Something must run meanwhile.
    found.retain(|candidate: &Candidate| {
        !candidate.absences.is_empty()
            && candidate.absences.iter().all(|absence| absence.left + 1 < absence.needed)
    });
    found
}

fn absences(
    liveness: &Liveness,
    visits: &[Visit],
    chunk: u16,
    [copied, left, needed]: [usize; 3],
) -> Vec<Absence> {
    let forward = visits.iter().filter(|visit| visit.phase == Phase::Forward && visit.chunk == chunk);
    let absence = |&visit: &Visit| {
        let forward = liveness.begin(visit)?;
        let returns = liveness.begin(Visit { phase: Phase::Backward, ..visit })?;
        Some(Absence { copied: forward + copied, left: forward + left, returns, needed: returns + needed })
    };
    forward.filter_map(absence).collect()
}
