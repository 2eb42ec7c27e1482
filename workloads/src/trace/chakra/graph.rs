//! Nodes of a Chakra file: where each executes, how long it takes, what it comes after.

use std::collections::BTreeMap;

use super::message::{Node, Value};
use crate::lanes::ActivityKind;
use crate::trace::host::{LOADER, is_annotation};
use crate::trace::names::Names;
use crate::trace::recording::{Counts, NameId};

/// Most nodes that are kept of one file.
pub(super) const NODES_MAX: usize = 1_000_000;

/// Most dependencies that are kept of one file.
pub(super) const DEPENDENCIES_MAX: usize = 16_000_000;

/// Most bytes of a name, and of all different ones.
const NAME_MAX: usize = 1_024;
const NAMES_MAX: usize = 64 << 20;

/// Most threads and streams that a graph has together.
const LANES_MAX: usize = 4_096;

/// Longest time that a node may take, and farthest from the first that one may begin (us): a day.
const SPAN_MAX: u64 = 86_400_000_000;

/// Longest time that all nodes may take together (us): what runs takes picoseconds in 64 bits.
const TOTAL_MAX: u64 = 100 * SPAN_MAX;

/// Dependencies that are read past, as they are counted.
const CALLERS: &str = "control dependencies, which say who called";

/// A graph of operations.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(super) names: Names,
    name_bytes: usize,
    pub(super) nodes: Vec<GraphNode>,
    data: Edges,
    /// Control dependencies, as long as no node has a data dependency.
    control: Edges,
    /// By number of the file, the position of the node.
    by_id: BTreeMap<u64, u32>,
    /// Where nodes execute, in the order of the first node.
    pub(super) lanes: Vec<Lane>,
    by_lane: BTreeMap<Lane, u32>,
    /// Begin of the first node that has one (us).
    first: Option<u64>,
    /// Time of all nodes (us).
    total: u64,
    /// Device nodes whose duration depends on a machine.
    pub(super) untimed: u64,
    /// Nodes that do not say where they execute.
    pub(super) placed: u64,
    /// Numbers of messages, understood or not.
    pub counts: Counts,
}

/// A node of the graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct GraphNode {
    pub(super) id: u64,
    pub(super) name: NameId,
    /// Index into [`Graph::lanes`].
    pub(super) lane: u32,
    pub(super) work: Work,
    /// Recorded begin (us); `None` where it is not recorded.
    pub(super) begin: Option<u64>,
    /// How long it takes (us).
    pub(super) duration: u64,
    /// Bytes of a collective or copy.
    pub(super) bytes: Option<u64>,
}

/// Dependencies of all nodes, one node after the other.
#[derive(Clone, Debug, Default)]
struct Edges {
    /// Numbers of the file.
    ids: Vec<u64>,
    /// By node, the end of its own.
    ends: Vec<u32>,
}

impl Edges {
    fn add(&mut self, ids: &[u64]) {
        self.ids.extend(ids);
        self.ends.push(self.ids.len() as u32);
    }

    fn of(&self, node: u32) -> &[u64] {
        let begin = node.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.ids[begin as usize..self.ends[node as usize] as usize]
    }
}

/// Work of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// An operator of the host.
    Operator,
    /// A call of the device's runtime.
    Call,
    /// An annotation: its own time is that of the interpreter.
    Annotation,
    /// The loader, or an operation on storage.
    Loader,
    /// Nothing: it only orders others.
    Order,
    /// An activity of the device.
    Device(ActivityKind),
}

/// Where nodes execute, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// A thread of the host. `None`: nodes that do not say which.
    Thread(Option<i64>),
    /// A stream of the device.
    Stream(i64),
    /// Nodes of a kind that do not say on which stream they are.
    Resource(Resource),
}

/// Parts of a device that work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    Compute,
    Communication,
    Memory,
}

/// Attributes of a node that are of interest.
#[derive(Default)]
struct Facts {
    is_host: bool,
    thread: Option<i64>,
    stream: Option<i64>,
    /// Operations, or bytes of a tensor.
    has_size: bool,
    comm_bytes: Option<u64>,
}

