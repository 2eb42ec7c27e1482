//! Groups of alike nodes. Only one node of a group is stored; numbers of parts and links of all its
//! nodes are computed.

use crate::catalogue::Gpu;

use super::graph::{Hop, NodeGraph};
use super::part::{DirectedLink, PartId};

/// Alike nodes.
#[derive(Clone, Debug)]
struct Group {
    graph: NodeGraph,
    nodes: u32,
    /// By GPU of a node, its kind among those of the machine.
    kinds: Vec<u32>,
    first: First,
}

/// Numbers with which a group begins.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    node: u32,
    part: u32,
    hop: u32,
}

/// The nodes of a machine, group after group.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// A GPU of each kind: its name in the catalogue, and its entry.
    kinds: Vec<(String, Gpu)>,
    /// Beyond the last group.
    end: First,
}

/// One node of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeAt<'a> {
    pub number: u32,
    pub graph: &'a NodeGraph,
    kinds: &'a [u32],
    first_part: u32,
    first_hop: u32,
}

impl NodeAt<'_> {
    /// A part of the node, by its number there.
    pub(super) fn part(self, local: u32) -> PartId {
        PartId(self.first_part + local)
    }

    /// A direction of a link of the node.
    pub(super) fn hop(self, hop: Hop) -> DirectedLink {
        DirectedLink(self.first_hop + hop)
    }

    /// The kind of a GPU of the node, by its position there.
    pub(super) fn kind(self, gpu: u32) -> u32 {
        self.kinds[gpu as usize]
    }
}

impl Group {
    fn parts_per_node(&self) -> u32 {
        self.graph.parts.len() as u32
    }

    fn hops_per_node(&self) -> u32 {
        2 * self.graph.wires.len() as u32
    }

    /// A node, by its number within the group.
    fn at(&self, within: u32) -> NodeAt<'_> {
        NodeAt {
            number: self.first.node + within,
            graph: &self.graph,
            kinds: &self.kinds,
            first_part: self.first.part + within * self.parts_per_node(),
            first_hop: self.first.hop + within * self.hops_per_node(),
        }
    }
}

impl Groups {
    /// Changes the nodes of all groups.
    pub(super) fn change_graphs(&mut self, change: impl Fn(&mut NodeGraph)) {
        self.groups.iter_mut().for_each(|group| change(&mut group.graph));
    }

    /// Changes the entries of all GPUs.
    pub(super) fn change_gpus(&mut self, change: impl Fn(&mut Gpu)) {
        let of_nodes = self.groups.iter_mut().flat_map(|group| &mut group.graph.gpus);
        let entries = of_nodes.map(|(_, gpu)| gpu);
        entries.chain(self.kinds.iter_mut().map(|(_, gpu)| gpu)).for_each(change);
    }

    /// Nodes with the same number of GPUs, each graph repeated.
    pub(super) fn new(nodes: Vec<(NodeGraph, u32)>) -> Self {
        let mut all =
            Self { groups: Vec::with_capacity(nodes.len()), kinds: Vec::new(), end: First::default() };
        for (graph, nodes) in nodes {
            let kinds = (0..graph.gpus.len()).map(|gpu| all.kind(&graph, gpu)).collect();
            let group = Group { graph, nodes, kinds, first: all.end };
            all.end.node += nodes;
            all.end.part += nodes * group.parts_per_node();
            all.end.hop += nodes * group.hops_per_node();
            all.groups.push(group);
        }
        all
    }

    /// The kind of a GPU, which is a new one where no GPU before was like it.
    fn kind(&mut self, graph: &NodeGraph, gpu: usize) -> u32 {
        let (part, entry) = &graph.gpus[gpu];
        let name = graph.parts[*part as usize].model.as_deref().unwrap_or_default();
        let known = self.kinds.iter().position(|(other, known)| other == name && known == entry);
        known.unwrap_or_else(|| {
            self.kinds.push((name.to_owned(), entry.clone()));
            self.kinds.len() - 1
        }) as u32
    }

    /// Different GPUs, in the order in which they appear.
    pub(super) fn kinds(&self) -> &[(String, Gpu)] {
        &self.kinds
    }

    /// Number of nodes.
    pub(super) fn nodes(&self) -> u32 {
        self.end.node
    }

    /// Number of parts of all nodes.
    pub(super) fn parts(&self) -> u32 {
        self.end.part
    }

    /// Number of directions of the links of all nodes.
    pub(super) fn hops(&self) -> u32 {
        self.end.hop
    }

    /// GPUs of a node, of which all nodes have as many.
    pub(super) fn gpus_per_node(&self) -> u32 {
        self.groups[0].graph.gpus.len() as u32
    }

    /// The first node of each group.
    pub(super) fn firsts(&self) -> impl ExactSizeIterator<Item = NodeAt<'_>> {
        self.groups.iter().map(|group| group.at(0))
    }

    /// Nodes of a group.
    pub(super) fn nodes_of(&self, group: usize) -> u32 {
        self.groups[group].nodes
    }

    /// A node by its number.
    pub(super) fn node(&self, number: u32) -> Option<NodeAt<'_>> {
        let group = self.last(|first| first.node <= number);
        (number < self.end.node).then(|| group.at(number - group.first.node))
    }

    /// The node of a part, and the number of the part there; nothing for parts of the fabric.
    pub(super) fn of_part(&self, part: PartId) -> Option<(NodeAt<'_>, u32)> {
        let group = self.last(|first| first.part <= part.0);
        let (within, local) = (
            (part.0 - group.first.part) / group.parts_per_node(),
            (part.0 - group.first.part) % group.parts_per_node(),
        );
        (part.0 < self.end.part).then(|| (group.at(within), local))
    }

    /// The node of a direction of a link, and its number there; nothing for those of the fabric.
    pub(super) fn of_hop(&self, link: DirectedLink) -> Option<(NodeAt<'_>, Hop)> {
        let group = self.last(|first| first.hop <= link.0);
        let (hop, each) = (link.0 - group.first.hop, group.hops_per_node());
        (link.0 < self.end.hop).then(|| (group.at(hop / each), hop % each))
    }

    /// The last group that begins before something.
    fn last(&self, begins: impl Fn(First) -> bool) -> &Group {
        let later = self.groups.iter().skip(1).take_while(|group| begins(group.first)).count();
        &self.groups[later]
    }
}
