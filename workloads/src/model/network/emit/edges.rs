//! Functions of edges and sums over them, a kernel each: DGL's SDDMM, SpMM and edge softmax, and
//! the gathers and scatters of PyTorch Geometric.

use crate::model::names::{Name, name};

use super::super::layer::{Space, ValueId};
use super::Emission;

impl Emission<'_> {
    /// Inner products of rows at the ends of edges.
    pub(super) fn dot(&mut self, id: ValueId, left: ValueId, right: ValueId) {
        let to = (self.tensor(id), self.size(id));
        self.over_edges(id, &[left, right], to);
    }

    /// A function of elements, at edges or at nodes.
    pub(super) fn map(&mut self, id: ValueId, of: &[ValueId]) {
        let (value, to) = (self.layer.get(id), (self.tensor(id), self.size(id)));
        let elsewhere = of.iter().any(|&read| self.layer.get(read).space != value.space);
        if value.space == Space::Edges && elsewhere {
            return self.over_edges(id, of, to);
        }
        let reads: Vec<Name> = of.iter().map(|&read| self.tensor(read)).collect();
        let bytes = of.iter().map(|&read| self.size(read)).sum();
        self.stream(to.0, (bytes, to.1), &reads, &[to]);
    }

    /// One kernel over edges, from rows wherever they are to rows of edges.
    fn over_edges(&mut self, id: ValueId, of: &[ValueId], to: (Name, u64)) {
        let mut reads = Vec::new();
        let mut walk = self.walk();
        for &read in of {
            let (tensor, space) = self.found_at_edges(read);
            walk.read(space, self.layer.get(read).width);
            reads.push(tensor);
        }
        walk.write(Space::Edges, self.layer.get(id).width);
        self.walked(to.0, walk, &reads, &[to]);
    }

    /// Softmax over the edges of a destination: largest, difference, exponential, sum, quotient.
    pub(super) fn softmax(&mut self, id: ValueId, of: ValueId) {
        let (own, bytes, width) = (self.tensor(id), self.size(id), self.layer.get(id).width);
        let at_nodes = self.bytes(self.graph.rows(Space::Destinations), width);
        let (largest, sum) = (name(own, "largest"), name(own, "sums"));
        let exponential = name(own, "exponential");
        self.reduce(largest, self.tensor(of), (width, at_nodes));
        let difference = name(own, "difference");
        self.with_nodes(difference, [self.tensor(of), largest], (width, bytes));
        self.stream(exponential, (bytes, bytes), &[difference], &[(exponential, bytes)]);
        self.reduce(sum, exponential, (width, at_nodes));
        self.with_nodes(own, [exponential, sum], (width, bytes));
    }

    /// From rows of edges to one of each destination.
    pub(super) fn reduce(&mut self, to: Name, from: Name, (width, bytes): (u64, u64)) {
        let mut walk = self.walk();
        walk.read(Space::Edges, width);
        self.to_destinations(&mut walk, width);
        self.walked(to, walk, &[from], &[(to, bytes)]);
    }

    /// A function of rows of edges and of those of their destinations.
    pub(super) fn with_nodes(&mut self, to: Name, [rows, of_nodes]: [Name; 2], (width, bytes): (u64, u64)) {
        let mut walk = self.walk();
        walk.read(Space::Edges, width);
        walk.read(Space::Destinations, width);
        walk.write(Space::Edges, width);
        self.walked(to, walk, &[rows, of_nodes], &[(to, bytes)]);
    }

    /// Sums over the edges of a destination.
    pub(super) fn sum(&mut self, id: ValueId, message: ValueId, factor: Option<ValueId>) {
        let (own, bytes, width) = (self.tensor(id), self.size(id), self.layer.get(id).width);
        let (mut tensor, mut space) = self.found_at_edges(message);
        let mut factor = factor.map(|factor| (factor, self.tensor(factor)));
        // PyTorch Geometric makes messages before it adds them.
        if let (Some((of, factors)), true) = (factor, self.rules.materialised) {
            let (messages, all) = (name(own, "messages"), self.bytes(self.graph.edges(), width));
            self.stream(messages, (all + self.size(of), all), &[tensor, factors], &[(messages, all)]);
            (tensor, space, factor) = (messages, Space::Edges, None);
        }
        let (mut walk, mut reads) = (self.walk(), vec![tensor]);
        walk.read(space, width);
        if let Some((of, factors)) = factor {
            walk.read(Space::Edges, self.layer.get(of).width);
            reads.push(factors);
        }
        self.to_destinations(&mut walk, width);
        self.walked(own, walk, &reads, &[(own, bytes)]);
    }

    /// DGL's kernels take a node after the other, those of PyTorch Geometric add by atomics.
    pub(super) fn to_destinations(&self, walk: &mut super::walk::Walk<'_>, width: u64) {
        match self.rules.materialised {
            true => walk.add(Space::Destinations, width),
            false => walk.gather(Space::Destinations, width),
        }
    }
}
