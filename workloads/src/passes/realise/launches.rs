//! Realises the host: a lane of each stage that issues the operators of one visit after the other, as an eager framework
//! does; the compute lane executes nothing before it is issued.
//!
//! A visit waits once, at its first operator, as long as it takes that no later one has to wait,
//! see [`CostBook::issue`]; so does each part of it that follows the launch of a gather whose
//! memory the host takes, or an operator whose result the host waits for, and each that begins with
//! an operator for which the allocator returns memory: then the device has ended all before. That
//! takes as long as waiting at every operator, where nothing but the host and the kernels themselves decides when
//! they end. Elsewhere operators that may be late, see [`CostBook::late`], wait for their own
//! launch. The host runs ahead of the device until the end of the step, where it reads the loss,
//! by as many whole visits as have the launches that may wait; where sends block it waits for every
//! visit.

use std::collections::{BTreeMap, BTreeSet};

use crate::cost::CostBook;
use crate::error::PlanError;
use crate::graph::{OpGraph, OpId};
use crate::passes::{Context, Kind, Pass, Plan};
use crate::schedule::{Block, Call, IssueId, Item, Lane, LaneKind, Nth, Schedule, SignalId, Why};

/// Lanes of hosts, where they may be late.
#[derive(Clone, Debug)]
pub struct Launches {
    /// Whether senders wait, and their hosts with them.
    pub blocking: bool,
    /// Launches that a device may have waiting.
    pub queue: u64,
    /// Which operators wait for their own launch.
    pub waits: LaunchWaits,
    /// Operators before which hosts wait for all before.
    pub drained: BTreeSet<OpId>,
}

/// Operators of a visit that wait for their own launch. The first does in any case; a step takes
/// the same time with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchWaits {
    /// No other where nothing but hosts and kernels decides when these end; elsewhere those that
    /// may be late.
    #[default]
    Disturbed,
    /// Every one that may be late.
    Late,
    /// All of them.
    Each,
}

impl Pass for Launches {
    fn name(&self) -> &'static str {
        "launches"
    }

    fn kind(&self) -> Kind {
        Kind::Realiser
    }

    fn follows(&self) -> &'static [&'static str] {
        &["visits", "transfers", "messages"]
    }

    fn apply(&self, plan: &mut Plan, context: &Context<'_>) -> Result<(), PlanError> {
        let costs = context.estimates();
        if costs.issue.is_some() {
            plan.realise(|schedule, of| self.realise(schedule, of.graph, costs));
        }
        Ok(())
    }
}

impl Launches {
    /// Adds the host lanes. With `blocking` sends the host goes on when the visit before has ended
    /// and what the next one receives has come.
    fn realise(&self, schedule: &mut Schedule, graph: &OpGraph, costs: &CostBook) {
        for stage in 0..schedule.stages.len() as u32 {
            let gathers = launched(schedule, stage, LaneKind::Gather);
            let others = [LaneKind::Collective, LaneKind::Reduce];
            let others = others.into_iter().flat_map(|kind| launched(schedule, stage, kind));
            let beside = others.chain(gathers.clone()).map(|(signal, (op, _))| (signal, op)).collect();
            // Where the lane takes no memory the host does.
            let by_host = gathers.into_iter().filter(|(_, (_, takes_memory))| !takes_memory);
            let memory = by_host.map(|(signal, (op, _))| (signal, graph.get(op).writes.len())).collect();
            let awaited = (0u32..).map(OpId).zip(graph.ops());
            let awaited = awaited.filter(|(_, op)| op.stage == stage && op.awaited);
            let awaited = awaited.map(|(op, _)| op).collect();
            let Some(index) = schedule.lanes.iter().position(|lane| is(lane, LaneKind::Compute, stage))
            else {
                continue;
            };
            let mut compute = schedule.lanes[index].clone();
            let launched = Launched { beside, memory, awaited, drained: self.drained.clone() };
            let host = self.host(schedule, &mut compute, &launched, (graph, costs));
            schedule.lanes[index] = compute;
            schedule.lanes.push(host);
        }
    }

