//! Lanes of a graph: its nodes in their sequence on threads and streams, and dependencies between
//! lanes as launches, waits and handoffs.
//!
//! | from | to | becomes |
//! |---|---|---|
//! | thread | stream | a launch, of every thread that the activity depends on |
//! | stream | thread | a wait of the thread until the activity has ended |
//! | stream | stream | a wait of the activity |
//! | thread | thread | a handoff over the channel of the two |
//!
//! Lanes are in order: a dependency on a node implies those on all before it on that lane, so that
//! only the last one of each lane is kept, and only if no node before on the own lane had it.

use std::collections::BTreeMap;

use sim_core::time::Time;

use super::graph::{Dependencies, Graph, GraphNode, Lane, Work};
use super::sequence::Sequence;
use crate::lanes::{
    ActivityKind, ActivityRef, DeviceItem, DeviceStream, HostItem, HostTime, Lanes, Thread, Why,
};
use crate::trace::skew::Shortest;
use crate::trace::traced::{Findings, Traced};

/// Picoseconds of a microsecond.
const MICROSECOND: u64 = 1_000_000;

impl Graph {
    /// The program of the graph.
    pub fn traced(mut self) -> Traced {
        let dependencies = self.dependencies();
        let sequence = Sequence::of(&self.nodes, &dependencies);
        let counts = std::mem::take(&mut self.counts);
        let names = std::mem::take(&mut self.names);
        let mut findings = Findings {
            counts,
            missing_dependencies: dependencies.missing,
            untimed: self.untimed,
            placed: self.placed,
            ..Findings::default()
        };
        let begins = self.nodes.iter().filter_map(|node| node.begin).min();
        let ends = self.nodes.iter().filter_map(|node| Some(node.begin? + node.duration)).max();
        let recorded = begins.zip(ends).map(|(begin, end)| Time((end - begin) * MICROSECOND));
        let mut building = Building::new(&self, &dependencies, &sequence, begins.unwrap_or(0), &mut findings);
        sequence.order.iter().for_each(|&node| building.add(node));
        let lanes = building.finish();
        Traced {
            lanes,
            names,
            devices: BTreeMap::new(),
            rank: None,
            recorded_steps: Vec::new(),
            recorded,
            findings,
        }
    }
}

/// Lanes that grow node by node.
struct Building<'a> {
    graph: &'a Graph,
    dependencies: &'a Dependencies,
    sequence: &'a Sequence,
    findings: &'a mut Findings,
    shortest: Shortest,
    /// By lane, its number among threads or streams.
    numbers: Vec<u32>,
    threads: Vec<Growing>,
    streams: Vec<DeviceStream>,
    /// By node, its place on its lane.
    places: Vec<u32>,
    /// By lane and lane, the last place there that a node here depends on.
    awaited: BTreeMap<(u32, u32), u32>,
    /// By thread and stream, the place after which the last launch stands.
    launched: BTreeMap<(u32, u32), u32>,
    /// By threads, from and to.
    channels: BTreeMap<(u32, u32), u32>,
}

/// A thread that grows. Launches and handoffs are put behind nodes that stand already.
#[derive(Default)]
struct Growing {
    name: String,
    /// By node: waits before it, and its own time.
    nodes: Vec<(Vec<HostItem>, HostTime)>,
    /// Items behind nodes: place, handoffs first, order of coming.
    behind: Vec<(u32, bool, HostItem)>,
    /// Until here its recorded time is told (us).
    cursor: u64,
}