impl Graph {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.nodes.len() > NODES_MAX
            || self.data.ids.len() + self.control.ids.len() > DEPENDENCIES_MAX
            || self.name_bytes > NAMES_MAX
    }

    pub(super) fn has_times(&self) -> bool {
        self.nodes.iter().any(|node| node.duration > 0)
    }

    pub(super) fn refuse(&mut self, reason: &'static str) {
        *self.counts.refused.entry(reason).or_default() += 1;
    }

    /// Adds a node, or counts it as left out.
    pub(super) fn add(&mut self, node: &Node) {
        if let Err(reason) = self.keep(node) {
            self.refuse(reason);
        }
    }

    fn keep(&mut self, node: &Node) -> Result<(), &'static str> {
        if self.by_id.contains_key(&node.id) {
            return Err("an id that another node has");
        }
        let begin = self.begin(node.start_time_micros)?;
        if node.duration_micros > SPAN_MAX {
            return Err("a duration of more than a day, or a negative one");
        }
        if self.total + node.duration_micros > TOTAL_MAX {
            return Err("durations of more than a hundred days in all");
        }
        let facts = Facts::of(node);
        let name = String::from_utf8_lossy(&node.name);
        let name = name.char_indices().nth(NAME_MAX).map_or(&name[..], |(end, _)| &name[..end]);
        let (work, kind) = self.work(node.kind, &facts, name);
        let lane = self.lane(work, &facts)?;
        let is_untimed =
            node.duration_micros == 0 && matches!(work, Work::Device(_)) && facts.says_size(work);
        self.untimed += u64::from(is_untimed);
        let names = self.names.len();
        let name_id = self.names.id(name);
        if self.names.len() > names {
            self.name_bytes += name.len();
        }
        self.data.add(&node.data_deps);
        if self.data.ids.is_empty() {
            self.control.add(&node.ctrl_deps);
        } else {
            self.control = Edges::default();
        }
        if !node.ctrl_deps.is_empty() {
            *self.counts.ignored.entry(CALLERS.to_owned()).or_default() += node.ctrl_deps.len() as u64;
        }
        self.total += node.duration_micros;
        self.by_id.insert(node.id, self.nodes.len() as u32);
        self.nodes.push(GraphNode {
            id: node.id,
            name: name_id,
            lane,
            work,
            begin,
            duration: if work == Work::Order { 0 } else { node.duration_micros },
            bytes: facts.comm_bytes,
        });
        *self.counts.understood.entry(kind).or_default() += 1;
        Ok(())
    }

    /// A recorded begin; converters that know none write 0.
    fn begin(&mut self, recorded: u64) -> Result<Option<u64>, &'static str> {
        if recorded == 0 {
            return Ok(None);
        }
        if recorded > i64::MAX as u64 {
            return Err("a negative begin");
        }
        let first = *self.first.get_or_insert(recorded);
        match recorded.abs_diff(first) > SPAN_MAX {
            true => Err("begins more than a day behind the first"),
            false => Ok(Some(recorded)),
        }
    }

    /// Work of a node of a type of the schema, and the kind as which it is counted.
    fn work(&mut self, kind: i32, facts: &Facts, name: &str) -> (Work, &'static str) {
        let device = |kind, name| (Work::Device(kind), name);
        match kind {
            1 => (Work::Order, "metadata"),
            2..=7 if facts.is_host => match name {
                _ if name.starts_with(LOADER) => (Work::Loader, "operators and annotations"),
                _ if is_annotation(name) => (Work::Annotation, "operators and annotations"),
                _ if is_call(name) => (Work::Call, "calls of the runtime"),
                _ => (Work::Operator, "operators and annotations"),
            },
            2 | 3 => device(ActivityKind::Copy, "copies"),
            4 if name.starts_with("Memcpy") => device(ActivityKind::Copy, "copies"),
            4 if name.starts_with("Memset") => device(ActivityKind::Fill, "fills"),
            4 => device(ActivityKind::Kernel, "kernels"),
            5 | 6 => device(ActivityKind::Collective, "sends and receives"),
            7 => device(ActivityKind::Collective, "collectives"),
            8 => (Work::Loader, "operations on storage"),
            other => {
                let what = format!("nodes of type {other}, kept for their dependencies");
                // A file of random types has no use for more rows.
                if self.counts.ignored.len() < 64 || self.counts.ignored.contains_key(&what) {
                    *self.counts.ignored.entry(what).or_default() += 1;
                }
                (Work::Order, "nodes that only order others")
            }
        }
    }

    fn lane(&mut self, work: Work, facts: &Facts) -> Result<u32, &'static str> {
        let lane = match work {
            Work::Device(kind) => match (facts.stream.or(facts.thread), kind) {
                (Some(stream), _) => Lane::Stream(stream),
                (None, ActivityKind::Kernel) => Lane::Resource(Resource::Compute),
                (None, ActivityKind::Collective) => Lane::Resource(Resource::Communication),
                (None, ActivityKind::Copy | ActivityKind::Fill) => Lane::Resource(Resource::Memory),
            },
            _ => Lane::Thread(facts.thread.filter(|_| facts.is_host)),
        };
        self.placed += u64::from(matches!(lane, Lane::Thread(None) | Lane::Resource(_)));
        if let Some(&known) = self.by_lane.get(&lane) {
            return Ok(known);
        }
        if self.lanes.len() >= LANES_MAX {
            return Err("more threads and streams than a program has");
        }
        let number = self.lanes.len() as u32;
        self.lanes.push(lane);
        self.by_lane.insert(lane, number);
        Ok(number)
    }

    /// Takes the dependencies out of the graph.
    ///
    /// Data dependencies order a program, as converters write them; control dependencies say who
    /// called whom, and order it only in files that have no others.
    pub(super) fn dependencies(&mut self) -> Dependencies {
        let edges = match self.data.ids.is_empty() {
            true => {
                self.counts.ignored.remove(CALLERS);
                std::mem::take(&mut self.control)
            }
            false => std::mem::take(&mut self.data),
        };
        let by_id = std::mem::take(&mut self.by_id);
        let mut dependencies = Dependencies::default();
        for node in 0..self.nodes.len() as u32 {
            let known = edges.of(node).iter().filter_map(|id| by_id.get(id));
            dependencies.on.extend(known);
            dependencies.ends.push(dependencies.on.len() as u32);
        }
        dependencies.missing = (edges.ids.len() - dependencies.on.len()) as u64;
        dependencies
    }
}

