//! Operators of a layer, by the rules of a system: forward value by value, backward from the last
//! value to the first.

mod backward;
mod edges;
mod fused;
mod products;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Phase;
use crate::graph::operator::StreamClass;
use crate::model::draft::Draft;
use crate::model::layered::LayeredExecution;
use crate::model::names::{Name, name};

use super::layer::{Made, NetworkLayer, Space, ValueId, WeightId};
use super::subgraph::Subgraph;
use super::system::Rules;

/// Name of what a block starts from.
pub(super) const FEATURES: Name = Name::of("input");
/// Name of the gradient that it ends its backward pass from.
pub(super) const OUTPUT_GRADIENT: Name = Name::of("output gradient");

/// Operators of a layer under construction.
pub(super) struct Emission<'a> {
    on: &'a LayeredExecution,
    layer: &'a NetworkLayer,
    graph: &'a Subgraph,
    rules: Rules,
    /// Number of the type of edges that it is of. `None`: all types at once.
    relation: Option<usize>,
    needed: Vec<bool>,
    /// Values with a gradient.
    tracked: Vec<bool>,
    pub(super) draft: Draft,
    /// Values that have been copied to edges.
    at_edges: BTreeSet<ValueId>,
    /// By value, the tensor of its gradient as far as it is known.
    gradients: BTreeMap<ValueId, Name>,
    sums: u32,
}

impl<'a> Emission<'a> {
    /// A layer on a part of a graph, whose features have a gradient where they are `tracked`.
    pub(super) fn new(
        on: &'a LayeredExecution,
        (layer, graph): (&'a NetworkLayer, &'a Subgraph),
        rules: Rules,
        relation: Option<usize>,
        tracked: bool,
    ) -> Self {
        let mut has_gradient = vec![tracked; layer.values.len()];
        for id in layer.ids() {
            let made = &layer.get(id).made;
            has_gradient[id.0] = match made {
                Made::Features | Made::OwnFeatures => tracked,
                Made::EdgeConstant => false,
                Made::Linear(..) => true,
                made => made.reads().iter().any(|read| has_gradient[read.0]),
            };
        }
        Self {
            on,
            layer,
            graph,
            rules,
            relation,
            needed: layer.needed(),
            tracked: has_gradient,
            draft: Draft::new(Phase::Forward),
            at_edges: BTreeSet::new(),
            gradients: BTreeMap::new(),
            sums: 0,
        }
    }

    /// Writes the forward pass of some values.
    pub(super) fn forward(&mut self, values: &[ValueId]) {
        self.fold_weights(values);
        if self.rules.fused {
            self.fused(values);
            return;
        }
        for &id in values {
            self.value(id);
        }
    }

    /// Values that are needed, up to the sums over edges, and those behind.
    pub(super) fn halves(&self) -> [Vec<ValueId>; 2] {
        let is_sum = |id: &ValueId| matches!(self.layer.get(*id).made, Made::Sum(..));
        let mut behind = vec![false; self.layer.values.len()];
        for id in self.layer.ids() {
            let reads = self.layer.get(id).made.reads();
            behind[id.0] = reads.iter().any(|read| behind[read.0] || is_sum(read));
        }
        // Products of a node's own features belong to the sums that they are added to.
        let of_sums = |id: ValueId| {
            let value = self.layer.get(id);
            let is_own = matches!(value.made, Made::Linear(of, _) if matches!(self.layer.get(of).made, Made::OwnFeatures));
            is_own && self.layer.readers(id).all(|reader| behind[reader.0])
        };
        let needed = self.layer.ids().filter(|id| self.needed[id.0]);
        let (back, front) = needed.partition(|&id| behind[id.0] || of_sums(id));
        [front, back]
    }

    /// Adds what each type of edges has summed at nodes.
    pub(super) fn sum_types(&mut self, each: &[Self], values: &[ValueId]) {
        let handed_on: Vec<ValueId> = values.iter().copied().filter(|&id| self.is_handed_on(id)).collect();
        for id in handed_on {
            let parts: Vec<(Name, u64)> = each.iter().map(|part| (part.tensor(id), part.size(id))).collect();
            let tensors: Vec<Name> = parts.iter().map(|&(tensor, _)| tensor).collect();
            let (to, size) = (self.tensor(id), self.size(id));
            let bytes = parts.iter().map(|&(_, bytes)| bytes).sum();
            self.stream(to, (bytes, size), &tensors, &[(to, size)]);
        }
    }

