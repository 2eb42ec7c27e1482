//! The graph that colour refinement works on: ranks, objects, and which slot means what.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::labels::Interner;
use super::usage::{Object, SlotUse};
use crate::id::StreamId;
use crate::platform::Platform;
use crate::program::{Program, StartState};

/// Kinds of nodes, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Rank,
    Fluid,
    Port,
    Pool,
    Store,
    Counter,
    Region,
    Group,
    Queue,
}

pub(super) const KINDS: [Kind; 9] = [
    Kind::Rank,
    Kind::Fluid,
    Kind::Port,
    Kind::Pool,
    Kind::Store,
    Kind::Counter,
    Kind::Region,
    Kind::Group,
    Kind::Queue,
];

/// An edge from a rank or a group to an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    /// The slot, or [`GROUP_ROUTE`].
    pub(super) slot: u32,
    /// Everything else that must be equal, interned with the slot.
    pub(super) label: u32,
}

/// Stands for a slot on the edges from a group.
pub(super) const GROUP_ROUTE: u32 = u32::MAX;

pub(super) struct Graph<'a> {
    pub(super) platform: &'a Platform,
    pub(super) program: &'a Program,
    /// First node of each kind, and the number of nodes.
    starts: [usize; KINDS.len() + 1],
    /// What must be equal within a class, interned.
    pub(super) labels: Vec<u32>,
    /// Grouped by `from`; the demands of a route are in its order.
    pub(super) edges: Vec<Edge>,
    /// First edge of each node, and the number of edges.
    pub(super) first_edge: Vec<usize>,
    /// Nodes that serve in order: at most one rank of a class may use them.
    pub(super) in_order: Vec<bool>,
    /// Streams of each rank, ascending.
    pub(super) streams: Vec<Vec<StreamId>>,
    /// Slots used by ranks of a label.
    pub(super) uses: BTreeMap<u32, Rc<[SlotUse]>>,
    /// First and last cell of ranges that no rank reaches beyond.
    pub(super) regions: Vec<(u32, u32)>,
}

impl<'a> Graph<'a> {
    /// The graph of a valid program; none if folding does not follow what it does.
    pub(super) fn new(platform: &'a Platform, program: &'a Program, start: &StartState) -> Option<Self> {
        let mut graph = Self {
            platform,
            program,
            starts: [0; KINDS.len() + 1],
            labels: Vec::new(),
            edges: Vec::new(),
            first_edge: vec![0],
            in_order: Vec::new(),
            streams: vec![Vec::new(); program.bindings.len()],
            uses: BTreeMap::new(),
            regions: Vec::new(),
        };
        for (index, stream) in program.streams.iter().enumerate() {
            graph.streams[stream.binding.index()].push(StreamId::from(index));
        }
        let mut labels = Interner::default();
        graph.label_ranks(&mut labels)?;
        graph.find_regions();
        graph.number_nodes();
        graph.label_objects(&mut labels, start);
        graph.connect(&mut labels);
        graph.find_in_order();
        Some(graph)
    }

    pub(super) fn len(&self) -> usize {
        self.starts[KINDS.len()]
    }

    pub(super) fn node(&self, kind: Kind, id: u32) -> usize {
        self.starts[kind as usize] + id as usize
    }

    /// The nodes of a kind.
    pub(super) fn nodes(&self, kind: Kind) -> Range<usize> {
        self.starts[kind as usize]..self.starts[kind as usize + 1]
    }

    /// The kind of a node and its id.
    pub(super) fn kind(&self, node: usize) -> (Kind, u32) {
        let kind = self.starts.partition_point(|&start| start <= node) - 1;
        (KINDS[kind], (node - self.starts[kind]) as u32)
    }

    pub(super) fn edges_of(&self, node: usize) -> &[Edge] {
        &self.edges[self.first_edge[node]..self.first_edge[node + 1]]
    }

    /// The edges for the demands of the route in `slot`, in the route's order.
    pub(super) fn demands_of(&self, node: usize, slot: u32) -> impl Iterator<Item = &Edge> {
        self.edges_of(node)
            .iter()
            .filter(move |e| e.slot == slot && self.nodes(Kind::Fluid).contains(&(e.to as usize)))
    }

    /// The slots a rank uses.
    pub(super) fn slots_of(&self, rank: usize) -> &[SlotUse] {
        &self.uses[&self.labels[rank]]
    }

