//! Functions of edges and sums over them, a kernel each: DGL's SDDMM, SpMM and edge softmax, and
//! the gathers and scatters of PyTorch Geometric.

use crate::graph::operator::{self, StreamClass};
use crate::model::names::{Name, name};

use super::super::layer::{Function, Space, ValueId};
use super::super::system::EdgeKernels;
use super::Emission;

impl Emission<'_> {
    /// Inner products of rows at the ends of edges: DGL's SDDMM where nodes have both, else the
    /// operators of a product and of a sum over rows of edges.
    pub(super) fn dot(&mut self, id: ValueId, left: ValueId, right: ValueId) {
        let to = (self.tensor(id), self.size(id));
        let all = self.bytes(self.graph.edges(), self.layer.get(left).width);
        let at_nodes = [left, right].iter().all(|&side| self.layer.get(side).space != Space::Edges);
        if at_nodes && self.rules.edges == EdgeKernels::Templates {
            let products = name(to.0, "of heads");
            self.over_edges(id, &[left, right], (products, to.1));
            // `v_dot_u` keeps an axis, over which `sum(-1)` goes.
            self.draft.stream(to.0, StreamClass::Reduction, (to.1, to.1), &[products], &[to]);
            return;
        }
        let (rows, others) = (self.copied_to_edges(left), self.copied_to_edges(right));
        let products = name(to.0, "factors");
        self.stream(products, (all.saturating_mul(2), all), &[rows, others], &[(products, all)]);
        self.draft.stream(to.0, StreamClass::Reduction, (all, to.1), &[products], &[to]);
    }

    /// A function of elements, at edges or at nodes.
    pub(super) fn map(&mut self, id: ValueId, of: &[ValueId], function: Function) {
        let (value, to) = (self.layer.get(id), (self.tensor(id), self.size(id)));
        let elsewhere = of.iter().any(|&read| self.layer.get(read).space != value.space);
        if value.space == Space::Edges && elsewhere {
            return self.over_edges(id, of, to);
        }
        let mut reads: Vec<Name> = of.iter().map(|&read| self.tensor(read)).collect();
        if function == Function::Mean {
            reads.extend(self.degrees(value.space.end()));
        }
        let bytes: u64 = of.iter().map(|&read| self.size(read)).sum();
        let (elementwise, space) = (StreamClass::Elementwise, value.space);
        match function {
            // A product with the prior of a type, then one with the root of the width.
            Function::Multiply => {
                let product = name(to.0, "unscaled");
                self.stream(product, (bytes, to.1), &reads, &[(product, to.1)]);
                self.stream(to.0, (to.1, to.1), &[product], &[to]);
            }
            Function::Gate(_) => {
                let [kept, rest, share, other] =
                    ["kept", "rest", "share", "other share"].map(|part| name(to.0, part));
                let each = self.graph.destinations.len() as u64 * self.dtype().bytes();
                self.nodewise(share, (elementwise, space), (each, each), &[], &[(share, each)]);
                self.nodewise(kept, (elementwise, space), (to.1, to.1), &[reads[0], share], &[(kept, to.1)]);
                self.nodewise(other, (elementwise, space), (each, each), &[share], &[(other, each)]);
                self.nodewise(rest, (elementwise, space), (to.1, to.1), &[reads[1], other], &[(rest, to.1)]);
                self.nodewise(
                    to.0,
                    (elementwise, space),
                    (to.1.saturating_mul(2), to.1),
                    &[kept, rest],
                    &[to],
                );
            }
            Function::Norm(_) => {
                self.nodewise(to.0, (StreamClass::LayerNorm, space), (bytes, to.1), &reads, &[to]);
            }
            _ => self.nodewise(to.0, (elementwise, space), (bytes, to.1), &reads, &[to]),
        }
    }

    /// One kernel over edges, from rows wherever they are to rows of edges.
    fn over_edges(&mut self, id: ValueId, of: &[ValueId], to: (Name, u64)) {
        let mut reads = Vec::new();
        let mut walk = self.walk_by_destination();
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
        if self.rules.edges == EdgeKernels::Patterns {
            // A warp for each node, whose threads go over its edges three times, from the cache
            // the second and third time.
            let mut walk = self.walk();
            walk.read(Space::Edges, width);
            walk.along(Space::Destinations, operator::Walk::Block);
            walk.write(Space::Edges, width);
            let reads = [self.tensor(of)];
            return self.walked(own, walk, &reads, &[(own, bytes)]);
        }
        let at_nodes = self.bytes(self.graph.rows(Space::Destinations), width);
        let (largest, sum) = (name(own, "largest"), name(own, "sums"));
        let (exponential, difference) = (name(own, "exponential"), name(own, "difference"));
        let mut of_nodes = vec![(largest, at_nodes)];
        if self.rules.edges == EdgeKernels::Templates {
            // Which edge has the largest: an index of 8 bytes.
            of_nodes.push((name(largest, "argument"), at_nodes / self.dtype().bytes() * 8));
        }
        self.reduce(self.tensor(of), width, largest, &of_nodes);
        self.with_nodes(difference, [self.tensor(of), largest], (width, bytes));
        self.stream(exponential, (bytes, bytes), &[difference], &[(exponential, bytes)]);
        self.reduce(exponential, width, sum, &[(sum, at_nodes)]);
        self.with_nodes(own, [exponential, sum], (width, bytes));
    }

    /// From rows of edges to one of each destination.
    pub(super) fn reduce(&mut self, from: Name, width: u64, to: Name, writes: &[(Name, u64)]) {
        let mut walk = self.walk();
        walk.read(Space::Edges, width);
        self.to_destinations(&mut walk, width);
        self.walked(to, walk, &[from], writes);
    }

    /// A function of rows of edges and of those of their destinations, which PyTorch copies to
    /// edges before.
    pub(super) fn with_nodes(&mut self, to: Name, [rows, of_nodes]: [Name; 2], (width, bytes): (u64, u64)) {
        let mut walk = self.walk_by_destination();
        walk.read(Space::Destinations, width);
        walk.write(Space::Edges, width);
        if self.rules.edges == EdgeKernels::Scattered {
            let copy = name(to, "sums at edges");
            self.walked(copy, walk, &[of_nodes], &[(copy, bytes)]);
            self.stream(to, (2 * bytes, bytes), &[rows, copy], &[(to, bytes)]);
            return;
        }
        walk.read(Space::Edges, width);
        self.walked(to, walk, &[rows, of_nodes], &[(to, bytes)]);
    }

    /// Sums over the edges of a destination.
    pub(super) fn sum(&mut self, id: ValueId, message: ValueId, factor: Option<ValueId>) {
        let (own, bytes, width) = (self.tensor(id), self.size(id), self.layer.get(id).width);
        let (mut tensor, mut space) = self.found_at_edges(message);
        let mut factor = factor.map(|factor| (factor, self.tensor(factor)));
        // SpMM multiplies rows of nodes; messages of edges are made before they are added.
        if let (Some((of, factors)), Space::Edges) = (factor, space) {
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
        let Some((whole, filled)) = self.placed.get(&id).copied() else {
            return self.walked(own, walk, &reads, &[(own, bytes)]);
        };
        let writes: Vec<(Name, u64)> = (filled > 0).then_some((whole, filled)).into_iter().collect();
        let zeros = name(self.scoped(whole), "zeros");
        self.stream(zeros, (0, bytes), &[], &writes);
        reads.push(whole);
        self.walked_into(false, self.scoped(whole), walk, &reads, &[]);
    }

    /// Adds up rows at destinations, by atomics or one node after the other.
    pub(super) fn to_destinations(&self, walk: &mut super::walk::Walk<'_>, width: u64) {
        match self.rules.adds_by_atomics() {
            true => walk.add(Space::Destinations, width),
            false => walk.gather(Space::Destinations, width),
        }
    }
}
