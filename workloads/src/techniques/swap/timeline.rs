//! What a stage's memory holds operator by operator when nothing is away, and what may be away meanwhile.

use std::collections::BTreeMap;

use crate::cost::CostBook;
use crate::graph::{Op, OpGraph, OpId, Phase, StorageId};
use crate::order::Visit;
use crate::techniques::offload::Store;

/// The operators of a stage in a step, one after the other, without the time that they wait for other stages.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) steps: Vec<Step>,
    /// Bytes of storages at each of them, what it fills included.
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
    /// That of a stage, whose visits are `visits`, with copies that begin as `store` says. Where micro-batches follow each other, each with nothing left of the one
    /// before, one stands for all.
    pub(crate) fn of(
        visits: &[Visit],
        stage: u32,
        (graph, costs): (&OpGraph, &CostBook),
        store: Store,
    ) -> Self {
        let one_by_one = visits.chunks(2).all(|pair| pair[0].micro_batch == pair[pair.len() - 1].micro_batch);
        let visits = if one_by_one { visits.get(..2).unwrap_or(visits) } else { visits };
        let mut walk = Walk::default();
        let last_uses = graph.last_uses();
        for visit in visits {
            let ops = graph.visit(stage, u32::from(visit.chunk), visit.phase);
            let first = walk.steps.len();
            walk.begins.insert((visit.phase, visit.chunk, visit.micro_batch), first);
            for &op in ops {
                walk.execute(graph, op, visit.micro_batch, &last_uses[op.0 as usize]);
                walk.steps.push(Step { op, seconds: costs.alone(graph.get(op)).as_secs() });
            }
        }
        let candidates = candidates(graph, stage, visits, &walk, store);
        Self { steps: walk.steps, alive: walk.alive, candidates }
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

#[derive(Default)]
struct Walk {
    steps: Vec<Step>,
    alive: Vec<u64>,
    now: u64,
    /// Which instances are there.
    there: BTreeMap<(StorageId, u32), u64>,
    /// The first step of every visit.
    begins: BTreeMap<(Phase, u16, u32), usize>,
}

impl Walk {
    fn execute(&mut self, graph: &OpGraph, op: OpId, micro_batch: u32, last: &[StorageId]) {
        for &storage in &graph.get(op).writes {
            let bytes = graph.stored(storage).bytes;
            if self.there.insert((storage, micro_batch), bytes).is_none() {
                self.now += bytes;
            }
        }
        self.alive.push(self.now);
        for &storage in last {
            self.now -= self.there.remove(&(storage, micro_batch)).unwrap_or(0);
        }
    }
}

/// Activations that are used in both passes of a stage's chunks.
fn candidates(graph: &OpGraph, stage: u32, visits: &[Visit], walk: &Walk, store: Store) -> Vec<Candidate> {
    let mut chunks: Vec<u16> = visits.iter().map(|visit| visit.chunk).collect();
    chunks.sort_unstable();
    chunks.dedup();
    let mut found = Vec::new();
    for chunk in chunks {
        let ops = |phase| graph.visit(stage, u32::from(chunk), phase);
        let (mut filled, mut left) = (BTreeMap::new(), BTreeMap::new());
        for (at, &op) in ops(Phase::Forward).iter().enumerate() {
            let Op { reads, writes, .. } = graph.get(op);
            filled.extend(writes.iter().map(|&storage| (storage, at)));
            left.extend(reads.iter().chain(writes).map(|&storage| (storage, at)));
        }
        for (at, &op) in ops(Phase::Backward).iter().enumerate() {
            for &storage in &graph.get(op).reads {
                if !graph.stored(storage).purpose.is_activation() {
                    continue;
                }
                // What is needed again is back already.
                let Some(left) = left.remove(&storage) else { continue };
                let copied = match store {
                    Store::Produced => filled.get(&storage).copied().unwrap_or(left),
                    Store::LastUse => left,
                };
                let absences = absences(walk, visits, chunk, [copied, left, at]);
                found.push(Candidate {
                    storage,
                    bytes: graph.stored(storage).bytes,
                    copied_after: ops(Phase::Forward)[copied],
                    leaves_after: ops(Phase::Forward)[left],
                    absences,
                });
            }
        }
    }
    // Something must run meanwhile.
    found.retain(|candidate: &Candidate| {
        !candidate.absences.is_empty()
            && candidate.absences.iter().all(|absence| absence.left + 1 < absence.needed)
    });
    found
}

fn absences(walk: &Walk, visits: &[Visit], chunk: u16, [copied, left, needed]: [usize; 3]) -> Vec<Absence> {
    let forward = visits.iter().filter(|visit| visit.phase == Phase::Forward && visit.chunk == chunk);
    let absence = |visit: &Visit| {
        let begin = |phase| walk.begins.get(&(phase, chunk, visit.micro_batch)).copied();
        let (forward, returns) = (begin(Phase::Forward)?, begin(Phase::Backward)?);
        Some(Absence { copied: forward + copied, left: forward + left, returns, needed: returns + needed })
    };
    forward.filter_map(absence).collect()
}
