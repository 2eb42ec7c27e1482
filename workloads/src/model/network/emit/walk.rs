//! Walks over the edges of a graph: traffic by where rows are.

use crate::graph::operator::{self, Dtype, Traversal, Work};
use crate::model::names::{Name, name};

use super::super::layer::{By, End, Space};
use super::super::subgraph::Subgraph;
use super::super::system::EdgeKernels;
use super::Emission;

/// Tensors that DGL hands to a kernel as DLPack, each for about as long as PyTorch takes to make a
/// view: two operands, the result and an index (`to_dgl_nd` of `dgl/_sparse_ops.py`).
const DLPACK_VIEWS: u32 = 4;

/// Traffic of a walk under construction.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    graph: &'a Subgraph,
    over: Space,
    /// End of edges whose nodes follow each other: their rows are read once, in order.
    ordered_by: Option<End>,
    /// End whose nodes it sums for, one after the other.
    sums_at: Option<End>,
    traversal: Traversal,
}

impl Walk<'_> {
    fn bytes(&self, rows: u64, width: u64) -> u64 {
        rows.saturating_mul(width).saturating_mul(self.traversal.dtype.bytes())
    }

    /// Reads a row for each of its own: that at the same place, or that of a node or pair at an
    /// end.
    pub(super) fn read(&mut self, space: Space, width: u64) {
        let of_rows = self.bytes(self.traversal.edges, width);
        if space == self.over {
            self.traversal.streamed += of_rows;
        } else if self.ordered_by == Some(space.end()) {
            self.traversal.streamed += self.bytes(self.touched(space), width);
        } else {
            self.traversal.gathered += of_rows;
            self.traversal.table += self.bytes(self.touched(space), width);
        }
        self.widen(width);
    }

    /// Reads a weight of each type, of a number of elements.
    pub(super) fn read_weights(&mut self, elements: u64) {
        self.traversal.streamed += self.bytes(1, elements);
    }

    /// Fills the rows of a space.
    pub(super) fn write(&mut self, space: Space, width: u64) {
        self.traversal.written += self.bytes(self.graph.rows(space), width);
        self.widen(width);
    }

    /// Adds to rows of nodes or pairs, each of its own by itself.
    pub(super) fn add(&mut self, space: Space, width: u64) {
        self.traversal.atomics += self.bytes(self.traversal.edges, width);
        self.traversal.longest = self.traversal.longest.max(self.graph.most(space.end()));
        self.write(space, width);
    }

    /// Adds an outer product for each edge to the weight of its type, by itself; edges of a type
    /// wait for each other.
    pub(super) fn add_to_weights(&mut self, elements: u64, by: By) {
        self.traversal.atomics += self.bytes(self.traversal.edges, elements);
        let longest = self.graph.segmented(Space::Edges, by).longest;
        self.traversal.longest = self.traversal.longest.max(longest);
        self.traversal.written += self.bytes(self.graph.copies(by), elements);
    }

    /// Reads the weight of its type for each edge: from memory once, else from the cache, and again
    /// only where the edges of a node come to another type.
    pub(super) fn read_weight_of_edges(&mut self, elements: u64, by: By, end: End) {
        let all = self.bytes(self.graph.rows(Space::Pairs(end)), elements);
        let once = self.bytes(self.graph.copies(by), elements).min(all);
        self.traversal.streamed += all;
        self.traversal.cached += all - once;
        self.traversal.row_bytes += self.bytes(1, elements);
    }

    /// Adds to rows of nodes, all edges of a node in one thread block after the other.
    pub(super) fn gather(&mut self, space: Space, width: u64) {
        self.along(space, operator::Walk::Thread);
        self.sums_at = Some(space.end());
        self.write(space, width);
    }

    /// Takes all edges of a node in one thread block.
    pub(super) fn along(&mut self, space: Space, walk: operator::Walk) {
        self.traversal.longest = self.traversal.longest.max(self.graph.most(space.end()));
        self.traversal.destinations = self.traversal.destinations.max(self.graph.rows(space));
        self.traversal.walk = walk;
    }

    fn widen(&mut self, width: u64) {
        self.traversal.row_bytes = self.traversal.row_bytes.max(self.bytes(1, width));
    }

    /// Different rows of a space that edges touch.
    fn touched(&self, space: Space) -> u64 {
        let ends = |at: usize| self.graph.relations.iter().map(|relation| relation.ends[at]).sum::<u64>();
        match space {
            Space::Sources => self.graph.rows(space).min(ends(0)),
            Space::Destinations => self.graph.rows(space).min(ends(1)),
            Space::Typed(end) => self.graph.rows(Space::Pairs(end)),
            Space::Edges | Space::Pairs(_) => self.graph.rows(space),
        }
    }
}

