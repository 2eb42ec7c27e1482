//! Page-locked memory of hosts that is too small for what is to be away, told before anything runs.
//!
//! Copies out of a stage take buffers in the order in which operators let them begin, and copies back give them free in the order in
//! which operators need them. Nobody else has a part in that, so that it does not hang on time whether one of them waits for ever: for
//! buffers of what the operators after it need.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use thiserror::Error;

use crate::exchange::Exchange;
use crate::graph::{OpGraph, OpId, StorageId};
use crate::liveness::Liveness;
use crate::order::{Order, Visit};
use crate::schedule::StageMemory;
use crate::transfer::{Dispositions, Medium, Stay, Transfer};

/// A stage whose ranks have too little page-locked memory at their hosts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "stage {stage} is to have {needed} B away at `{moment}`, but {capacity} B of its host are page-locked for what comes and goes"
)]
pub struct ShortBuffers {
    /// The stage.
    pub stage: u32,
    /// The pass in which more is to be away than there is room for.
    pub moment: String,
    /// Bytes that are to be away then.
    pub needed: u64,
    /// Page-locked bytes for what comes and goes.
    pub capacity: u64,
}

/// The stages whose ranks have too little for what `tables` decide to be away, each in some of the ranks. With `swapping` the memory of
/// the GPU has room for what comes next only if nothing that leaves waits.
pub(super) fn shortages(
    stages: &[StageMemory],
    tables: &[&Dispositions],
    order: &Order,
    (graph, exchanges): (&OpGraph, &[Exchange]),
    swapping: bool,
) -> Vec<ShortBuffers> {
    let mut found = Vec::new();
    for ((stage, memory), visits) in (0u32..).zip(stages).zip(&order.stages) {
        let Some(capacity) = memory.buffers() else { continue };
        let of_table =
            |table: &&Dispositions| Buffers::of(stage, capacity, graph, table).shortage(visits, swapping);
        let all_locked = |table: &&Dispositions| {
            let of_stage = table.offloads().filter(|(_, transfer, _)| transfer.from.owner == stage);
            let mut leaving = of_stage.peekable();
            leaving.peek().is_some() && leaving.all(|(_, transfer, _)| transfer.to.medium != Medium::PAGEABLE)
        };
        // Who swaps has found room for the rest.
        let stays = !swapping && tables.iter().any(all_locked);
        let beyond = || stays.then(|| beyond(stage, memory, visits, (graph, exchanges))).flatten();
        found.extend(tables.iter().find_map(of_table).or_else(beyond));
    }
    found
}

/// More than the memory of the GPU and its buffers hold together, whatever of it is where.
fn beyond(
    stage: u32,
    memory: &StageMemory,
    visits: &[Visit],
    (graph, exchanges): (&OpGraph, &[Exchange]),
) -> Option<ShortBuffers> {
    let liveness = Liveness::of_stage(graph, stage, visits, exchanges);
    let (at, &peak) = liveness.alive.iter().enumerate().max_by_key(|&(at, bytes)| (bytes, Reverse(at)))?;
    let needed = memory.held().saturating_add(peak).saturating_sub(memory.capacity);
    let capacity = memory.buffers().filter(|&buffers| needed > buffers)?;
    let moment = graph.get(liveness.ops[at]).phase.name().to_owned();
    Some(ShortBuffers { stage, moment, needed, capacity })
}

