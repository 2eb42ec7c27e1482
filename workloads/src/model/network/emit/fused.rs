//! Hector's templates, and the kernels of Seastar and HGL: products, and walks over edges or nodes
//! that are one kernel as far as none of their functions needs a finished sum of another.

use crate::graph::Phase;
use crate::graph::operator::{Layout, Segments};
use crate::model::names::{Name, name};

use super::super::layer::{By, End, Made, Space, Value, ValueId, WeightId};
use super::super::system::Typed;
use super::Emission;
use super::walk::Walk;

impl Emission<'_> {
    /// Writes the forward pass of some values in as few kernels as their sums allow.
    pub(super) fn fused(&mut self, values: &[ValueId]) {
        for group in self.groups(values) {
            match (group.as_slice(), &self.layer.get(group[0]).made) {
                (&[id], &Made::Linear(of, weight)) if !self.is_walk(id) => self.product(id, of, weight),
                _ => self.walk_group(&group),
            }
        }
    }

    /// Values that are one kernel each, in order: a product by itself, or functions of rows of the
    /// same space that need no finished sum of each other.
    fn groups(&self, values: &[ValueId]) -> Vec<Vec<ValueId>> {
        let mut groups: Vec<Vec<ValueId>> = Vec::new();
        // The group that a value closes is the last one of its space.
        let mut group_of = vec![None; self.layer.values.len()];
        for &id in values {
            let value = self.layer.get(id);
            if matches!(value.made, Made::Features | Made::OwnFeatures | Made::EdgeConstant) {
                continue;
            }
            // The first group that all it reads is finished for.
            let reads = value.made.reads();
            let earliest = reads.iter().filter_map(|read| {
                let at: usize = group_of[read.0]?;
                Some(if self.can_join(*read, id) { at } else { at + 1 })
            });
            let earliest = earliest.max().unwrap_or(0);
            let alike = |group: &Vec<ValueId>| {
                self.is_walk(id) && self.is_walk(group[0]) && self.rows_of(group[0]) == self.rows_of(id)
            };
            let place = (earliest..groups.len()).find(|&at| alike(&groups[at]));
            let place = place.unwrap_or_else(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[place].push(id);
            group_of[id.0] = Some(place);
        }
        groups
    }

    /// Rows that a kernel of a value walks over: sums go over edges.
    fn rows_of(&self, id: ValueId) -> Space {
        let value = self.layer.get(id);
        if matches!(value.made, Made::Sum(..)) { Space::Edges } else { value.space }
    }

    /// True if a value is a function of rows in a walk; false if it is a product of its own.
    fn is_walk(&self, id: ValueId) -> bool {
        let Made::Linear(_, weight) = self.layer.get(id).made else { return true };
        match self.rules.typed {
            // HGL's scores are linear layers.
            Typed::Joined => false,
            Typed::Walked if self.weight(weight).by == By::EdgeType => true,
            _ => Self::is_vector(self.weight(weight)),
        }
    }

    /// True if a value may be made in the kernel of one that it reads: rows of that are finished
    /// where its own are made.
    fn can_join(&self, read: ValueId, id: ValueId) -> bool {
        let is_sum = matches!(self.layer.get(read).made, Made::Sum(..) | Made::Softmax(_));
        !is_sum && self.is_walk(read) && self.is_walk(id) && self.rows_of(read) == self.rows_of(id)
    }

    /// Values outside of a group that it reads, each once.
    fn inputs(&self, group: &[ValueId]) -> Vec<ValueId> {
        let mut inputs = Vec::new();
        for read in group.iter().flat_map(|&id| self.layer.get(id).made.reads()) {
            if !group.contains(&read) && !inputs.contains(&read) {
                inputs.push(read);
            }
        }
        inputs
    }

    /// Values of a group that others read, or that the layer makes.
    fn outputs(&self, group: &[ValueId]) -> Vec<ValueId> {
        let is_read = |id: ValueId| {
            self.layer.readers(id).any(|reader| self.needed[reader.0] && !group.contains(&reader))
        };
        group.iter().copied().filter(|&id| id == self.layer.output || is_read(id)).collect()
    }

    /// Exponentials of a softmax, and the sums of them that whoever reads it divides by.
    fn softmax_sums(&self, id: ValueId) -> (Name, u64) {
        let bytes = self.bytes(self.graph.rows(Space::Destinations), self.layer.get(id).width);
        (name(self.tensor(id), "sums"), bytes)
    }

    /// One kernel.
    fn walk_group(&mut self, group: &[ValueId]) {
        let own = self.tensor(group[group.len() - 1]);
        let rows = self.rows_of(group[0]);
        let mut reads = Vec::new();
        let mut walk = match rows {
            Space::Edges => self.walk_by_destination(),
            rows => self.walk_over(rows),
        };
        for input in self.inputs(group) {
            let value = self.layer.get(input);
            walk.read(value.space, value.width);
            reads.push(self.tensor(input));
            if matches!(value.made, Made::Softmax(_)) {
                walk.read(Space::Destinations, value.width);
                reads.push(self.softmax_sums(input).0);
            }
        }
        let mut writes = Vec::new();
        for output in self.outputs(group) {
            let value = self.layer.get(output);
            match value.made {
                Made::Sum(..) => self.to_destinations(&mut walk, value.width),
                _ => walk.write(value.space, value.width),
            }
            writes.push((self.tensor(output), self.size(output)));
            if matches!(value.made, Made::Softmax(_)) {
                self.to_destinations(&mut walk, value.width);
                writes.push(self.softmax_sums(output));
            }
        }
        for &id in group {
            reads.extend(self.layer.get(id).made.weight().and_then(|weight| self.folded(weight)));
        }
        self.read_weights_of(group, &mut walk, End::Destination);
        self.walked(own, walk, &reads, &writes);
    }

    /// Reads the weights of a group: vectors once, matrices for the edges of each node.
    fn read_weights_of(&self, group: &[ValueId], walk: &mut Walk<'_>, end: End) {
        for weight in group.iter().filter_map(|&id| self.layer.get(id).made.weight()) {
            let w = self.weight(weight);
            if Self::is_vector(w) || w.by != By::EdgeType {
                walk.read_weights(self.copies(w.by) * w.elements());
            } else {
                walk.read_weight_of_edges(w.elements(), w.by, end);
            }
        }
    }

    /// Writes the backward pass: a kernel for each, which reads again what the forward pass read and adds
    /// gradients where rows come from. A softmax has one more before it, for its sums.
    pub(super) fn fused_back(&mut self, values: &[ValueId]) {
        for group in self.groups(values).iter().rev() {
            match (group.as_slice(), &self.layer.get(group[0]).made) {
                (&[id], &Made::Linear(of, weight)) if !self.is_walk(id) => {
                    if let Some(gradient) = self.gradients.remove(&id) {
                        self.product_back(id, of, weight, gradient);
                    }
                }
                _ => self.walk_group_back(group),
            }
        }
    }

    fn walk_group_back(&mut self, group: &[ValueId]) {
        let own = self.tensor(group[group.len() - 1]);
        let rows = self.rows_of(group[0]);
        let mut walk = self.walk_over(rows);
        let mut reads = Vec::new();
        for output in self.outputs(group) {
            let Some(gradient) = self.gradients.remove(&output) else { continue };
            let value = self.layer.get(output);
            let (space, width) = (value.space, value.width);
            if matches!(value.made, Made::Softmax(_)) {
                let (sums, bytes) = (name(self.tensor(output), "gradient sums"), self.softmax_sums(output).1);
                let mut before = self.walk();
                before.read(Space::Edges, 2 * width);
                self.to_destinations(&mut before, width);
                let tensors = [self.tensor(output), gradient];
                self.walked(sums, before, &tensors, &[(sums, bytes)]);
                walk.read(Space::Destinations, width);
                reads.push(sums);
            }
            walk.read(space, 2 * width);
            reads.extend([gradient, self.tensor(output)]);
        }
        let Some(&gradient) = reads.first() else { return };
        let mut given = Vec::new();
        for input in self.inputs(group) {
            let value = self.layer.get(input);
            walk.read(value.space, value.width);
            reads.push(self.tensor(input));
            if self.tracked[input.0] {
                let result = name(name(own, "gradient"), Name::of("of value").numbered(input.0 as u64));
                given.push((input, result));
            }
        }
        let mut rest: Vec<(ValueId, WeightId)> =
            group.iter().filter_map(|&id| Some((id, self.layer.get(id).made.weight()?))).collect();
        for (end, of_pass) in self.passes_back(&given, rows) {
            let (mut walk, mut writes) = (walk, Vec::new());
            self.read_weights_of(group, &mut walk, end);
            for &(input, result) in &of_pass {
                let Value { space, width, .. } = *self.layer.get(input);
                if space == rows || space == Space::Edges {
                    walk.write(space, width);
                } else if self.rules.adds_by_atomics() {
                    walk.add(space, width);
                } else {
                    walk.gather(space, width);
                }
                writes.push((result, self.size(input)));
            }
            // The first pass has the gradients of weights.
            let weights = std::mem::take(&mut rest);
            for &(id, weight) in &weights {
                self.weight_in_walk(id, weight, &mut walk, &mut writes);
            }
            let operator = name(own, if end == End::Source { "backward to sources" } else { "backward" });
            self.walked(operator, walk, &reads, &writes);
            for (id, weight) in weights {
                self.weight_behind_walk(id, weight, gradient);
            }
        }
        for (input, result) in given {
            self.give(input, result);
        }
    }

    /// Walks of the backward pass of a group and the gradients that each makes: one, or one an end of
    /// edges where nodes are taken one after the other.
    fn passes_back(&self, given: &[(ValueId, Name)], rows: Space) -> Vec<(End, Vec<(ValueId, Name)>)> {
        let is_at = |&&(input, _): &&(ValueId, Name)| {
            let space = self.layer.get(input).space;
            rows == Space::Edges && space != Space::Edges && space.end() == End::Source
        };
        let (to_sources, others): (Vec<_>, Vec<_>) = given.iter().partition(|pair| is_at(pair));
        match (self.rules.adds_by_atomics(), others.is_empty(), to_sources.is_empty()) {
            (true, ..) | (false, _, true) => vec![(End::Destination, given.to_vec())],
            (false, true, false) => vec![(End::Source, to_sources)],
            (false, false, false) => vec![(End::Destination, others), (End::Source, to_sources)],
        }
    }

    /// Tensors that a walk writes for the gradient of a weight: rows of numbers that vectors are
    /// multiplied with, or all of it, an outer product for each edge.
    fn weight_in_walk(
        &self,
        id: ValueId,
        weight: WeightId,
        walk: &mut Walk<'_>,
        writes: &mut Vec<(Name, u64)>,
    ) {
        let (value, w, own) = (self.layer.get(id), self.weight(weight), self.tensor(id));
        match value.made {
            Made::Linear(..) if Self::is_vector(w) => {
                walk.write(value.space, value.width);
                writes.push((name(own, "gradient"), self.size(id)));
            }
            Made::Linear(..) => {
                walk.add_to_weights(w.elements(), w.by);
                let bytes = self.bytes(self.copies(w.by), w.elements());
                writes.push((name(own, "weight gradient"), bytes));
            }
            _ => {}
        }
    }

    /// Kernels behind a walk for the gradient of a weight.
    fn weight_behind_walk(&mut self, id: ValueId, weight: WeightId, gradient: Name) {
        match self.layer.get(id).made.clone() {
            Made::Linear(of, _) if Self::is_vector(self.weight(weight)) => {
                self.vector_weight_back(id, of, weight);
            }
            Made::Linear(..) => {
                self.draft.phase = Phase::BackwardWeight;
                self.accumulate(weight, name(self.tensor(id), "weight gradient"));
                self.draft.phase = Phase::BackwardInput;
            }
            Made::Map(..) => self.parameter_back(id, weight, gradient),
            _ => {}
        }
    }

    /// The gradient of vectors of types: sums of rows, each times a number.
    fn vector_weight_back(&mut self, id: ValueId, of: ValueId, weight: WeightId) {
        let w = self.weight(weight);
        let (own, segmented) = (self.tensor(id), self.graph.segmented(self.layer.get(id).space, w.by));
        let result = name(own, "weight gradient");
        let of_space = self.layer.get(of).space;
        let gathered = of_space != self.layer.get(id).space;
        let work = Segments {
            rows: segmented.rows * w.heads,
            segments: segmented.segments * w.heads,
            longest: segmented.longest,
            n: w.columns,
            k: w.rows,
            dtype: self.dtype(),
            layout: Layout::WeightGradient,
            gathered,
            table: self.graph.rows(of_space),
            scattered: true,
        };
        let writes = [(result, self.bytes(self.copies(w.by), w.elements()))];
        self.draft.phase = Phase::BackwardWeight;
        let reads = [name(own, "gradient"), self.tensor(of)];
        self.segments(result, work, &reads, &writes);
        self.accumulate(weight, result);
        self.draft.phase = Phase::BackwardInput;
    }
}
