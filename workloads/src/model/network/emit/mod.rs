//! Operators of a layer, by the rules of a system: forward value by value, backward from the last
//! value to the first.

mod backward;
mod edges;
mod formats;
mod fused;
mod products;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Phase;
use crate::graph::operator::StreamClass;
use crate::model::draft::Draft;
use crate::model::layered::LayeredExecution;
use crate::model::names::{Name, name};

use super::layer::{By, End, Made, NetworkLayer, Space, Value, ValueId, WeightId};
use super::subgraph::Subgraph;
use super::system::{EdgeKernels, Rules};

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
    /// Values that are part of a tensor of all types, and the bytes of it that they fill.
    placed: BTreeMap<ValueId, (Name, u64)>,
    /// By value, the tensor of its gradient as far as it is known.
    gradients: BTreeMap<ValueId, Name>,
    sums: u32,
    /// Ends of edges that a sampled block has them sorted by.
    formats: BTreeSet<End>,
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
            placed: BTreeMap::new(),
            gradients: BTreeMap::new(),
            sums: 0,
            formats: BTreeSet::new(),
        }
    }

    /// Writes the forward pass of some values.
    pub(super) fn forward(&mut self, values: &[ValueId]) {
        self.fold_weights(values);
        if self.rules.fuses() {
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

    /// Lets the sums of a type of edges be their part of those of all types, where no other type
    /// leads to the same nodes. The first part fills the tensor.
    pub(super) fn place_sums(&self, part: &mut Self, values: &[ValueId], filled: &mut BTreeSet<ValueId>) {
        let Some(relation) = part.relation.map(|at| self.graph.relations[at]) else { return };
        if self.graph.relations_into(relation.destination) > 1 {
            return;
        }
        for &id in values.iter().filter(|&&id| self.is_handed_on(id)) {
            let bytes = if filled.insert(id) { self.size(id) } else { 0 };
            part.placed.insert(id, (self.tensor(id), bytes));
        }
    }

    /// Adds what several types of edges have summed at the same nodes: parts are joined, then
    /// summed.
    pub(super) fn sum_types(&mut self, each: &[Self], values: &[ValueId], filled: &mut BTreeSet<ValueId>) {
        let handed_on: Vec<ValueId> = values.iter().copied().filter(|&id| self.is_handed_on(id)).collect();
        for id in handed_on {
            let (to, size, width) = (self.tensor(id), self.size(id), self.layer.get(id).width);
            for node_type in 0..self.graph.destinations.len() {
                let leads = |at: &usize| self.graph.relations[*at].destination == node_type;
                let parts: Vec<Name> = (0..each.len()).filter(leads).map(|at| each[at].tensor(id)).collect();
                if parts.len() < 2 {
                    continue;
                }
                let bytes = self.bytes(self.graph.destinations[node_type], width);
                let all = bytes.saturating_mul(parts.len() as u64);
                let of_type = name(to, Name::of("of nodes").numbered(node_type as u64));
                let joined = name(of_type, "joined");
                self.draft.stream(joined, StreamClass::Permutation, (all, all), &parts, &[(joined, all)]);
                let writes: Vec<(Name, u64)> = filled.insert(id).then_some((to, size)).into_iter().collect();
                self.draft.stream(of_type, StreamClass::Reduction, (all, bytes), &[joined], &writes);
            }
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
            Made::Map(of, function) => self.map(id, &of.clone(), *function),
            &Made::Softmax(of) => self.softmax(id, of),
            &Made::Sum(message, factor) => self.sum(id, message, factor),
        }
    }

    /// Name of the tensor of a value.
    pub(super) fn tensor(&self, id: ValueId) -> Name {
        match self.layer.get(id).made {
            Made::Features | Made::OwnFeatures => FEATURES,
            _ if self.placed.contains_key(&id) => self.placed[&id].0,
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

    /// Passes over rows of nodes, of each type by itself where a layer runs type by type; `traffic`
    /// is that of all rows.
    fn nodewise(
        &mut self,
        operator: Name,
        (class, space): (StreamClass, Space),
        (read, written): (u64, u64),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        let rows = self.graph.rows_by_weight(space, By::NodeType);
        let all: u64 = rows.iter().sum();
        if !self.rules.by_relation || space == Space::Edges || all == 0 {
            let rows = self.graph.rows(space);
            self.rowwise(operator, (class, rows), (read, written), reads, writes);
            return;
        }
        let mut writes = writes.to_vec();
        for (node_type, rows) in rows.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            let share = |bytes: u64| (u128::from(bytes) * u128::from(rows) / u128::from(all)) as u64;
            let part = name(operator, Name::of("of nodes").numbered(node_type as u64));
            // The first part fills what the others fill, too.
            let filled = std::mem::take(&mut writes);
            self.rowwise(part, (class, rows), (share(read), share(written)), reads, &filled);
        }
    }

    /// A pass over rows, which classes that normalise take one by one.
    fn rowwise(
        &mut self,
        operator: Name,
        (class, rows): (StreamClass, u64),
        traffic: (u64, u64),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        match class {
            StreamClass::LayerNorm => _ = self.draft.walk(operator, (class, rows), traffic, reads, writes),
            class => _ = self.draft.stream(operator, class, traffic, reads, writes),
        }
    }

    /// Copies the rows of nodes or pairs at the ends of edges, in the order of these.
    fn copy_to_edges(&mut self, of: ValueId, to: Name, width: u64) {
        let space = self.layer.get(of).space;
        let bytes = self.bytes(self.graph.edges(), width);
        let mut walk = self.walk();
        walk.read(space, width);
        walk.write(Space::Edges, width);
        let from = self.tensor(of);
        let zeroed = self.rules.edges == EdgeKernels::Patterns;
        self.walked_into(zeroed, to, walk, &[from], &[(to, bytes)]);
    }

    /// A copy of a value with a row for each edge; itself where it has these.
    fn copied_to_edges(&mut self, of: ValueId) -> Name {
        let Value { space, width, .. } = *self.layer.get(of);
        if space == Space::Edges {
            return self.tensor(of);
        }
        let copy = name(self.tensor(of), "at edges");
        if self.at_edges.insert(of) {
            self.copy_to_edges(of, copy, width);
        }
        copy
    }

    /// The tensor of a value as functions of edges find it: its own, or a copy with a row for each
    /// edge.
    fn found_at_edges(&mut self, of: ValueId) -> (Name, Space) {
        match self.rules.edges {
            EdgeKernels::Scattered => (self.copied_to_edges(of), Space::Edges),
            _ => (self.tensor(of), self.layer.get(of).space),
        }
    }

    /// Copies of a weight that operators use: those of one type of edges have one type of nodes at
    /// each end.
    fn copies(&self, by: By) -> u64 {
        match (self.relation, by) {
            (Some(_), By::NodeType) => 1,
            _ => self.graph.copies(by),
        }
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