    /// The host of a compute lane, which then waits for it; it waits itself for visits to be done,
    /// and for messages, if it does not run ahead.
    fn host(
        &self,
        schedule: &mut Schedule,
        compute: &mut Lane,
        launched: &Launched,
        costs: (&OpGraph, &CostBook),
    ) -> Lane {
        let stage = compute.stage;
        let awaited = self.blocking.then(|| messages(schedule));
        let done = schedule.signal(format!("visits of stage {stage}, done"));
        let mut host = Lane::new(stage, LaneKind::Host);
        host.numbers = compute.calls.len() as u32;
        let mut waits = Waits::default();
        let parts: Vec<Vec<Part>> =
            compute.blocks.iter().map(|block| parts(schedule, &block.items, launched, &mut waits)).collect();
        let waiting = self.waiting(schedule, compute, &parts, launched, costs);
        let ahead = if self.blocking { Some(1) } else { self.ahead(compute, &parts, launched, costs.1) };
        let parts: Vec<Vec<Part>> = compute
            .blocks
            .iter()
            .zip(parts)
            .map(|(block, parts)| split(&block.name, parts, &waiting, launched))
            .collect();
        let issuing = issuing(&compute.blocks, &parts, launched);
        // Variants of a visit are issued like the visit: one signal counts all its micro-batches.
        let mut issued: BTreeMap<(String, usize), SignalId> = BTreeMap::new();
        let end = compute.calls.last().map(|call| call.block);
        let mut issues = Vec::with_capacity(compute.blocks.len());
        for ((index, block), parts) in (0u32..).zip(&mut compute.blocks).zip(parts) {
            let is_end = end == Some(index);
            let wait = |visits| Item::Await { signal: done, nth: Nth::Number(visits), why: Why::Bubble };
            let mut items: Vec<Item> = ahead.map(wait).into_iter().collect();
            if let Some(messages) = &awaited {
                let first = block.items.iter().position(|item| matches!(item, Item::Execute(_)));
                let before = &block.items[..first.unwrap_or(0)];
                let message =
                    |item: &&Item| matches!(item, Item::Await { signal, .. } if messages.contains(signal));
                items.extend(before.iter().filter(message));
            }
            block.items.clear();
            let mut lacking = issuing[&block.name].clone();
            let mut signal = |schedule: &mut Schedule, number: usize| {
                *issued.entry((block.name.clone(), number)).or_insert_with(|| {
                    let part = if number > 0 { format!(", part {number}") } else { String::new() };
                    schedule.signal(format!("{}{part} of stage {stage}, issued", block.name))
                })
            };
            let given = if is_end { Item::SignalStep } else { Item::Signal };
            for (number, Part { before, items: mut part }) in parts.into_iter().enumerate() {
                let ops = launched.ops(&before).chain(launched.ops(&part)).collect();
                items.extend(before);
                if let Some(first) = part.iter().position(|item| launched.executed(item).is_some()) {
                    let signal = signal(schedule, number);
                    lacking.remove(&number);
                    part.insert(first, Item::wait(signal, Why::Launch));
                    let list = IssueId(schedule.issues.len() as u32);
                    items.extend([Item::Lead(list), given(signal), Item::Follow(list)]);
                    schedule.issues.push(ops);
                }
                block.items.extend(part);
            }
            for signal in lacking.into_iter().map(|number| signal(schedule, number)) {
                items.push(given(signal));
                block.items.push(Item::wait(signal, Why::Launch));
            }
            if is_end {
                items.push(wait(0));
            }
            block.items.push(Item::Signal(done));
            issues.push(host.block(block.name.clone(), items));
        }
        let call =
            |(number, call): (u32, &Call)| Call { block: issues[call.block as usize], number, ..*call };
        host.calls = (0u32..).zip(&compute.calls).map(call).collect();
        host
    }

    /// Visits that begin to be issued before the first of them has ended: those behind the first
    /// fill the queue, whichever follow each other. None if a step does not.
    fn ahead(
        &self,
        compute: &Lane,
        parts: &[Vec<Part>],
        launched: &Launched,
        costs: &CostBook,
    ) -> Option<u32> {
        let is_graph = costs.issue.as_ref().is_some_and(|issue| issue.graph.is_some());
        let launches = |part: &Part| {
            let ops = launched.ops(&part.before).chain(launched.ops(&part.items)).count() as u64;
            if is_graph { ops.min(1) } else { ops }
        };
        let of_block: Vec<u64> = parts.iter().map(|parts| parts.iter().map(launches).sum()).collect();
        let visits: Vec<u64> = compute.calls.iter().map(|call| of_block[call.block as usize]).collect();
        let (mut last, mut waiting, mut most) = (0, 0, None);
        for (first, launches) in visits.iter().enumerate() {
            while waiting < self.queue && last < visits.len() {
                waiting += visits[last];
                last += 1;
            }
            if waiting >= self.queue {
                most = most.max(Some((last - first) as u32 + 1));
            }
            waiting -= launches;
        }
        most
    }