    /// The object that a slot's value stands for, if it is one node (a route is several).
    pub(super) fn object(&self, object: Object, value: u32) -> Option<usize> {
        let kind = match object {
            Object::Route => return None,
            Object::Cell => return Some(self.node(Kind::Region, self.region(value))),
            Object::Pool => Kind::Pool,
            Object::Store => Kind::Store,
            Object::Counter => Kind::Counter,
            Object::Group => Kind::Group,
            Object::Queue => Kind::Queue,
        };
        Some(self.node(kind, value))
    }

    /// The region of a cell that some slot stands for.
    pub(super) fn region(&self, cell: u32) -> u32 {
        (self.regions.partition_point(|&(first, _)| first <= cell) - 1) as u32
    }

    /// Marks nodes as serving in order, and with a fluid the groups whose route crosses it.
    pub(super) fn serve_in_order(&mut self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            self.in_order[node] = true;
        }
        let groups = self.first_edge[self.nodes(Kind::Group).start];
        for edge in &self.edges[groups..] {
            self.in_order[edge.from as usize] |= self.in_order[edge.to as usize];
        }
    }

    /// Merges the cells that ranks may reach from their slots into ranges that do not overlap.
    fn find_regions(&mut self) {
        let last = i64::from(self.program.cells) - 1;
        let mut spans = Vec::new();
        for (rank, binding) in self.program.bindings.iter().enumerate() {
            for used in self.slots_of(rank).iter().filter(|used| used.object == Object::Cell) {
                let cell = i64::from(binding.slots[used.slot as usize]);
                let reach = |offset: i64| cell.saturating_add(offset).clamp(0, last) as u32;
                spans.push((reach(used.offsets.0), reach(used.offsets.1)));
            }
        }
        spans.sort_unstable();
        for (first, last) in spans {
            match self.regions.last_mut() {
                Some(region) if first <= region.1 => region.1 = region.1.max(last),
                _ => self.regions.push((first, last)),
            }
        }
    }

    fn number_nodes(&mut self) {
        let (platform, program) = (self.platform, self.program);
        let counts = [
            program.bindings.len(),
            platform.fluids.len(),
            platform.ports as usize,
            platform.pools.len(),
            platform.stores.len(),
            program.counters as usize,
            self.regions.len(),
            program.groups.len(),
            program.queues.len(),
        ];
        for (kind, count) in counts.into_iter().enumerate() {
            self.starts[kind + 1] = self.starts[kind] + count;
        }
    }

    /// Region of a cell and its place therein; none for a cell that no rank reaches.
    pub(super) fn place(&self, cell: u32) -> Option<(u32, u32)> {
        let after = self.regions.partition_point(|&(first, _)| first <= cell);
        let region = after.checked_sub(1)?;
        let (first, last) = self.regions[region];
        (cell <= last).then_some((region as u32, cell - first))
    }

    /// Pools, stores, queues, cells and ports; fluids with a bucket or ports; counters that change in the middle of an
    /// instant; groups that not every member joins once a round (joined by posted blocks, or by more or fewer streams
    /// than they have members).
    fn find_in_order(&mut self) {
        self.in_order = vec![false; self.len()];
        let mut nodes: Vec<usize> = [Kind::Port, Kind::Pool, Kind::Store, Kind::Region, Kind::Queue]
            .into_iter()
            .flat_map(|kind| self.nodes(kind))
            .collect();
        let buckets =
            self.nodes(Kind::Fluid).zip(&self.platform.fluids).filter(|(_, fluid)| fluid.bucket.is_some());
        nodes.extend(buckets.map(|(node, _)| node));
        let demands = self.platform.routes.iter().flat_map(|route| &route.demands);
        nodes.extend(demands.filter(|d| d.port.is_some()).map(|d| self.node(Kind::Fluid, d.fluid.0)));

        let mut joiners = vec![0u64; self.program.groups.len()];
        for (rank, binding) in self.program.bindings.iter().enumerate() {
            for used in self.slots_of(rank) {
                let value = binding.slots[used.slot as usize];
                if used.immediate {
                    nodes.push(self.node(Kind::Counter, value));
                }
                if used.object == Object::Group {
                    let more = if used.posted { u64::MAX } else { used.joiners.into() };
                    joiners[value as usize] = joiners[value as usize].saturating_add(more);
                }
            }
        }
        for ((node, group), joiners) in self.nodes(Kind::Group).zip(&self.program.groups).zip(joiners) {
            if u64::from(group.members) != joiners {
                nodes.push(node);
            }
        }
        self.serve_in_order(nodes);
    }
}
