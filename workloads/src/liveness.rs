//! Liveness of the storages of a stage: bytes alive at each operator when nothing is away, and the gaps between the passes in which
//! an activation is not used. Planners, buffers and checks read it.

use std::collections::BTreeMap;

use crate::exchange::{Exchange, LaunchedBy, Tie};
use crate::graph::{Op, OpGraph, OpId, Phase, StorageId};
use crate::order::Visit;

/// A stage's operators in a step, one after the other, with the bytes alive at each.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    /// Executed operators.
    pub ops: Vec<OpId>,
    /// Bytes of storages alive while each is executed, its results included.
    pub alive: Vec<u64>,
    /// Position of the first operator of every visit.
    begins: BTreeMap<(Phase, u16, u32), usize>,
}

/// The time between the passes of a micro-batch in which a storage is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The storage.
    pub storage: StorageId,
    /// Its size.
    pub bytes: u64,
    /// The last operator of the forward pass that writes it.
    pub filled_by: OpId,
    /// The last operator of the forward pass that uses it.
    pub last_used_by: OpId,
    /// The first operator of the backward pass that reads it.
    pub needed_by: OpId,
    /// The last operator of the backward pass that reads it.
    pub needed_last: OpId,
    /// Positions in their visits of the first three: filled, last used, needed.
    pub at: [usize; 3],
}

impl Liveness {
    /// Liveness of a stage that executes `visits`, with what it exchanges beside them.
    pub fn of_stage<'a>(graph: &'a OpGraph, stage: u32, visits: &[Visit], exchanges: &'a [Exchange]) -> Self {
        let last_uses = graph.last_uses();
        let exchanged = Exchanged::of(graph, stage, exchanges);
        let mut liveness = Self::default();
        let (mut now, mut there) = (0, BTreeMap::new());
        // Positions of the readers of gathers, with their visits and bytes.
        let mut gathers: Vec<Gathered> = Vec::new();
        for &Visit { phase, chunk, micro_batch } in visits {
            let begin = liveness.ops.len();
            liveness.begins.insert((phase, chunk, micro_batch), begin);
            for &op in graph.visit(stage, u32::from(chunk), phase) {
                let gathered = exchanged.gathers.get(&op).map_or(&[][..], Vec::as_slice);
                let filled = |exchange: &'a Exchange| &graph.get(exchange.ops[0]).writes;
                for &(exchange, ahead) in gathered {
                    let bytes = filled(exchange).iter().map(|&storage| graph.stored(storage).bytes).sum();
                    gathers.push(Gathered { at: liveness.ops.len(), begin, ahead, bytes });
                }
                let filled = gathered.iter().flat_map(|&(exchange, _)| filled(exchange));
                for &storage in graph.get(op).writes.iter().chain(filled) {
                    let bytes = graph.stored(storage).bytes;
                    now += if there.insert((storage, micro_batch), bytes).is_none() { bytes } else { 0 };
                }
                liveness.ops.push(op);
                liveness.alive.push(now);
                let summed = exchanged.summed.get(&op).into_iter().flatten();
                for &storage in last_uses[op.0 as usize].iter().chain(summed) {
                    now -= there.remove(&(storage, micro_batch)).unwrap_or(0);
                }
            }
        }
        liveness.gather_ahead(&gathers);
        liveness
    }

    /// Counts gathers from their launch to their reader.
    fn gather_ahead(&mut self, gathers: &[Gathered]) {
        for (number, &Gathered { at, begin, ahead, bytes }) in gathers.iter().enumerate() {
            let launched = match ahead {
                Some(ahead) => gathers[number.saturating_sub(ahead as usize)].at,
                None => begin,
            };
            self.alive[launched..at].iter_mut().for_each(|alive| *alive += bytes);
        }
    }

    /// Most bytes alive at once.
    pub fn peak(&self) -> u64 {
        self.alive.iter().copied().max().unwrap_or(0)
    }

    /// Position of the first operator of a visit. `None`: it is not executed.
    pub fn begin(&self, visit: Visit) -> Option<usize> {
        self.begins.get(&(visit.phase, visit.chunk, visit.micro_batch)).copied()
    }
}

/// Exchanges of a stage by the operators of visits that they hang on.
#[derive(Default)]
struct Exchanged<'a> {
    /// By reader, each with the gathers before it at whose reader it is launched. `None`: a host
    /// does that, which may have come to all of the visit.
    gathers: BTreeMap<OpId, Vec<(&'a Exchange, Option<u32>)>>,
    /// By writer, storages that are given back when they are summed.
    summed: BTreeMap<OpId, Vec<StorageId>>,
}

/// A gather in a timeline.
#[derive(Clone, Copy)]
struct Gathered {
    /// Position of its reader.
    at: usize,
    /// Position of the first operator of its visit.
    begin: usize,
    ahead: Option<u32>,
    bytes: u64,
}

impl<'a> Exchanged<'a> {
    fn of(graph: &OpGraph, stage: u32, exchanges: &'a [Exchange]) -> Self {
        let mut exchanged = Self::default();
        let of_micro_batches = |exchange: &&Exchange| {
            graph.get(exchange.ops[0]).stage == stage && exchange.phase(graph) != Phase::Update
        };
        for exchange in exchanges.iter().filter(of_micro_batches) {
            match exchange.tie {
                Tie::Gather { reader, prefetch, launched } => {
                    let ahead = match launched {
                        LaunchedBy::Device => Some(prefetch),
                        LaunchedBy::Host { ahead, waits: true } => Some(prefetch + ahead),
                        LaunchedBy::Host { waits: false, .. } => None,
                    };
                    exchanged.gathers.entry(reader).or_default().push((exchange, ahead));
                }
                Tie::Reduce { writer, .. } => {
                    let read = exchange.ops.iter().flat_map(|&op| graph.get(op).reads.iter().copied());
                    exchanged.summed.entry(writer).or_default().extend(read);
                }
            }
        }
        exchanged
    }
}

/// Gaps of the activations of a stage's chunk, in the order in which the backward pass needs them.
pub fn gaps(graph: &OpGraph, stage: u32, chunk: u32) -> Vec<Gap> {
    let ops = |phase| graph.visit(stage, chunk, phase);
    let (forward, backward) = (ops(Phase::Forward), ops(Phase::Backward));
    let (mut filled, mut used, mut needed_last) = <[BTreeMap<StorageId, usize>; 3]>::default().into();
    for (at, &op) in forward.iter().enumerate() {
        let Op { reads, writes, .. } = graph.get(op);
        filled.extend(writes.iter().map(|&storage| (storage, at)));
        used.extend(reads.iter().chain(writes).map(|&storage| (storage, at)));
    }
    for (at, &op) in backward.iter().enumerate() {
        needed_last.extend(graph.get(op).reads.iter().map(|&storage| (storage, at)));
    }
    let mut gaps = Vec::new();
    for (needed, &needed_by) in backward.iter().enumerate() {
        for &storage in &graph.get(needed_by).reads {
            let stored = graph.stored(storage);
            let Some(&filled) = filled.get(&storage).filter(|_| stored.purpose.is_activation()) else {
                continue;
            };
            // A storage that is needed again is back already.
            let Some(used) = used.remove(&storage) else { continue };
            gaps.push(Gap {
                storage,
                bytes: stored.bytes,
                filled_by: forward[filled],
                last_used_by: forward[used],
                needed_by,
                needed_last: backward[needed_last[&storage]],
                at: [filled, used, needed],
            });
        }
    }
    gaps
}
