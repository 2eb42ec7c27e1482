//! Captured ranges: launches of a thread between two synchronisations become one graph.
//!
//! ```text
//! eager    | python dispatch launch | python dispatch launch | dispatch launch | block
//! graph    | python dispatch graph_launch + 3 graph_node                       | block
//! ```
//!
//! A graph replays activities only: from its first launch to its last one the interpreter,
//! operators and calls of the runtime vanish. Inputs lie where they lay when it was captured, so
//! that the loader's work ends a range, as do calls that block, handoffs between threads and steps.
//! A range of one launch, or one that costs no less as a graph, stays.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::time::Time;

use super::Effect;
use crate::lanes::{ActivityKind, ActivityRef, DeviceStream, HostItem, HostTime, Lanes};

/// Costs of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphCosts {
    /// Launch of a graph.
    pub launch: Time,
    /// More for each activity in it.
    pub node: Time,
    /// Between two activities of a stream in a graph, where what was recorded is no less.
    pub gap: Time,
}

/// Ranges of a program.
struct Capture<'a> {
    costs: GraphCosts,
    streams: &'a mut [DeviceStream],
    graphs: u64,
    activities: u64,
    left: u64,
    /// Graphs that end at a call that blocks, a handoff, the loader.
    ends: [u64; 3],
}

pub(super) fn capture(lanes: &mut Lanes, costs: GraphCosts) -> Effect {
    let Lanes { threads, streams, .. } = lanes;
    let mut capture = Capture { costs, streams, graphs: 0, activities: 0, left: 0, ends: [0; 3] };
    for thread in threads {
        let items = std::mem::take(&mut thread.items);
        thread.items = capture.thread(items);
    }
    let Capture { graphs, activities, left, ends: [blocks, handoffs, loader], .. } = capture;
    vec![
        ("graphs", graphs),
        ("activities in graphs", activities),
        ("launches left alone", left),
        ("graphs that end at a call that blocks", blocks),
        ("graphs that end at a handoff", handoffs),
        ("graphs that end at the loader", loader),
    ]
}

impl Capture<'_> {
    fn thread(&mut self, items: Vec<HostItem>) -> Vec<HostItem> {
        let mut out = Vec::with_capacity(items.len());
        let mut range = Vec::new();
        for item in items {
            let end = match item {
                HostItem::Launch(_) => None,
                HostItem::Work(time) if time.loader == 0 => None,
                HostItem::Work(_) => Some(2),
                HostItem::Give(_) | HostItem::Take(..) => Some(1),
                HostItem::Lock(_) | HostItem::Unlock(_) | HostItem::Section | HostItem::Stop(_) => Some(1),
                HostItem::Block(_) => Some(0),
                HostItem::Mark => Some(usize::MAX),
            };
            let Some(end) = end else {
                range.push(item);
                continue;
            };
            let outside = self.blocking_copy(item, &range);
            let behind = range.split_off(outside);
            let is_graph = self.range(std::mem::take(&mut range), &mut out);
            if let Some(ends) = self.ends.get_mut(end).filter(|_| is_graph) {
                *ends += 1;
            }
            self.left += u64::from(!behind.is_empty());
            out.extend(behind);
            out.push(item);
        }
        self.range(range, &mut out);
        out
    }

    /// Where the launch of a copy begins that the next item waits for: the call that makes the copy
    /// blocks, and cannot be captured.
    fn blocking_copy(&self, item: HostItem, range: &[HostItem]) -> usize {
        let HostItem::Block(activity) = item else { return range.len() };
        let launch = range.iter().rposition(|item| *item == HostItem::Launch(activity));
        let kind = self.streams[activity.stream as usize].items[activity.number as usize].kind;
        launch.filter(|_| kind == ActivityKind::Copy).unwrap_or(range.len())
    }

    /// Adds a range to `out`, and tells whether it became a graph.
    fn range(&mut self, range: Vec<HostItem>, out: &mut Vec<HostItem>) -> bool {
        let launched = |item: &HostItem| match item {
            HostItem::Launch(activity) => Some(*activity),
            _ => None,
        };
        let activities: BTreeSet<ActivityRef> = range.iter().filter_map(launched).collect();
        let is_launch = |item: &HostItem| matches!(item, HostItem::Launch(_));
        let first = range.iter().position(is_launch).unwrap_or(range.len());
        let last = range.iter().rposition(is_launch).unwrap_or(range.len());
        let count = activities.len() as u64;
        let cost = self.costs.launch.0 + count * self.costs.node.0;
        let behind = range.get(last + 1);
        let within = range.get(first..last).unwrap_or_default().iter().map(|item| match item {
            HostItem::Work(time) => time.total(),
            _ => 0,
        });
        let saved = within.sum::<u64>() + behind.map_or(0, calls);
        if count < 2 || cost > saved {
            self.left += count;
            out.extend(range);
            return false;
        }
        out.extend(&range[..first]);
        // A stream executes in order: activities behind the first one are there when it is.
        let mut firsts: BTreeMap<u32, ActivityRef> = BTreeMap::new();
        for &activity in &activities {
            firsts.entry(activity.stream).or_insert(activity);
        }
        out.extend(firsts.into_values().map(HostItem::Launch));
        out.push(HostItem::Work(HostTime { calls: cost, ..HostTime::default() }));
        for item in &range[last + 1..] {
            match *item {
                HostItem::Work(time) if time.total() > time.calls => {
                    out.push(HostItem::Work(HostTime { calls: 0, ..time }));
                }
                _ => {}
            }
        }
        self.follow(&activities);
        self.graphs += 1;
        self.activities += count;
        true
    }

    /// Activities of a graph follow each other on their streams with its gap.
    fn follow(&mut self, activities: &BTreeSet<ActivityRef>) {
        for activity in activities {
            let next = ActivityRef { number: activity.number + 1, ..*activity };
            if activities.contains(&next) {
                let item = &mut self.streams[activity.stream as usize].items[activity.number as usize];
                item.gap = item.gap.min(self.costs.gap);
            }
        }
    }
}

/// Time in calls of the runtime.
fn calls(item: &HostItem) -> u64 {
    match item {
        HostItem::Work(time) => time.calls,
        _ => 0,
    }
}
