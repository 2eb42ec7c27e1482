//! Realises [exchanges](crate::exchange): gathers on one lane, sums on another, in the order in which the compute lane
//! comes to their operators.
//!
//! A gather begins when the compute lane begins the reader of the gather `prefetch` before it, and takes memory then. As a
//! reader frees what the one before has read, at most `prefetch + 1` gathers hold memory at a time: `prefetch: 1` is what
//! PyTorch's FSDP does with its limit of two all-gathers in flight (`_FreeEventQueue`). Those of a backward pass begin as
//! early in the pass before it, those of a forward pass not before it does (`_root_pre_forward` lets its streams wait for
//! computation), and none before the step. Stages of a pipeline launch together what they exchange once a step (`aligned.rs`).
//!
//! Where the host launches gathers it takes their memory when it comes to them, before it issues the operators that follow; the
//! items that do stand on the compute lane until the host has a lane ([`launches`](super::launches)). As memory comes back
//! when the device has read it, the farther the host is ahead the more is held, unless it waits.
//!
//! Where parameters are on drives a lane reads them ahead, in the order of the gathers: what the next `buffers` gathers of the step send is
//! read or being read, and none before the compute lane has begun the step, as the update before writes what it reads.
//!
//! Sums of every micro-batch hold gradients: the next one of a visit is launched when the one before is done, as in
//! PyTorch's FSDP2 (`post_backward` waits for the last reduce-scatter).

use std::collections::BTreeMap;

use crate::exchange::{Exchange, LaunchedBy, ReadAhead, Tie};
use crate::graph::{OpGraph, OpId, Phase, StorageId};
use crate::schedule::{Block, Call, Insertions, Item, Lane, LaneKind, Nth, Schedule, SignalId, Why};
use crate::transfer::Tier;

use super::aligned;
use super::launches::launched;

/// Adds the lanes of the exchanges, and what launches and awaits them. Gives by the last operator of each the signal that it is done.
pub fn realise(schedule: &mut Schedule, graph: &OpGraph, exchanges: &[Exchange]) -> BTreeMap<OpId, SignalId> {
    let mut ends = BTreeMap::new();
    if exchanges.is_empty() {
        return ends;
    }
    let last = schedule.micro_batches - 1;
    let mut lanes = Vec::new();
    for stage in 0..schedule.stages.len() as u32 {
        let of_stage = exchanges.iter().filter(|exchange| graph.get(exchange.ops[0]).stage == stage);
        let (mut gathers, mut sums) = (Tied::default(), Tied::default());
        for exchange in of_stage {
            let (ops, phase) = (exchange.ops.as_slice(), exchange.phase(graph));
            let mut signal =
                |what| schedule.signal(format!("exchange {} of stage {stage}, {what}", ops[0].0));
            let (launched, done) = (signal("launched"), signal("done"));
            ends.extend(ops.last().map(|&last| (last, done)));
            let by = LaunchedBy::Device;
            let read = exchange.read;
            let waits = matches!(exchange.tie, Tie::Reduce { waits: true, .. });
            let aligned = exchange.aligned;
            let tied =
                Beside { ops, read, phase, prefetch: 0, by, begun: None, waits, aligned, launched, done };
            match exchange.tie {
                Tie::Gather { reader, prefetch, launched: by } => {
                    let begun = matches!(by, LaunchedBy::Host { waits: true, .. });
                    let begun = begun.then(|| signal("may begin"));
                    let gather = Beside { prefetch, by, begun, ..tied };
                    gathers.by_operator.entry(reader).or_default().push(gather);
                }
                Tie::Reduce { writer, .. } => sums.by_operator.entry(writer).or_default().push(tied),
            }
        }
        let ahead =
            gathers.by_operator.values().flatten().any(|gather| gather.read.is_some()).then(|| Ahead {
                there: schedule.signal(format!("parameters of stage {stage}, read")),
                sent: schedule.signal(format!("parameters of stage {stage}, sent")),
            });
        // What a gather hangs on may be a collective; what completes a gradient is an operator.
        gathers.started = launched(schedule, stage, LaneKind::Collective);
        let Some(compute) = schedule.compute(stage) else { continue };
        // What goes before which item of each call.
        let mut edits = vec![Insertions::new(); compute.calls.len()];
        lanes.extend(gather(compute, graph, (&gathers, ahead), last, &mut edits));
        lanes.extend(ahead.and_then(|ahead| read_ahead(compute, &gathers, ahead)));
        lanes.extend(reduce(compute, graph, &sums, last, &mut edits));
        await_gathers(compute, &gathers, &mut edits);
        compute.insert(edits);
    }
    schedule.lanes.extend(lanes);
    ends
}