/// Dependencies by positions of nodes.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    /// Positions of nodes, those of one node after those of the other.
    pub(super) on: Vec<u32>,
    /// By node, the end of its own.
    ends: Vec<u32>,
    /// Dependencies on nodes that the file does not have.
    pub(super) missing: u64,
}

impl Dependencies {
    /// Nodes that a node depends on.
    pub(super) fn of(&self, node: u32) -> &[u32] {
        let begin = node.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.on[begin as usize..self.ends[node as usize] as usize]
    }
}

/// Calls of CUDA or HIP, by name.
fn is_call(name: &str) -> bool {
    ["cuda", "hip", "cuLaunch"].iter().any(|start| name.starts_with(start))
}

impl Facts {
    fn of(node: &Node) -> Self {
        let mut facts = Self::default();
        for attribute in &node.attr {
            let Some(value) = attribute.value.and_then(Value::integer) else { continue };
            match attribute.name.as_slice() {
                b"is_cpu_op" => facts.is_host = value != 0,
                b"tid" => facts.thread = Some(value),
                b"stream" => facts.stream = Some(value),
                b"num_ops" | b"tensor_size" => facts.has_size |= value > 0,
                b"comm_size" => facts.comm_bytes = value.try_into().ok(),
                _ => {}
            }
        }
        facts
    }

    /// Tells a node that says its size: without a duration, a machine would give it one.
    fn says_size(&self, work: Work) -> bool {
        self.has_size || self.comm_bytes.is_some() || work == Work::Device(ActivityKind::Collective)
    }
}