    /// Operators that wait for their own launch, by visit and part of it: numbers of those that the
    /// part itself executes. Variants of a visit are issued alike.
    fn waiting(
        &self,
        schedule: &Schedule,
        compute: &Lane,
        parts: &[Vec<Part>],
        launched: &Launched,
        (graph, costs): (&OpGraph, &CostBook),
    ) -> BTreeMap<(String, usize), BTreeSet<usize>> {
        if costs.issue.as_ref().is_none_or(|issue| issue.graph.is_some()) {
            return BTreeMap::new();
        }
        let beside = schedule.lanes.iter().any(|lane| lane.stage == compute.stage && lane.kind.disturbs());
        let mut found: BTreeMap<(String, usize), (BTreeSet<usize>, BTreeSet<usize>)> = BTreeMap::new();
        for (block, parts) in compute.blocks.iter().zip(parts) {
            let disturbed = beside || is_disturbed(&block.items, launched);
            for (number, part) in parts.iter().enumerate() {
                let [before, own] =
                    [&part.before, &part.items].map(|items| launched.ops(items).collect::<Vec<_>>());
                let ops = [&before[..], &own].concat();
                let waits: BTreeSet<usize> = match self.waits {
                    LaunchWaits::Disturbed if !disturbed => BTreeSet::new(),
                    LaunchWaits::Disturbed | LaunchWaits::Late => costs
                        .late(graph, &ops)
                        .into_iter()
                        .filter_map(|op| op.checked_sub(before.len()))
                        .collect(),
                    LaunchWaits::Each => (0..own.len()).collect(),
                };
                let (waiting, lengths) = found.entry((block.name.clone(), number)).or_default();
                waiting.extend(waits);
                lengths.insert(own.len());
            }
        }
        // One signal counts an operator of all variants, if each has it.
        found.retain(|_, (_, lengths)| lengths.len() == 1);
        found.into_iter().map(|(part, (waiting, _))| (part, waiting)).collect()
    }
}

/// Parts of a visit, those that wait within it apart.
fn split(
    name: &str,
    parts: Vec<Part>,
    waiting: &BTreeMap<(String, usize), BTreeSet<usize>>,
    launched: &Launched,
) -> Vec<Part> {
    let within =
        |(number, part): (usize, Part)| part.before_each(waiting.get(&(name.to_owned(), number)), launched);
    parts.into_iter().enumerate().flat_map(within).collect()
}

/// Parts of each visit that any variant of it issues. A variant that has fewer of them, as what it
/// needs is there already, gives their signals at its end, for all micro-batches to be counted.
fn issuing(blocks: &[Block], parts: &[Vec<Part>], launched: &Launched) -> BTreeMap<String, BTreeSet<usize>> {
    let mut issuing: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (block, parts) in blocks.iter().zip(parts) {
        let issued = parts.iter().enumerate().filter(|(_, part)| launched.ops(&part.items).next().is_some());
        issuing.entry(block.name.clone()).or_default().extend(issued.map(|(number, _)| number));
    }
    issuing
}

/// True if a visit does more than execute from its first operator to its last.
fn is_disturbed(items: &[Item], launched: &Launched) -> bool {
    let is_executed = |item: &Item| launched.executed(item).is_some();
    let (Some(first), Some(last)) = (items.iter().position(is_executed), items.iter().rposition(is_executed))
    else {
        return false;
    };
    let undisturbed = |item: &Item| matches!(item, Item::Execute(_) | Item::Allocate(..) | Item::Free(..));
    !items[first..=last].iter().all(undisturbed)
}

fn is(lane: &Lane, kind: LaneKind, stage: u32) -> bool {
    lane.kind == kind && lane.stage == stage
}

/// What the host launches beside operators.
struct Launched {
    /// The collective that each signal starts on a lane beside the operators: those of visits, gathers and sums.
    beside: BTreeMap<SignalId, OpId>,
    /// For each signal that starts a gather whose memory is taken before, how many storages that fills.
    memory: BTreeMap<SignalId, usize>,
    /// Operators that the host waits for.
    awaited: BTreeSet<OpId>,
    /// Operators before which it waits for all before.
    drained: BTreeSet<OpId>,
}

impl Launched {
    /// The operator that an item executes or starts.
    fn executed(&self, item: &Item) -> Option<OpId> {
        match item {
            Item::Execute(op) => Some(*op),
            Item::Signal(signal) | Item::SignalStep(signal) => self.beside.get(signal).copied(),
            _ => None,
        }
    }

    /// Operators that items execute or start.
    fn ops(&self, items: &[Item]) -> impl Iterator<Item = OpId> {
        items.iter().filter_map(|item| self.executed(item))
    }
}

