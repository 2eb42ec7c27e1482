//! Large-model support of PyTorch (github.com/IBM/pytorch-large-model-support, docs/Internals.md
//! and patches): the caching allocator reclaims memory of tensors that no operator uses just now,
//! when its free list has nothing suitable and a soft limit is reached. A tensor is back when an
//! operator pins it.
//!
//! What is reclaimed when follows from the order of operators alone: the allocator is asked in
//! that order (`pool`), step after step until it asks the driver for nothing more. The copy out of
//! a tensor is waited for by the operator whose memory it makes room for, the copy back by the
//! operator that pins it.
//!
//! Tensors that a forward pass leaves for the backward pass can be reclaimed once the forward pass
//! is done with them, for what the same micro-batch needs. Parameters and their gradients stay,
//! and so does what one pass alone uses, though the library may reclaim these, too. Copies out are
//! not speculated on, as version 1.5 of the library does.

mod pool;

use std::collections::BTreeMap;

use hw_models::settings::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::error::PlanError;
use crate::graph::{OpGraph, OpId, StorageId};
use crate::liveness::{Gap, gaps};
use crate::order::Visit;
use crate::transfer::{Asked, Medium, Stay, Transfer};

use super::{Added, Around, Context, Facts, Kind, Pass, Plan, Size, Technique};

use pool::{Instance, Pool};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "lms";

const PATH: &str = "techniques.lms";

/// Tensors smaller than this stay (`torch.cuda.set_size_lms`): 1 MiB, where large blocks begin.
const SMALLEST: u64 = 1 << 20;
/// Steps after which the pool of a rank no longer changes, or goes round in a circle.
const STEPS_MAX: u32 = 4;

/// Reclaim memory of inactive tensors when the allocator has nothing suitable: they wait in host
/// memory until an operator pins them (PyTorch Large Model Support, IBM).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lms {
    /// Soft limit on memory for tensors that come and go (`torch.cuda.set_limit_lms`): up to it
    /// the allocator asks the driver before it reclaims. With 0, the default of the library, it
    /// reclaims even where all would fit.
    pub limit: Bytes,
    /// Smaller tensors stay (`torch.cuda.set_size_lms`); 1 MiB when absent, as in the library.
    pub smallest: Option<Bytes>,
    /// True if buffers in host memory are page-locked. Otherwise one host thread copies each tensor
    /// once more in each direction, and it crosses host memory three times.
    pub pinned: bool,
}

impl Default for Lms {
    fn default() -> Self {
        Self { limit: Bytes::new_bytes(0), smallest: None, pinned: true }
    }
}

impl Technique for Lms {
    fn facts(&self, _stages: u32) -> Facts<'_> {
        Facts {
            path: PATH,
            activations: Some("reclaims inactive tensors"),
            activations_pinned: Some(self.pinned),
            ..Facts::default()
        }
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        if let Some(refused) = around.without_tensors(PATH) {
            wrong(refused);
        }
    }
}

impl Pass for Lms {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Decider
    }

    fn adds(&self, size: &Size<'_>) -> Added {
        size.copies(|_| true)
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        for stage in 0..plan.chain.stages {
            let room = plan.memory[stage as usize].room();
            let step = Step::of(&plan.graph, stage, &plan.steps[0].order.stages[stage as usize]);
            let smallest = self.smallest.map_or(SMALLEST, Bytes::bytes);
            let reclaimed = step.reclaimed(smallest, self.limit.bytes().min(room));
            let transfers = reclaimed
                .into_iter()
                .map(|(storage, stay)| Transfer::out(stage, storage, Medium::PAGE_LOCKED, stay));
            plan.transfer(NAME, &transfers.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// Operators of a stage in the order of a step.
struct Step<'a> {
    graph: &'a OpGraph,
    /// Operators with their micro-batches.
    ops: Vec<(OpId, u32)>,
    /// By operator, storages that it uses last.
    last_uses: Vec<Vec<StorageId>>,
    /// By storage that both passes of a micro-batch use, the time between.
    gaps: BTreeMap<StorageId, Gap>,
}

impl<'a> Step<'a> {
    fn of(graph: &'a OpGraph, stage: u32, visits: &[Visit]) -> Self {
        let of_visit = |visit: &Visit| {
            let ops = graph.visit(stage, u32::from(visit.chunk), visit.phase).iter();
            ops.map(|&op| (op, visit.micro_batch)).collect::<Vec<_>>()
        };
        let mut chunks: Vec<u32> = visits.iter().map(|visit| visit.chunk.into()).collect();
        chunks.sort_unstable();
        chunks.dedup();
        let gaps = chunks.into_iter().flat_map(|chunk| gaps(graph, stage, chunk));
        Self {
            graph,
            ops: visits.iter().flat_map(of_visit).collect(),
            last_uses: graph.last_uses(),
            gaps: gaps.map(|gap| (gap.storage, gap)).collect(),
        }
    }

    /// Storages that are reclaimed, with their stays: those of the first micro-batch that has each
    /// so in a step of which the pool is as it was before. All micro-batches do the same.
    fn reclaimed(&self, smallest: u64, limit: u64) -> Vec<(StorageId, Stay)> {
        let mut pool = Pool::new(limit);
        let mut reclaimed: BTreeMap<StorageId, Stay> = BTreeMap::new();
        for _ in 0..STEPS_MAX {
            let reserved = pool.reserved();
            let found = self.execute(&mut pool, smallest);
            let settled = pool.reserved() == reserved && found == reclaimed;
            reclaimed = found;
            if settled {
                break;
            }
        }
        reclaimed.into_iter().collect()
    }

    /// Executes a step on what the ones before have left.
    fn execute(&self, pool: &mut Pool, smallest: u64) -> BTreeMap<StorageId, Stay> {
        let mut stays = BTreeMap::new();
        for (at, &(id, micro_batch)) in self.ops.iter().enumerate() {
            let op = self.graph.get(id);
            let large = op.uses().copied().filter(|&storage| self.graph.stored(storage).bytes >= smallest);
            let used: Vec<Instance> = large.map(|storage| Instance { storage, micro_batch }).collect();
            // What an operator reads is pinned before anything is allocated.
            used.iter().for_each(|&instance| pool.pin(instance));
            for &instance in &used {
                for evicted in pool.provide(instance, self.graph.stored(instance.storage).bytes) {
                    if let Some(stay) = self.stay(evicted.storage, at) {
                        stays.entry(evicted.storage).or_insert(stay);
                    }
                }
            }
            let done = |it: &&Instance| self.gaps.get(&it.storage).is_some_and(|gap| gap.last_used_by == id);
            used.iter().filter(done).for_each(|&instance| pool.unpin(instance));
            for &storage in &self.last_uses[id.0 as usize] {
                pool.free(Instance { storage, micro_batch });
            }
        }
        stays
    }

    /// The stay of a storage that the operator `at` reclaims.
    fn stay(&self, storage: StorageId, at: usize) -> Option<Stay> {
        let gap = self.gaps.get(&storage)?;
        let before = self.ops[at.checked_sub(1)?].0;
        Some(Stay {
            copied_after: before,
            freed_after: gap.last_used_by,
            gone_after: Some(before),
            asked: Asked::Before(gap.needed_by),
            needed_by: gap.needed_by,
            forwarded: false,
        })
    }
}
