//! Elementwise kernels that follow each other on a stream become one kernel, as a fusing compiler
//! makes of them.
//!
//! A chain ends where something else is launched, where a member waits for another stream, where
//! something waits for a member, and where its thread blocks, hands over or loads. It saves
//! launches, dispatch of operators but one, and gaps. How much memory traffic it saves depends on
//! what a trace does not tell:
//!
//! | members work on | the kernel takes | because |
//! |---|---|---|
//! | one tensor ([`Merged::Chained`]) | the longest time of a member | it reads and writes once |
//! | tensors of their own ([`Merged::Batched`]) | the sum of times | all bytes are moved |
//!
//! The truth lies between the two.

use std::collections::{BTreeMap, BTreeSet};

use super::Effect;
use super::classes::KernelClass;
use crate::lanes::{ActivityKind, ActivityRef, DeviceItem, HostItem, Lanes, NameId};
use crate::trace::names::Names;

/// How long a merged kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// Members work on one tensor: as long as the longest.
    Chained,
    /// Members work on tensors of their own: as long as all of them.
    Batched,
}

pub(super) fn merge(lanes: &mut Lanes, names: &Names, merged: Merged) -> Effect {
    let mut finding = Finding::of(lanes, names);
    let chains: Vec<Chain> =
        (0..lanes.threads.len()).flat_map(|thread| finding.chains(lanes, thread)).collect();
    let mut kept: BTreeMap<ActivityRef, ActivityRef> = BTreeMap::new();
    for Chain { thread, stream, numbers, items } in &chains {
        let of = |&number: &u32| ActivityRef { stream: *stream, number };
        let first = of(&numbers[0]);
        kept.extend(numbers[1..].iter().map(|number| (of(number), first)));
        let members: Vec<DeviceItem> = numbers
            .iter()
            .map(|&number| lanes.streams[*stream as usize].items[number as usize].clone())
            .collect();
        let item = &mut lanes.streams[*stream as usize].items[numbers[0] as usize];
        let longest = members.iter().max_by_key(|member| member.duration);
        item.occupied = longest.and_then(|longest| longest.occupied);
        item.duration = match merged {
            Merged::Chained => longest.map_or(item.duration, |longest| longest.duration),
            Merged::Batched => members.iter().fold(sim_core::time::Time::ZERO, |sum, it| sum + it.duration),
        };
        item.gap = members.last().map_or(item.gap, |last| last.gap);
        for item in &mut lanes.threads[*thread].items[items.0..items.1] {
            if let HostItem::Work(time) = item {
                (time.dispatch, time.calls) = (0, 0);
            }
        }
    }
    remove(lanes, &kept);
    vec![
        ("chains of elementwise kernels", chains.len() as u64),
        ("kernels in them", (chains.len() + kept.len()) as u64),
    ]
}

/// Elementwise kernels that follow each other.
struct Chain {
    thread: usize,
    stream: u32,
    numbers: Vec<u32>,
    /// Positions of the first and the last launch on the thread.
    items: (usize, usize),
}

/// Facts by which members are found.
struct Finding {
    /// By name, whether a kernel is elementwise.
    elementwise: BTreeSet<NameId>,
    /// Activities that something waits for.
    awaited: BTreeSet<ActivityRef>,
    /// Activities that several threads launch.
    shared: BTreeSet<ActivityRef>,
}

impl Finding {
    fn of(lanes: &Lanes, names: &Names) -> Self {
        let items = lanes.streams.iter().flat_map(|stream| &stream.items);
        let used: BTreeSet<NameId> = items.clone().map(|item| item.name).collect();
        let is_elementwise = |id: &NameId| KernelClass::of(names.name(*id)) == KernelClass::Elementwise;
        let mut awaited: BTreeSet<ActivityRef> = items.flat_map(|item| &item.after).copied().collect();
        let (mut launched, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for item in lanes.threads.iter().flat_map(|thread| &thread.items) {
            match *item {
                HostItem::Block(activity) => _ = awaited.insert(activity),
                HostItem::Launch(activity) if !launched.insert(activity) => _ = shared.insert(activity),
                _ => {}
            }
        }
        Self { elementwise: used.into_iter().filter(is_elementwise).collect(), awaited, shared }
    }

    /// The chains of two kernels and more that a thread launches.
    fn chains(&mut self, lanes: &Lanes, thread: usize) -> Vec<Chain> {
        let mut chains: Vec<Chain> = Vec::new();
        let mut is_open = false;
        for (position, item) in lanes.threads[thread].items.iter().enumerate() {
            let activity = match item {
                HostItem::Launch(activity) => *activity,
                HostItem::Work(time) if time.loader == 0 => continue,
                _ => {
                    is_open = false;
                    continue;
                }
            };
            let item = &lanes.streams[activity.stream as usize].items[activity.number as usize];
            if item.kind != ActivityKind::Kernel
                || !self.elementwise.contains(&item.name)
                || self.shared.contains(&activity)
            {
                is_open = false;
                continue;
            }
            let follows = |chain: &&mut Chain| {
                let next = chain.numbers.last().map(|last| last + 1);
                chain.stream == activity.stream && next == Some(activity.number) && item.after.is_empty()
            };
            match chains.last_mut().filter(|_| is_open).filter(follows) {
                Some(chain) => {
                    chain.numbers.push(activity.number);
                    chain.items.1 = position;
                }
                None => {
                    let (stream, numbers) = (activity.stream, vec![activity.number]);
                    chains.push(Chain { thread, stream, numbers, items: (position, position) });
                }
            }
            is_open = !self.awaited.contains(&activity);
        }
        chains.retain(|chain| chain.numbers.len() > 1);
        chains
    }
}

/// Takes activities out that have become part of others, which are `kept`.
fn remove(lanes: &mut Lanes, kept: &BTreeMap<ActivityRef, ActivityRef>) {
    let mut numbers: Vec<Vec<u32>> = Vec::with_capacity(lanes.streams.len());
    for (stream, number) in lanes.streams.iter_mut().zip(0u32..) {
        let is_kept = |at: u32| !kept.contains_key(&ActivityRef { stream: number, number: at });
        let mut next = 0;
        let renumbered = (0..stream.items.len() as u32).map(|at| {
            next += u32::from(is_kept(at));
            next.saturating_sub(1)
        });
        numbers.push(renumbered.collect());
        let mut at = 0;
        stream.items.retain(|_| {
            at += 1;
            is_kept(at - 1)
        });
    }
    // One that has become part of another has the number of that, as those between are parts too.
    let place = |it: &mut ActivityRef| it.number = numbers[it.stream as usize][it.number as usize];
    lanes
        .streams
        .iter_mut()
        .flat_map(|stream| &mut stream.items)
        .flat_map(|item| &mut item.after)
        .for_each(place);
    for thread in &mut lanes.threads {
        thread.items.retain(|item| !matches!(item, HostItem::Launch(it) if kept.contains_key(it)));
        for item in &mut thread.items {
            if let HostItem::Launch(it) | HostItem::Block(it) = item {
                place(it);
            }
        }
    }
}