/// The operator that each signal starts on a lane, which does nothing else before it but, as is told, take memory.
pub(super) fn launched(schedule: &Schedule, stage: u32, kind: LaneKind) -> BTreeMap<SignalId, (OpId, bool)> {
    let mut launched = BTreeMap::new();
    let lanes = schedule.lanes.iter().filter(|lane| is(lane, kind, stage));
    for block in lanes.flat_map(|lane| &lane.blocks) {
        let mut awaited = None;
        for &item in &block.items {
            awaited = match (item, awaited) {
                (Item::Await { signal, .. }, _) => Some((signal, false)),
                (Item::Allocate(..), Some((signal, _))) => Some((signal, true)),
                (Item::Execute(op), Some((signal, takes_memory))) => {
                    launched.insert(signal, (op, takes_memory));
                    None
                }
                _ => None,
            };
        }
    }
    launched
}

/// What arrives over links between stages.
fn messages(schedule: &Schedule) -> BTreeSet<SignalId> {
    let items = schedule.lanes.iter().flat_map(|lane| &lane.blocks).flat_map(|block| &block.items);
    let carried = items.filter_map(|item| match *item {
        Item::Carry(signal, _) => Some(signal),
        _ => None,
    });
    carried.collect()
}

/// A part of a visit.
#[derive(Default)]
struct Part {
    /// Items of the host before it.
    before: Vec<Item>,
    items: Vec<Item>,
}

impl Part {
    /// Itself in parts, each of which begins with an operator that waits for its own launch.
    fn before_each(self, waiting: Option<&BTreeSet<usize>>, launched: &Launched) -> Vec<Self> {
        let mut parts = vec![Self { before: self.before, items: Vec::new() }];
        let mut operators = 0;
        for item in self.items {
            if launched.executed(&item).is_some() {
                if operators > 0 && waiting.is_some_and(|waiting| waiting.contains(&operators)) {
                    parts.push(Self::default());
                }
                operators += 1;
            }
            parts.last_mut().expect("the first one").items.push(item);
        }
        parts
    }
}

/// Signals of operators that the host waits for: those that have ended, and those before which all
/// has.
#[derive(Default)]
struct Waits {
    ends: BTreeMap<OpId, SignalId>,
    before: BTreeMap<OpId, SignalId>,
}

/// The items of a visit in parts, each with what the host does before it: it waits for an operator
/// to be done, takes memory for a gather (its wait, storages and signal), or asks for what comes
/// back and waits for it.
fn parts(
    schedule: &mut Schedule,
    items: &[Item],
    launched: &Launched,
    Waits { ends, before }: &mut Waits,
) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut part = Part::default();
    for &item in items {
        if let Item::Signal(signal) | Item::Await { signal, .. } = item
            && schedule.by_hosts.contains(&signal)
        {
            if launched.ops(&part.items).next().is_some() {
                parts.push(std::mem::take(&mut part));
            }
            part.before.push(item);
            // What comes is awaited by both.
            part.items.extend(matches!(item, Item::Await { .. }).then_some(item));
            continue;
        }
        if let Some(op) = launched.executed(&item).filter(|op| launched.drained.contains(op)) {
            let name = format!("all before operator {}, awaited by the host", op.0);
            let signal = *before.entry(op).or_insert_with(|| schedule.signal(name));
            let last = part.items.iter().rposition(|item| launched.executed(item).is_some());
            let items = part.items.split_off(last.map_or(0, |last| last + 1));
            part.items.push(Item::Signal(signal));
            let wait = vec![Item::wait(signal, Why::Bubble)];
            parts.push(std::mem::replace(&mut part, Part { before: wait, items }));
        }
        part.items.push(item);
        let next = match item {
            Item::Execute(op) if launched.awaited.contains(&op) => {
                let name = format!("operator {}, awaited by the host", op.0);
                let signal = *ends.entry(op).or_insert_with(|| schedule.signal(name));
                part.items.push(Item::Signal(signal));
                vec![Item::wait(signal, Why::Bubble)]
            }
            Item::Signal(signal) => {
                let Some(&storages) = launched.memory.get(&signal) else { continue };
                let mut from = part.items.len() - 1 - storages;
                if from > 0 && matches!(part.items[from - 1], Item::Await { why: Why::Memory, .. }) {
                    from -= 1;
                }
                part.items.split_off(from)
            }
            _ => continue,
        };
        parts.push(std::mem::replace(&mut part, Part { before: next, items: Vec::new() }));
    }
    parts.push(part);
    parts
}