/// An exchange with its signals.
#[derive(Clone, Copy)]
struct Beside<'a> {
    ops: &'a [OpId],
    read: Option<ReadAhead>,
    phase: Phase,
    prefetch: u32,
    by: LaunchedBy,
    /// The device has come so far that the host may launch it, where that waits.
    begun: Option<SignalId>,
    /// The compute lane goes on when it is done.
    waits: bool,
    /// It is launched when other stages launch theirs.
    aligned: bool,
    launched: SignalId,
    done: SignalId,
}

/// What lanes of gathers and of reads from drives tell each other, in the order of the gathers.
#[derive(Clone, Copy)]
struct Ahead {
    /// Parameters are in a buffer.
    there: SignalId,
    /// The buffer is free again.
    sent: SignalId,
}

/// Exchanges by the operator of a visit that they hang on.
#[derive(Default)]
struct Tied<'a> {
    by_operator: BTreeMap<OpId, Vec<Beside<'a>>>,
    /// Collectives of visits that a signal starts on a lane of their own.
    started: BTreeMap<SignalId, (OpId, bool)>,
}

impl<'a> Tied<'a> {
    /// The exchanges of a block, each with the item it hangs on.
    fn of(&self, block: &Block) -> Vec<(usize, Beside<'a>)> {
        let tied = |(at, item): (usize, &Item)| {
            let op = match item {
                Item::Execute(op) => op,
                Item::Signal(signal) => &self.started.get(signal)?.0,
                _ => return None,
            };
            self.by_operator.get(op).map(|tied| (at, tied))
        };
        let by_item = block.items.iter().enumerate().filter_map(tied);
        by_item.flat_map(|(at, tied)| tied.iter().map(move |&beside| (at, beside))).collect()
    }
}

