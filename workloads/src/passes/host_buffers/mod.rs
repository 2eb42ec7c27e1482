//! Memory of hosts that GPUs copy to and from: page-locked, of which there may be little, or not, which costs more.
//!
//! A copy engine reads and writes page-locked memory alone. Between that and other memory a thread of the host copies once more, as
//! fast as one does.

mod short;

use std::collections::{BTreeMap, BTreeSet};

use hw_models::copies::HostMemory;

use crate::error::PlanError;
use crate::graph::{OpGraph, OpId, StorageId};
use crate::order::{Order, Visit};
use crate::schedule::StageMemory;
use crate::transfer::{Dispositions, Medium};

use super::{Context, Kind, Pass, Plan};

pub use short::ShortBuffers;

/// Memory of hosts for what leaves the GPUs: page-locked or not.
#[derive(Clone, Copy, Debug)]
pub struct Buffering;

impl Pass for Buffering {
    fn name(&self) -> &'static str {
        "buffers"
    }

    fn kind(&self) -> Kind {
        Kind::Decider
    }

    fn follows(&self) -> &'static [&'static str] {
        &[super::offload::NAME, super::swap::NAME]
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        let Plan { graph, steps, memory, buffers, exchanges, decided, .. } = plan;
        let [whole, shorter @ ..] = steps.as_mut_slice() else { return Ok(()) };
        for (number, cohort) in whole.cohorts.iter_mut().enumerate() {
            buffers.decide(memory, &whole.order, graph, &mut cohort.table);
            shorter.iter_mut().for_each(|step| step.cohorts[number].table.redirect_as(&cohort.table));
        }
        let tables: Vec<&Dispositions> = whole.cohorts.iter().map(|cohort| &cohort.table).collect();
        let of = (&*graph, &**exchanges);
        let short = short::shortages(memory, &tables, &whole.order, of, !decided.swapped.is_empty());
        if short.is_empty() { Ok(()) } else { Err(PlanError::BuffersDoNotFit(short)) }
    }
}

/// What of the memory of hosts is for what GPUs copy there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBuffers {
    /// Bytes that are page-locked for each rank; none: as many as it needs.
    pub locked: Option<u64>,
    /// Whether what finds no room there goes to memory that is not page-locked, rather than waiting.
    pub overflows: bool,
    /// The memory of activations while they are away.
    pub activations: HostMemory,
    /// The memory of gradients and parameters that hosts exchange with their GPUs.
    pub exchanged: HostMemory,
}

impl HostBuffers {
    /// As many page-locked bytes as are needed.
    pub const ENOUGH: Self = Self {
        locked: None,
        overflows: false,
        activations: HostMemory::Pinned,
        exchanged: HostMemory::Pinned,
    };

    /// Decides what of the offloaded storages is not page-locked: all of them, or those that find no room where their turn comes.
    fn decide(&self, stages: &[StageMemory], order: &Order, graph: &OpGraph, table: &mut Dispositions) {
        let pageable: Vec<StorageId> = match self.activations {
            HostMemory::Pageable => table.offloads().map(|(storage, ..)| storage).collect(),
            HostMemory::Pinned if self.overflows => {
                let of_stage = |((stage, memory), visits): ((u32, &StageMemory), &Vec<Visit>)| {
                    let buffers = memory.buffers()?;
                    Some(overflowing(stage, buffers, visits, graph, table))
                };
                (0..).zip(stages).zip(&order.stages).filter_map(of_stage).flatten().collect()
            }
            HostMemory::Pinned => Vec::new(),
        };
        pageable.into_iter().for_each(|storage| table.redirect(storage, Medium::PAGEABLE));
    }
}

/// The storages of a stage that find less room in so many bytes of `free` buffers than they need, in any micro-batch, where others keep
/// theirs from when they are copied until they are needed.
fn overflowing(
    stage: u32,
    mut free: u64,
    visits: &[Visit],
    graph: &OpGraph,
    table: &Dispositions,
) -> BTreeSet<StorageId> {
    let (mut copied, mut needed) =
        <(BTreeMap<OpId, Vec<StorageId>>, BTreeMap<OpId, Vec<StorageId>>)>::default();
    for (storage, _, stay) in table.offloads().filter(|(_, transfer, _)| transfer.from.owner == stage) {
        copied.entry(stay.copied_after).or_default().push(storage);
        needed.entry(stay.needed_by).or_default().push(storage);
    }
    let (mut buffered, mut pageable) = (BTreeSet::new(), BTreeSet::new());
    for &Visit { phase, chunk, micro_batch } in visits {
        for op in graph.visit(stage, u32::from(chunk), phase) {
            for &storage in needed.get(op).into_iter().flatten() {
                free +=
                    if buffered.remove(&(storage, micro_batch)) { graph.stored(storage).bytes } else { 0 };
            }
            for &storage in copied.get(op).into_iter().flatten() {
                let bytes = graph.stored(storage).bytes;
                if pageable.contains(&storage) {
                    continue;
                }
                if bytes <= free {
                    free -= bytes;
                    buffered.insert((storage, micro_batch));
                    continue;
                }
                pageable.insert(storage);
                let before = buffered.len();
                buffered.retain(|&(kept, _)| kept != storage);
                free += (before - buffered.len()) as u64 * bytes;
            }
        }
    }
    pageable
}