/// What goes on at a stage whose ranks have so many bytes of `buffers`.
#[derive(Debug)]
struct Buffers<'a> {
    stage: u32,
    capacity: u64,
    graph: &'a OpGraph,
    /// By operator, what its end lets out, what is asked for before it, and what it needs.
    copied: BTreeMap<OpId, Vec<Trip>>,
    asked: BTreeMap<OpId, Vec<Trip>>,
    needed: BTreeMap<OpId, Vec<Trip>>,
    free: u64,
    waiting: VecDeque<(Trip, u32)>,
    away: BTreeSet<(StorageId, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trip {
    storage: StorageId,
    bytes: u64,
    forwarded: bool,
}

impl<'a> Buffers<'a> {
    /// Nothing is away yet of what `table` decides to be.
    fn of(stage: u32, capacity: u64, graph: &'a OpGraph, table: &Dispositions) -> Self {
        let (mut copied, mut asked_at, mut needed) =
            <(BTreeMap<_, Vec<Trip>>, BTreeMap<_, _>, BTreeMap<_, _>)>::default();
        let locked =
            |&Transfer { from, to, .. }: &Transfer| from.owner == stage && to.medium != Medium::PAGEABLE;
        for (storage, _, stay) in table.offloads().filter(|(_, transfer, _)| locked(transfer)) {
            let &Stay { copied_after, asked, needed_by, forwarded, .. } = stay;
            let trip = Trip { storage, bytes: graph.stored(storage).bytes, forwarded };
            copied.entry(copied_after).or_default().push(trip);
            asked_at.entry(asked.op()).or_insert_with(Vec::new).push(trip);
            needed.entry(needed_by).or_insert_with(Vec::new).push(trip);
        }
        let (waiting, away) = Default::default();
        Self { stage, capacity, graph, copied, asked: asked_at, needed, free: capacity, waiting, away }
    }

    /// Executes the visits of a step. Where memory of the GPU is counted on, no copy may have to wait at all.
    fn shortage(mut self, visits: &[Visit], counted_on: bool) -> Option<ShortBuffers> {
        for &Visit { phase, chunk, micro_batch } in visits {
            for op in self.graph.visit(self.stage, u32::from(chunk), phase) {
                let found =
                    self.begin(*op, micro_batch).and_then(|()| self.end(*op, micro_batch, counted_on));
                if let Err(needed) = found {
                    let moment = format!("{} of micro-batch {micro_batch}", phase.name());
                    let Self { stage, capacity, .. } = self;
                    return Some(ShortBuffers { stage, moment, needed, capacity });
                }
            }
        }
        None
    }

    /// What an operator needs comes back, unless it has stayed.
    fn begin(&mut self, op: OpId, micro_batch: u32) -> Result<(), u64> {
        for trip in self.asked.get(&op).into_iter().flatten().filter(|trip| trip.forwarded) {
            self.waiting.retain(|waiting| *waiting != (*trip, micro_batch));
        }
        for at in 0..self.needed.get(&op).map_or(0, Vec::len) {
            let trip = self.needed[&op][at];
            if self.away.remove(&(trip.storage, micro_batch)) {
                self.free += trip.bytes;
                self.copy_out();
            } else if !trip.forwarded {
                let before = self.waiting.iter().position(|waiting| *waiting == (trip, micro_batch));
                return Err(self.to_be_away(before.map_or(0, |before| before + 1)));
            }
        }
        Ok(())
    }

    /// What may be copied after an operator is, as far as there are buffers.
    fn end(&mut self, op: OpId, micro_batch: u32, counted_on: bool) -> Result<(), u64> {
        let copied = self.copied.get(&op).into_iter().flatten();
        if let Some(trip) = copied.clone().find(|trip| trip.bytes > self.capacity) {
            return Err(trip.bytes);
        }
        self.waiting.extend(copied.map(|&trip| (trip, micro_batch)));
        self.copy_out();
        if self.waiting.is_empty() || !counted_on { Ok(()) } else { Err(self.to_be_away(self.waiting.len())) }
    }

    fn copy_out(&mut self) {
        while let Some(&(trip, micro_batch)) =
            self.waiting.front().filter(|(trip, _)| trip.bytes <= self.free)
        {
            self.waiting.pop_front();
            self.free -= trip.bytes;
            self.away.insert((trip.storage, micro_batch));
        }
    }

    /// Bytes of what is away and of the first so many that wait to be.
    fn to_be_away(&self, waiting: usize) -> u64 {
        self.waiting
            .iter()
            .take(waiting)
            .fold(self.capacity - self.free, |sum, (trip, _)| sum.saturating_add(trip.bytes))
    }
}