impl<'a> Building<'a> {
    fn new(
        graph: &'a Graph,
        dependencies: &'a Dependencies,
        sequence: &'a Sequence,
        origin: u64,
        findings: &'a mut Findings,
    ) -> Self {
        let recorded = graph.lanes.iter().filter_map(|lane| match lane {
            Lane::Stream(stream) => Some(*stream),
            _ => None,
        });
        // Numbers that no recorded stream has.
        let free = recorded.max().map_or(0, |last| last.saturating_add(1));
        let (mut threads, mut streams): (Vec<Growing>, Vec<DeviceStream>) = Default::default();
        let mut numbers = Vec::new();
        for lane in &graph.lanes {
            let name = match *lane {
                Lane::Thread(Some(thread)) => Ok(thread.to_string()),
                Lane::Thread(None) => Ok("host".to_owned()),
                Lane::Stream(stream) => Err(stream),
                Lane::Resource(resource) => Err(free.saturating_add(resource as i64)),
            };
            match name {
                Ok(name) => {
                    numbers.push(threads.len() as u32);
                    threads.push(Growing { name, cursor: origin, ..Growing::default() });
                }
                Err(stream) => {
                    numbers.push(streams.len() as u32);
                    streams.push(DeviceStream { id: (0, stream), items: Vec::new() });
                }
            }
        }
        let mut shortest = Shortest::default();
        for node in graph.nodes.iter().filter(|node| node.work == Work::Device(ActivityKind::Collective)) {
            shortest.add((node.name, node.bytes), node.duration);
        }
        let places = vec![0; graph.nodes.len()];
        let (awaited, launched, channels) = Default::default();
        Self {
            graph,
            dependencies,
            sequence,
            findings,
            shortest,
            numbers,
            threads,
            streams,
            places,
            awaited,
            launched,
            channels,
        }
    }

    fn add(&mut self, id: u32) {
        let node = self.graph.nodes[id as usize];
        let before = self.before(id, node.lane);
        match node.work {
            Work::Device(kind) => self.activity(id, node, kind, &before),
            _ => self.step(id, node, &before),
        }
    }

    /// By other lane, the last node there that a node depends on.
    fn before(&mut self, id: u32, lane: u32) -> BTreeMap<u32, u32> {
        let mut last: BTreeMap<u32, u32> = BTreeMap::new();
        for &on in self.dependencies.of(id) {
            if self.sequence.places[on as usize] >= self.sequence.places[id as usize] {
                self.findings.circular_dependencies += 1;
                continue;
            }
            let other = self.graph.nodes[on as usize].lane;
            if other != lane {
                let known = last.entry(other).or_insert(on);
                if self.places[on as usize] > self.places[*known as usize] {
                    *known = on;
                }
            }
        }
        last
    }

    /// Tells a place on another lane that no node here depends on already, and keeps it.
    fn is_new(&mut self, lane: u32, other: u32, place: u32) -> bool {
        let known = self.awaited.get(&(lane, other));
        let is_new = known.is_none_or(|known| *known < place);
        if is_new {
            self.awaited.insert((lane, other), place);
        }
        is_new
    }

    fn is_stream(&self, lane: u32) -> bool {
        !matches!(self.graph.lanes[lane as usize], Lane::Thread(_))
    }

    fn activity(&mut self, id: u32, node: GraphNode, kind: ActivityKind, before: &BTreeMap<u32, u32>) {
        let stream = self.numbers[node.lane as usize];
        let place = self.streams[stream as usize].items.len() as u32;
        let launcher = before.iter().filter(|(lane, _)| !self.is_stream(**lane));
        let launcher = launcher.max_by_key(|(_, on)| self.sequence.places[**on as usize]);
        let launcher = launcher.map(|(lane, _)| *lane);
        let mut after = Vec::new();
        for (&lane, &on) in before {
            let (number, there) = (self.numbers[lane as usize], self.places[on as usize]);
            let is_new = self.is_new(node.lane, lane, there);
            if self.is_stream(lane) {
                if is_new {
                    after.push(ActivityRef { stream: number, number: there });
                }
            } else if is_new || launcher == Some(lane) {
                // A stream takes launches in order: one that waits for what the launch before it
                // waits for is not launched earlier.
                let behind = self.launched.entry((number, stream)).or_insert(there);
                *behind = (*behind).max(there);
                let launch = HostItem::Launch(ActivityRef { stream, number: place });
                self.threads[number as usize].behind.push((*behind, true, launch));
            }
        }
        self.findings.not_launched += u64::from(launcher.is_none());
        self.findings.recorded_waits += after.len() as u64;
        let duration = Time(node.duration * MICROSECOND);
        let skew = match kind {
            ActivityKind::Collective => self.shortest.beyond((node.name, node.bytes), node.duration),
            _ => 0,
        };
        self.streams[stream as usize].items.push(DeviceItem {
            name: node.name,
            kind,
            duration,
            skew: Time(skew * MICROSECOND),
            latency: Time::ZERO,
            gap: Time::ZERO,
            occupied: None,
            after,
        });
        self.places[id as usize] = place;
    }