    /// Lets the gradients of those sums be those of a type's.
    pub(super) fn hand_sums_to(&self, part: &mut Self, values: &[ValueId]) {
        for &id in values.iter().filter(|&&id| self.is_handed_on(id)) {
            part.gradients.extend(self.gradients.get(&id).map(|&gradient| (id, gradient)));
        }
    }

    /// True if a value is a sum at nodes, which is one over all types.
    fn is_handed_on(&self, id: ValueId) -> bool {
        matches!(self.layer.get(id).made, Made::Sum(..))
    }

    /// The operators of one value.
    fn value(&mut self, id: ValueId) {
        match &self.layer.get(id).made {
            Made::Features | Made::OwnFeatures | Made::EdgeConstant => {}
            &Made::Linear(of, weight) => self.product(id, of, weight),
            &Made::Dot(left, right) => self.dot(id, left, right),
            Made::Map(of, _) => self.map(id, &of.clone()),
            &Made::Softmax(of) => self.softmax(id, of),
            &Made::Sum(message, factor) => self.sum(id, message, factor),
        }
    }

    /// Name of the tensor of a value.
    pub(super) fn tensor(&self, id: ValueId) -> Name {
        match self.layer.get(id).made {
            Made::Features | Made::OwnFeatures => FEATURES,
            _ => self.scoped(Name::of(self.layer.get(id).name).numbered(id.0 as u64)),
        }
    }

    /// A name within the type of edges that the operators are of.
    fn scoped(&self, stem: Name) -> Name {
        match self.relation {
            Some(relation) => name(stem, Name::of("type").numbered(relation as u64)),
            None => stem,
        }
    }

    /// Bytes of rows so wide.
    fn bytes(&self, rows: u64, width: u64) -> u64 {
        rows.saturating_mul(width).saturating_mul(self.on.dtype.bytes())
    }

    /// Bytes of a value.
    pub(super) fn size(&self, id: ValueId) -> u64 {
        let value = self.layer.get(id);
        self.bytes(self.graph.rows(value.space), value.width)
    }

    /// A pass over memory that reads and writes whole tensors.
    fn stream(&mut self, operator: Name, bytes: (u64, u64), reads: &[Name], writes: &[(Name, u64)]) {
        self.draft.stream(operator, StreamClass::Elementwise, bytes, reads, writes);
    }

    /// Copies the rows of nodes or pairs at the ends of edges, in the order of these.
    fn copy_to_edges(&mut self, of: ValueId, to: Name, width: u64) {
        let space = self.layer.get(of).space;
        let bytes = self.bytes(self.graph.edges(), width);
        let mut walk = self.walk();
        walk.read(space, width);
        walk.write(Space::Edges, width);
        let from = self.tensor(of);
        self.walked(to, walk, &[from], &[(to, bytes)]);
    }

    /// The tensor of a value as functions of edges find it: its own, or a copy with a row for each
    /// edge.
    fn found_at_edges(&mut self, of: ValueId) -> (Name, Space) {
        let value = self.layer.get(of);
        let (space, width) = (value.space, value.width);
        if !self.rules.materialised || space == Space::Edges {
            return (self.tensor(of), space);
        }
        let copy = name(self.tensor(of), "at edges");
        if self.at_edges.insert(of) {
            self.copy_to_edges(of, copy, width);
        }
        (copy, Space::Edges)
    }

    /// Parameters of a weight, all its copies.
    pub(super) fn parameters(layer: &NetworkLayer, graph: &Subgraph) -> u64 {
        let all = layer.weights.iter().filter(|weight| weight.product.is_none());
        all.map(|weight| graph.copies(weight.by) * weight.elements()).sum()
    }

    fn weight(&self, id: WeightId) -> &'a super::layer::Weight {
        &self.layer.weights[id.0]
    }
}