/// Calls of a compute lane that have exchanges which stages launch together, for any micro-batch.
fn aligned_passes(compute: &Lane, of_block: &[Vec<(usize, Beside<'_>)>]) -> Vec<usize> {
    let has =
        |&call: &usize| of_block[compute.calls[call].block as usize].iter().any(|(_, beside)| beside.aligned);
    (0..compute.calls.len()).filter(has).collect()
}

impl Beside<'_> {
    /// Whether it happens once a step.
    fn once(&self) -> bool {
        self.phase == Phase::Update
    }

    /// Counts for the micro-batch, or for all where it happens once.
    fn give(&self, signal: SignalId) -> Item {
        if self.once() { Item::SignalStep(signal) } else { Item::Signal(signal) }
    }

    /// What its lane does, in the `first` micro-batch or in another.
    fn executed(&self, graph: &OpGraph, first: bool) -> impl Iterator<Item = Item> {
        let happens = |op: &OpId| !first || graph.get(*op).phase != Phase::Accumulate;
        self.ops.iter().copied().filter(happens).map(Item::Execute).collect::<Vec<_>>().into_iter()
    }

    fn accumulates(&self, graph: &OpGraph) -> bool {
        self.ops.iter().any(|&op| graph.get(op).phase == Phase::Accumulate)
    }
}

/// Launches the gathers of a compute lane; gives their lane.
fn gather(
    compute: &Lane,
    graph: &OpGraph,
    (gathers, ahead): (&Tied<'_>, Option<Ahead>),
    last: u32,
    edits: &mut [Insertions],
) -> Option<Lane> {
    let of_block: Vec<_> = compute.blocks.iter().map(|block| gathers.of(block)).collect();
    let place = Tier::hbm(compute.stage);
    let mut calls = Calls::new(graph, Lane::new(compute.stage, LaneKind::Gather));
    calls.numbered = ahead.is_some();
    let aligned = aligned::gathers(compute, &aligned_passes(compute, &of_block));
    // Call and item of every reader so far.
    let mut readers: Vec<(usize, usize)> = Vec::new();
    for (n, call) in compute.calls.iter().enumerate() {
        let first = readers.len();
        let happens = |(_, beside): &&(usize, Beside<'_>)| !beside.once() || call.micro_batch == 0;
        for &(at, beside) in of_block[call.block as usize].iter().filter(happens) {
            readers.push((n, at));
            let mut edit = |(call, at): (usize, usize), items: Vec<Item>| {
                edits[call].entry(at).or_default().extend(items);
            };
            let own = readers.len() - 1;
            match (beside.by, aligned.get(&n).filter(|_| beside.aligned)) {
                (LaunchedBy::Device, Some(&place)) => edit(place, vec![beside.give(beside.launched)]),
                (LaunchedBy::Device, None) => {
                    let begun = own.saturating_sub(beside.prefetch as usize);
                    let backward = !matches!(beside.phase, Phase::Forward | Phase::Update);
                    let reader = readers[if backward { begun } else { begun.max(first) }];
                    edit(reader, vec![beside.give(beside.launched)]);
                }
                (LaunchedBy::Host { ahead, .. }, _) => {
                    let issued = own.saturating_sub(ahead as usize).max(first);
                    let begun = readers[issued.saturating_sub(beside.prefetch as usize)];
                    edit(begun, beside.begun.map(Item::Signal).into_iter().collect());
                    let writes = filled(graph, &beside);
                    let mut items: Vec<Item> =
                        beside.begun.map(|begun| Item::wait(begun, Why::Memory)).into_iter().collect();
                    items.extend(writes.map(|storage| Item::Allocate(storage, place)));
                    items.push(Item::Signal(beside.launched));
                    edit(readers[issued], items);
                }
            }
        }
        let happening = of_block[call.block as usize].iter().filter(happens).map(|&(_, beside)| beside);
        calls.push(compute, n, last, happening, |beside, after, first| {
            let mut items = Vec::new();
            // The number of the call is that of its last gather.
            if let Some(Ahead { there, .. }) = ahead {
                items.push(Item::Await { signal: there, nth: Nth::Number(after), why: Why::Transfer });
            }
            items.push(Item::wait(beside.launched, Why::Bubble));
            if beside.by == LaunchedBy::Device {
                items.extend(filled(graph, beside).map(|storage| Item::Allocate(storage, place)));
            }
            let mut executed = beside.executed(graph, first);
            items.extend(executed.next());
            items.extend(ahead.map(|ahead| Item::Signal(ahead.sent)));
            items.extend(executed);
            items.push(beside.give(beside.done));
            items
        });
    }
    calls.lane()
}

/// Reads from drives what gathers send, in their order.
fn read_ahead(compute: &Lane, gathers: &Tied<'_>, Ahead { there, sent }: Ahead) -> Option<Lane> {
    let of_block: Vec<_> = compute.blocks.iter().map(|block| gathers.of(block)).collect();
    let mut lane = Lane::new(compute.stage, LaneKind::ReadParameters);
    let mut made: BTreeMap<(OpId, bool, bool), u32> = BTreeMap::new();
    let all = compute
        .calls
        .iter()
        .flat_map(|call| of_block[call.block as usize].iter().map(move |tied| (call, tied)));
    let reads: Vec<_> =
        all.filter_map(|(call, (_, beside))| Some((call.micro_batch, beside, beside.read?))).collect();
    let count = reads.len();
    for (number, (micro_batch, beside, ReadAhead { op, buffers })) in reads.into_iter().enumerate() {
        let (is_first, is_last) = (number == 0, number + 1 == count);
        let block = *made.entry((op, is_first, is_last)).or_insert_with(|| {
            let free = Item::Await { signal: sent, nth: Nth::Number(buffers), why: Why::Memory };
            let mut items = vec![free, Item::Execute(op), Item::Signal(there)];
            if is_first {
                items.insert(0, Item::wait(beside.launched, Why::Bubble));
            }
            if is_last {
                // Until the next step has begun there is nothing to read.
                items.push(Item::Await { signal: sent, nth: Nth::Number(0), why: Why::Bubble });
            }
            lane.block("read parameters", items)
        });
        lane.calls.push(Call { block, micro_batch, number: number as u32 });
    }
    lane.numbers = count as u32;
    (count > 0).then_some(lane)
}

/// What a gather fills.
fn filled(graph: &OpGraph, beside: &Beside<'_>) -> impl Iterator<Item = StorageId> {
    graph.get(beside.ops[0]).writes.iter().copied()
}

/// Makes readers wait for their gathers.
fn await_gathers(compute: &Lane, gathers: &Tied<'_>, edits: &mut [Insertions]) {
    let of_block: Vec<_> = compute.blocks.iter().map(|block| gathers.of(block)).collect();
    for (call, edit) in compute.calls.iter().zip(edits) {
        for &(at, beside) in &of_block[call.block as usize] {
            edit.entry(at).or_default().push(Item::wait(beside.done, Why::Communication));
        }
    }
}

/// Launches the sums of a compute lane after the operators that complete them, and lets the update wait for them; gives
/// their lane.
fn reduce(
    compute: &Lane,
    graph: &OpGraph,
    sums: &Tied<'_>,
    last: u32,
    edits: &mut [Insertions],
) -> Option<Lane> {
    let of_block: Vec<_> = compute.blocks.iter().map(|block| sums.of(block)).collect();
    let place = Tier::hbm(compute.stage);
    let mut calls = Calls::new(graph, Lane::new(compute.stage, LaneKind::Reduce));
    let aligned = aligned::sums(compute, &aligned_passes(compute, &of_block), last);
    // Of the last micro-batch, those that nothing else waits for.
    let mut awaited = Vec::new();
    for (n, call) in compute.calls.iter().enumerate() {
        let items = &compute.blocks[call.block as usize].items;
        let happens = |(_, beside): &&(usize, Beside<'_>)| !beside.once() || call.micro_batch == last;
        let mut before: Option<Beside<'_>> = None;
        for &(writer, beside) in of_block[call.block as usize].iter().filter(happens) {
            // After what the writer's end frees and sends.
            let next = items[writer + 1..].iter().position(|item| matches!(item, Item::Execute(_)));
            let own = (n, next.map_or(items.len(), |next| writer + 1 + next));
            let (call, at) = *aligned.get(&n).filter(|_| beside.aligned).unwrap_or(&own);
            let edit = edits[call].entry(at).or_default();
            if beside.once() {
                awaited.push(Item::wait(beside.done, Why::Communication));
            } else if let Some(before) = before.replace(beside) {
                edit.push(Item::wait(before.done, Why::Communication));
            }
            edit.push(beside.give(beside.launched));
            if beside.waits {
                edit.push(Item::wait(beside.done, Why::Transfer));
            }
        }
        if call.micro_batch == last {
            awaited.extend(before.map(|before| Item::wait(before.done, Why::Communication)));
        }
        let happening = of_block[call.block as usize].iter().filter(happens).map(|&(_, beside)| beside);
        calls.push(compute, n, last, happening, |beside, _, first| {
            let mut items = vec![Item::wait(beside.launched, Why::Bubble)];
            items.extend(beside.executed(graph, first));
            let reads = beside.ops.iter().flat_map(|&op| &graph.get(op).reads);
            items.extend(reads.map(|&storage| Item::Free(storage, place)));
            items.push(beside.give(beside.done));
            items
        });
    }
    // The last call of a compute lane is the end of the step.
    if !awaited.is_empty() {
        edits.last_mut()?.entry(0).or_default().extend(awaited);
    }
    calls.lane()
}

/// The calls of a lane of exchanges, which follow those of the compute lane.
struct Calls<'a> {
    graph: &'a OpGraph,
    lane: Lane,
    /// Whether calls have the number of their last exchange.
    numbered: bool,
    /// By block of the compute lane, whether they happen once, and whether they are to do otherwise in the first micro-batch.
    made: BTreeMap<(u32, bool, bool), u32>,
}

impl<'a> Calls<'a> {
    fn new(graph: &'a OpGraph, lane: Lane) -> Self {
        Self { graph, lane, numbered: false, made: BTreeMap::new() }
    }

    /// The exchanges that belong to call `n` of the compute lane; those that happen once a step belong to its last
    /// micro-batch, as their signals count for all. `items` is told how many follow one in the call.
    fn push(
        &mut self,
        compute: &Lane,
        n: usize,
        last: u32,
        exchanges: impl Iterator<Item = Beside<'a>>,
        items: impl Fn(&Beside<'_>, u32, bool) -> Vec<Item>,
    ) {
        let call = compute.calls[n];
        let (once, each): (Vec<Beside<'_>>, Vec<Beside<'_>>) = exchanges.partition(Beside::once);
        for (is_once, exchanges) in [(true, once), (false, each)] {
            if exchanges.is_empty() {
                continue;
            }
            let accumulates = exchanges.iter().any(|beside| beside.accumulates(self.graph));
            let (first, lane) = (accumulates && call.micro_batch == 0, &mut self.lane);
            let block = *self.made.entry((call.block, is_once, first)).or_insert_with(|| {
                let name = compute.blocks[call.block as usize].name.clone();
                let of_exchanges = (0..exchanges.len() as u32).rev().zip(&exchanges);
                lane.block(
                    name,
                    of_exchanges.flat_map(|(after, beside)| items(beside, after, first)).collect(),
                )
            });
            let micro_batch = if is_once { last } else { call.micro_batch };
            if self.numbered {
                self.lane.numbers += exchanges.len() as u32;
            }
            let number = self.lane.numbers.saturating_sub(1);
            self.lane.calls.push(Call { block, micro_batch, number });
        }
    }

    fn lane(self) -> Option<Lane> {
        (!self.lane.calls.is_empty()).then_some(self.lane)
    }
}