    /// A node of a thread.
    fn step(&mut self, id: u32, node: GraphNode, before: &BTreeMap<u32, u32>) {
        let thread = self.numbers[node.lane as usize];
        let mut waits = Vec::new();
        // Recorded ends of what it waits for (us).
        let (mut let_on, mut ended) = (0, 0);
        for (&lane, &on) in before {
            let (number, there) = (self.numbers[lane as usize], self.places[on as usize]);
            let other = self.graph.nodes[on as usize];
            let end = other.begin.map_or(0, |begin| begin + other.duration);
            if !self.is_new(node.lane, lane, there) {
                continue;
            }
            if self.is_stream(lane) {
                waits.push(HostItem::Block(ActivityRef { stream: number, number: there }));
                ended = end.max(ended);
            } else {
                let next = self.channels.len() as u32;
                let channel = *self.channels.entry((number, thread)).or_insert(next);
                self.threads[number as usize].behind.push((there, false, HostItem::Give(channel)));
                waits.push(HostItem::Take(channel, Why::Thread));
                self.findings.recorded_handoffs += 1;
                let_on = end.max(let_on);
            }
        }
        let blocks = waits.iter().any(|item| matches!(item, HostItem::Block(_)));
        self.findings.blocking_calls += u64::from(blocks);
        let growing = &mut self.threads[thread as usize];
        let time = growing.time(node, ended, let_on);
        self.places[id as usize] = growing.nodes.len() as u32;
        growing.nodes.push((waits, time));
    }

    fn finish(self) -> Lanes {
        let threads = self.threads.into_iter().map(Growing::finish).collect();
        Lanes { threads, streams: self.streams, channels: self.channels.len() as u32, ..Lanes::default() }
    }
}

impl Growing {
    /// The own time of a node, and of the interpreter before it. Where begins are recorded, time
    /// that passed in a wait is not its own.
    fn time(&mut self, node: GraphNode, ended: u64, let_on: u64) -> HostTime {
        let mut time = HostTime::default();
        let mut own = node.duration;
        if let Some(begin) = node.begin {
            let free = self.cursor.max(ended).max(let_on);
            time.python = begin.saturating_sub(free) * MICROSECOND;
            // An operator that begins before the activity ends blocks until then.
            own = own.min((begin + own).saturating_sub(ended));
            self.cursor = self.cursor.max(begin).max(ended) + own;
        }
        let own = own * MICROSECOND;
        match node.work {
            Work::Operator => time.dispatch = own,
            Work::Call => time.calls = own,
            Work::Annotation => time.python += own,
            Work::Loader => time.loader = own,
            Work::Order | Work::Device(_) => {}
        }
        time
    }

    fn finish(mut self) -> Thread {
        self.behind.sort_by_key(|&(place, launches, _)| (place, launches));
        let mut behind = self.behind.into_iter().peekable();
        let mut items = Vec::new();
        for (place, (waits, time)) in (0..).zip(self.nodes) {
            items.extend(waits);
            if time.total() > 0 {
                items.push(HostItem::Work(time));
            }
            while let Some((.., item)) = behind.next_if(|(at, ..)| *at == place) {
                items.push(item);
            }
        }
        Thread { name: self.name, items }
    }
}