impl<'a> Emission<'a> {
    /// A walk over all edges.
    pub(super) fn walk(&self) -> Walk<'a> {
        self.walk_over(Space::Edges)
    }

    /// A walk over all rows of a space.
    pub(super) fn walk_over(&self, over: Space) -> Walk<'a> {
        let (dtype, edges) = (self.on.dtype, self.graph.rows(over));
        let (gathered, table, streamed, cached, written) = Default::default();
        let (destinations, longest, row_bytes, atomics) = Default::default();
        let traversal = Traversal {
            dtype,
            edges,
            gathered,
            table,
            streamed,
            cached,
            written,
            destinations,
            longest,
            row_bytes,
            atomics,
            walk: operator::Walk::Block,
        };
        Walk { graph: self.graph, over, ordered_by: None, sums_at: None, traversal }
    }

    /// A walk over all edges, of one destination after the other where the kernels of a system take
    /// them in this order.
    pub(super) fn walk_by_destination(&self) -> Walk<'a> {
        let ordered = !self.rules.adds_by_atomics();
        Walk { ordered_by: ordered.then_some(End::Destination), ..self.walk() }
    }

    /// Appends a walk. DGL and Hector zero all that their kernels fill, PyTorch what they add to
    /// (`F.zeros` of `dgl/backend/pytorch/sparse.py`, `th.zeros` of `hrt/python/backend` in
    /// github.com/K-Wu/HET).
    pub(super) fn walked(&mut self, operator: Name, walk: Walk<'_>, reads: &[Name], writes: &[(Name, u64)]) {
        let zeroed = match self.rules.edges {
            EdgeKernels::Templates | EdgeKernels::Patterns | EdgeKernels::Fused => true,
            EdgeKernels::Scattered | EdgeKernels::FusedInOrder => walk.traversal.atomics > 0,
        };
        self.walked_into(zeroed, operator, walk, reads, writes);
    }

    /// Appends a walk, behind kernels that zero what it fills.
    pub(super) fn walked_into(
        &mut self,
        zeroed: bool,
        operator: Name,
        walk: Walk<'_>,
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        let reads: Vec<Name> =
            reads.iter().copied().chain(walk.sums_at.and_then(|end| self.sorted_by(end))).collect();
        let work = Work::Traversal(walk.traversal);
        let views = if self.rules.edges == EdgeKernels::Templates { DLPACK_VIEWS } else { 0 };
        let operator = if zeroed {
            let reads = self.zeroed(&reads, writes);
            self.draft.push(operator, work, &reads, &[])
        } else {
            self.draft.push(operator, work, &reads, writes)
        };
        operator.views = views;
    }

    /// Appends kernels that zero tensors; gives the reads of the kernel that adds to these.
    pub(super) fn zeroed(&mut self, reads: &[Name], writes: &[(Name, u64)]) -> Vec<Name> {
        let mut read = reads.to_vec();
        for &(to, bytes) in writes {
            self.stream(name(to, "zeros"), (0, bytes), &[], &[(to, bytes)]);
            read.push(to);
        }
        read
    }

    pub(super) const fn dtype(&self) -> Dtype {
        self.on.dtype
    }
}
