//! Walks over the edges of a graph: traffic by where rows are.

use crate::graph::operator::{self, Dtype, Traversal, Work};
use crate::model::names::Name;

use super::super::layer::{End, Space};
use super::super::subgraph::Subgraph;
use super::Emission;

/// Traffic of a walk under construction.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    graph: &'a Subgraph,
    over: Space,
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
        let end = match space {
            Space::Sources | Space::Pairs(End::Source) => End::Source,
            _ => End::Destination,
        };
        self.traversal.longest = self.traversal.longest.max(self.graph.most(end));
        self.write(space, width);
    }

    /// Adds to rows of nodes, all edges of a node in one thread block after the other.
    pub(super) fn gather(&mut self, space: Space, width: u64) {
        let end = if space == Space::Sources { End::Source } else { End::Destination };
        self.traversal.longest = self.traversal.longest.max(self.graph.most(end));
        self.traversal.destinations = self.graph.rows(space);
        self.traversal.walk = operator::Walk::Thread;
        self.write(space, width);
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
            _ => self.graph.rows(space),
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
        Walk { graph: self.graph, over, traversal }
    }

    /// Appends a walk.
    pub(super) fn walked(&mut self, operator: Name, walk: Walk<'_>, reads: &[Name], writes: &[(Name, u64)]) {
        self.draft.push(operator, Work::Traversal(walk.traversal), reads, writes);
    }

    pub(super) const fn dtype(&self) -> Dtype {
        self.on.dtype
    }
}
