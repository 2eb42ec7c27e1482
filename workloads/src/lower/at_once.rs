//! What a lane changes of a memory that nobody else uses while it computes: for some operators at once. Before the first of them it
//! takes what they hold at most together, after the last one it gives back what is left of that; peaks stay to the byte.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::OpGraph;
use crate::schedule::{Item, LaneKind, Schedule};
use crate::transfer::Tier;

/// Operators whose changes are made at once: as many as a pass of a layer has, so that curves show layers.
const OPERATORS: usize = 16;

/// A step of a lane.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// An item that changes no memory.
    Item(Item),
    /// Bytes taken of the memory of the lane's stage, or given back, by kind; those that are given back come first.
    Change(Vec<(&'static str, i64)>),
}

/// Stages whose memory is the compute lane's alone, which never waits for room there.
pub(super) fn alone(schedule: &Schedule) -> BTreeSet<u32> {
    let others = schedule.lanes.iter().filter(|lane| lane.kind != LaneKind::Compute);
    let items = others.flat_map(|lane| &lane.blocks).flat_map(|block| &block.items);
    let used: BTreeSet<u32> = items.filter_map(|item| changes(item).map(|tier| tier.owner)).collect();
    let stages = (0u32..).zip(&schedule.stages);
    stages.filter(|(stage, memory)| !memory.waits && !used.contains(stage)).map(|(stage, _)| stage).collect()
}

/// The memory of a stage that an item changes.
fn changes(item: &Item) -> Option<Tier> {
    match *item {
        Item::Allocate(_, tier) | Item::Free(_, tier) => tier.is_hbm().then_some(tier),
        _ => None,
    }
}

/// The items of a block of such a lane.
pub(super) fn at_once(items: &[Item], graph: &OpGraph) -> Vec<Step> {
    let mut steps = Vec::with_capacity(items.len());
    let mut rest = items;
    while !rest.is_empty() {
        let mut operators = 0;
        let beyond = rest.iter().position(|item| {
            operators += usize::from(matches!(item, Item::Execute(_)));
            operators > OPERATORS
        });
        let (now, later) = rest.split_at(beyond.unwrap_or(rest.len()));
        append(&mut steps, now, graph);
        rest = later;
    }
    steps
}

/// Appends items, with the changes that they make at once.
fn append(steps: &mut Vec<Step>, items: &[Item], graph: &OpGraph) {
    let is_change = |item: &Item| changes(item).is_some();
    let (first, last) = (items.iter().position(is_change), items.iter().rposition(is_change));
    let (at_peak, in_the_end) = changed(items, graph);
    for (n, item) in items.iter().enumerate() {
        if Some(n) == first {
            steps.extend(change(at_peak.clone()));
        }
        if !is_change(item) {
            steps.push(Step::Item(*item));
        }
        if Some(n) == last {
            let left =
                in_the_end.iter().map(|(&kind, &bytes)| (kind, bytes - at_peak.get(kind).unwrap_or(&0)));
            steps.extend(change(left.collect()));
        }
    }
}

/// Bytes by kind.
type Held = BTreeMap<&'static str, i64>;

/// What items hold beyond what was held before them: where that is most, and in the end.
fn changed(items: &[Item], graph: &OpGraph) -> (Held, Held) {
    let (mut held, mut all, mut most) = (Held::new(), 0, 0);
    let mut at_peak = Held::new();
    for item in items {
        let (storage, sign) = match *item {
            Item::Allocate(storage, _) => (storage, 1),
            Item::Free(storage, _) => (storage, -1),
            _ => continue,
        };
        let bytes = sign * graph.stored(storage).bytes as i64;
        *held.entry(graph.kind(storage)).or_default() += bytes;
        all += bytes;
        if all > most {
            (most, at_peak) = (all, held.clone());
        }
    }
    (at_peak, held)
}

fn change(held: Held) -> Option<Step> {
    let mut bytes: Vec<_> = held.into_iter().filter(|&(_, bytes)| bytes != 0).collect();
    bytes.sort_by_key(|&(_, bytes)| bytes > 0);
    (!bytes.is_empty()).then_some(Step::Change(bytes))
}
