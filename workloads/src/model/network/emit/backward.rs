//! The backward pass, a kernel for each gradient, as autograd and the libraries behind it have
//! them.

use crate::graph::Phase;
use crate::graph::operator::StreamClass;
use crate::model::names::{Name, name};

use super::super::layer::{By, Function, Made, Space, ValueId, WeightId};
use super::super::system::EdgeKernels;
use super::Emission;

impl Emission<'_> {
    /// Writes the backward pass of some values, from the gradients that are known.
    pub(in crate::model::network) fn backward(&mut self, values: &[ValueId]) {
        self.draft.phase = Phase::BackwardInput;
        if self.rules.fuses() {
            self.fused_back(values);
            return;
        }
        for &id in values.iter().rev() {
            let Some(gradient) = self.gradients.remove(&id) else { continue };
            match &self.layer.get(id).made {
                Made::Features | Made::OwnFeatures => _ = self.gradients.insert(id, gradient),
                Made::EdgeConstant => {}
                &Made::Linear(of, weight) if Self::is_vector(self.weight(weight)) => {
                    self.vector_back(id, of, weight, gradient);
                }
                &Made::Linear(of, weight) => self.product_back(id, of, weight, gradient),
                &Made::Dot(left, right) => {
                    self.dot_back(id, left, right, gradient);
                    self.dot_back(id, right, left, gradient);
                }
                Made::Map(of, function) => self.map_back(id, &of.clone(), *function, gradient),
                &Made::Softmax(of) => self.softmax_back(id, of, gradient),
                &Made::Sum(message, factor) => self.sum_back(id, message, factor, gradient),
            }
        }
    }

    /// Says the gradient of a value that others make.
    pub(in crate::model::network) fn start_from(&mut self, id: ValueId, gradient: Name) {
        self.gradients.insert(id, gradient);
    }

    /// The gradient of its features, which ends the backward pass.
    pub(in crate::model::network) fn of_features(&mut self) -> Option<Name> {
        let is_given = |id: &ValueId| matches!(self.layer.get(*id).made, Made::Features | Made::OwnFeatures);
        let given: Vec<ValueId> = self.layer.ids().filter(is_given).collect();
        let found: Vec<Name> = given.iter().filter_map(|id| self.gradients.remove(id)).collect();
        found.into_iter().reduce(|sum, other| {
            let rows = self.graph.rows(Space::Sources);
            let width = self.layer.get(ValueId(0)).width;
            let bytes = self.bytes(rows, width);
            let both = name(sum, "and own");
            self.stream(both, (2 * bytes, bytes), &[sum, other], &[(both, bytes)]);
            both
        })
    }

    /// Adds a tensor to the gradient of a value.
    pub(in crate::model::network) fn give(&mut self, to: ValueId, gradient: Name) {
        if !self.tracked[to.0] {
            return;
        }
        let Some(other) = self.gradients.get(&to).copied() else {
            self.gradients.insert(to, gradient);
            return;
        };
        self.sums += 1;
        let sum = self.scoped(Name::of("gradient sum").numbered(self.sums));
        let bytes = self.size(to);
        self.stream(sum, (2 * bytes, bytes), &[other, gradient], &[(sum, bytes)]);
        self.gradients.insert(to, sum);
    }

    /// The gradient of one side of inner products.
    fn dot_back(&mut self, id: ValueId, to: ValueId, other: ValueId, gradient: Name) {
        let result = name(name(self.tensor(id), "gradient"), Name::of("of value").numbered(to.0 as u64));
        let (tensor, space) = self.found_at_edges(other);
        let mut walk = self.walk();
        walk.read(Space::Edges, self.layer.get(id).width);
        walk.read(space, self.layer.get(other).width);
        self.returned(to, result, walk, &[gradient, tensor]);
    }

    /// Ends a walk in the gradient of a value, wherever that has its rows.
    fn returned(&mut self, to: ValueId, result: Name, mut walk: super::walk::Walk<'_>, reads: &[Name]) {
        if !self.tracked[to.0] {
            return;
        }
        let (space, width) = (self.layer.get(to).space, self.layer.get(to).width);
        let all = self.bytes(self.graph.edges(), width);
        match space {
            Space::Edges => {
                walk.write(Space::Edges, width);
                self.walked(result, walk, reads, &[(result, all)]);
            }
            _ if self.rules.edges == EdgeKernels::Scattered => {
                let rows = name(result, "rows");
                walk.write(Space::Edges, width);
                self.walked(rows, walk, reads, &[(rows, all)]);
                self.add_to_nodes(result, rows, to);
            }
            Space::Pairs(_) => {
                walk.add(space, width);
                self.walked(result, walk, reads, &[(result, self.size(to))]);
            }
            _ => {
                walk.gather(space, width);
                self.walked(result, walk, reads, &[(result, self.size(to))]);
            }
        }
        self.give(to, result);
    }

    fn map_back(&mut self, id: ValueId, of: &[ValueId], function: Function, gradient: Name) {
        let (own, value) = (self.tensor(id), self.layer.get(id));
        if let Function::Gate(weight) | Function::Norm(weight) | Function::Bias(weight) = function {
            self.parameter_back(id, weight, gradient);
        }
        for &read in of {
            if !self.tracked[read.0] {
                continue;
            }
            let here = self.layer.get(read).space == value.space;
            if here && matches!(function, Function::Add | Function::Bias(_)) {
                self.give(read, gradient);
                continue;
            }
            let result = name(name(own, "gradient"), Name::of("of value").numbered(read.0 as u64));
            if here {
                let bytes = self.size(read);
                let kept = self.tensor(if matches!(function, Function::Tanh) { id } else { read });
                let class = match function {
                    Function::Norm(_) => StreamClass::LayerNorm,
                    _ => StreamClass::Elementwise,
                };
                let (traffic, at) = ((self.size(id) + bytes, bytes), (class, value.space));
                self.nodewise(result, at, traffic, &[gradient, kept], &[(result, bytes)]);
                self.give(read, result);
            } else {
                let mut walk = self.walk();
                walk.read(Space::Edges, value.width);
                self.returned(read, result, walk, &[gradient]);
            }
        }
    }

    /// Gradient of the parameter that a function of nodes has: products with what the function was
    /// of, summed; of a bias the sum alone.
    pub(super) fn parameter_back(&mut self, id: ValueId, weight: WeightId, gradient: Name) {
        let of = match &self.layer.get(id).made {
            Made::Map(of, function) if !matches!(function, Function::Bias(_)) => of.clone(),
            _ => Vec::new(),
        };
        let w = self.weight(weight);
        let result = name(self.tensor(id), "weight gradient");
        let size = self.bytes(self.copies(w.by), w.elements());
        let read = self.size(id) + of.iter().map(|&read| self.size(read)).sum::<u64>();
        let mut reads = vec![gradient];
        reads.extend(of.iter().map(|&read| self.tensor(read)));
        self.draft.phase = Phase::BackwardWeight;
        let at = (StreamClass::Reduction, self.layer.get(id).space);
        self.nodewise(result, at, (read, size), &reads, &[(result, size)]);
        self.accumulate(weight, result);
        self.draft.phase = Phase::BackwardInput;
    }

    /// Gradient times result, its sum over the edges of a node, that times the result, the
    /// difference.
    fn softmax_back(&mut self, id: ValueId, of: ValueId, gradient: Name) {
        let (own, bytes, width) = (self.tensor(id), self.size(id), self.layer.get(id).width);
        let at_nodes = self.bytes(self.graph.rows(Space::Destinations), width);
        let (product, sums) = (name(own, "times gradient"), name(own, "gradient sums"));
        self.stream(product, (2 * bytes, bytes), &[own, gradient], &[(product, bytes)]);
        self.reduce(product, width, sums, &[(sums, at_nodes)]);
        let (scaled, result) = (name(own, "scaled sums"), name(own, "input gradient"));
        self.with_nodes(scaled, [own, sums], (width, bytes));
        self.stream(result, (2 * bytes, bytes), &[product, scaled], &[(result, bytes)]);
        self.give(of, result);
    }

    fn sum_back(&mut self, id: ValueId, message: ValueId, factor: Option<ValueId>, gradient: Name) {
        let own = self.tensor(id);
        let result = name(own, "message gradient");
        let width = self.layer.get(id).width;
        let mut reads = vec![gradient];
        let mut walk = self.walk();
        walk.read(Space::Destinations, width);
        if let Some(factor) = factor {
            walk.read(Space::Edges, self.layer.get(factor).width);
            reads.push(self.tensor(factor));
        }
        self.returned(message, result, walk, &reads);
        if let Some(factor) = factor.filter(|factor| self.tracked[factor.0]) {
            let (tensor, space) = self.found_at_edges(message);
            let mut walk = self.walk();
            walk.read(space, width);
            walk.read(Space::Destinations, width);
            self.returned(factor, name(own, "factor gradient"), walk, &[tensor, gradient]);
        }
    }

    /// Gradients of a product with vectors: rows of vectors times a number, and sums of rows times
    /// one.
    fn vector_back(&mut self, id: ValueId, of: ValueId, weight: WeightId, gradient: Name) {
        let own = self.tensor(id);
        let (value, source, w) = (self.layer.get(id), self.layer.get(of), self.weight(weight));
        let all = self.bytes(self.graph.rows(value.space), source.width);
        let traffic = (all + self.size(id), all);
        if self.tracked[of.0] {
            let rows = name(own, "gradient of rows");
            self.stream(rows, traffic, &[gradient], &[(rows, all)]);
            if self.is_indexed(of, value.space) {
                let result = name(own, "input gradient");
                self.add_to_nodes(result, rows, of);
                self.give(of, result);
            } else {
                self.give(of, rows);
            }
        }
        self.draft.phase = Phase::BackwardWeight;
        let (products, result) = (name(own, "products"), name(own, "weight gradient"));
        let reads = [gradient, self.tensor(of)];
        self.stream(products, traffic, &reads, &[(products, all)]);
        let size = self.bytes(self.copies(w.by), w.elements());
        let class =
            if w.by == By::EdgeType { StreamClass::EmbeddingGradient } else { StreamClass::Reduction };
        self.draft.stream(result, class, (all, size), &[products], &[(result, size)]);
        self.accumulate(weight, result);
        self.draft.phase = Phase::BackwardInput;
    }
}
