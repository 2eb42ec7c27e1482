//! Products of rows with the weights of their types.

use crate::graph::Phase;
use crate::graph::operator::{Layout, Segments, StreamClass, Work};
use crate::model::names::{Name, name};

use super::super::layer::{By, Made, Space, ValueId, Weight, WeightId};
use super::super::subgraph::Segmented;
use super::super::system::Typed;
use super::Emission;

/// A product of rows with weights of their types.
#[derive(Clone, Copy)]
struct Shape {
    segmented: Segmented,
    heads: u64,
    /// Columns of what it makes, and what it sums over.
    n: u64,
    k: u64,
    layout: Layout,
}

/// Views beside the product of an `einsum`: three of each side and one of the result
/// (`sumproduct_pair` of PyTorch). A linear layer has one, to heads.
const EINSUM_VIEWS: u32 = 7;

impl Emission<'_> {
    /// Products of the weights that values are multiplied with.
    pub(super) fn fold_weights(&mut self, values: &[ValueId]) {
        for &id in values {
            let Made::Linear(_, weight) = self.layer.get(id).made else { continue };
            let Some([inner, outer]) = self.weight(weight).product else { continue };
            let (inner, outer, own) = (self.weight(inner), self.weight(outer), self.weight(weight));
            let copies = self.copies(own.by);
            let product = (copies * outer.heads, inner.rows, outer.columns, outer.rows);
            let (to, bytes) = (self.weight_tensor(weight), self.bytes(copies, own.elements()));
            self.draft.gemm(to, product, (self.dtype(), Layout::Forward), &[], &[(to, bytes)]);
        }
    }

    fn weight_tensor(&self, weight: WeightId) -> Name {
        self.scoped(Name::of(self.weight(weight).name).numbered(weight.0 as u64))
    }

    /// The folded weight that a product reads.
    pub(super) fn folded(&self, weight: WeightId) -> Option<Name> {
        self.weight(weight).product.map(|_| self.weight_tensor(weight))
    }

    /// True if a weight is a vector for each head, with which products are functions of rows.
    pub(super) const fn is_vector(weight: &Weight) -> bool {
        weight.columns == 1
    }

    /// True if rows of a product are found in those of a value by an index; all nodes of a type are
    /// next to each other.
    pub(super) fn is_indexed(&self, of: ValueId, space: Space) -> bool {
        self.layer.get(of).space != space && !matches!(space, Space::Typed(_))
    }

    /// True if one kernel has the products with all copies of a weight.
    fn is_one_product(&self, by: By) -> bool {
        by == By::Nothing || self.rules.typed == Typed::Segments
    }

    /// The forward pass of a product.
    pub(super) fn product(&mut self, id: ValueId, of: ValueId, weight: WeightId) {
        let (value, w) = (self.layer.get(id), self.weight(weight));
        let to = (self.tensor(id), self.size(id));
        let mut reads = vec![self.tensor(of)];
        reads.extend(self.folded(weight));
        let indexed = self.is_indexed(of, value.space);
        let table = indexed.then(|| self.graph.rows(self.layer.get(of).space));
        let segmented = self.graph.segmented(value.space, w.by);
        let shape = Shape { segmented, heads: w.heads, n: w.columns, k: w.rows, layout: Layout::Forward };
        if Self::is_vector(w) && !self.rules.fuses() {
            return self.vector_product(id, of, weight);
        }
        if self.is_one_product(w.by) {
            return self.at_once(to.0, w.by, shape, (table, false), &reads, &[to]);
        }
        if self.rules.typed == Typed::CopiedWeights && value.space == Space::Edges {
            let (rows, _) = self.found_at_edges(of);
            let weights = self.copied_weights(id, weight);
            let batch = (segmented.rows * w.heads, 1, w.columns, w.rows);
            self.draft.gemm(to.0, batch, (self.dtype(), Layout::Forward), &[rows, weights], &[to]);
            return;
        }
        let slices = self.rules.typed == Typed::Slices && indexed;
        if indexed && !slices {
            reads[0] = self.copied_to_edges(of);
        }
        // A batch of heads has its result head by head; kernels of edges want it row by row.
        if self.rules.by_relation && w.heads > 1 {
            let of_heads = name(to.0, "of heads");
            self.type_by_type(of_heads, (value.space, w.by), shape, false, &reads, &[(of_heads, to.1)]);
            self.stream(to.0, (to.1, to.1), &[of_heads], &[to]);
            return;
        }
        self.type_by_type(to.0, (value.space, w.by), shape, slices, &reads, &[to]);
    }

    /// Weights copied for each edge: one of each type for all of its edges.
    fn copied_weights(&mut self, id: ValueId, weight: WeightId) -> Name {
        let elements = self.weight(weight).elements();
        let copy = name(self.tensor(id), "weights of edges");
        let bytes = self.bytes(self.graph.edges(), elements);
        // Rows of a table as large as a weight, each read for every edge of its type, from the
        // cache.
        let table = self.bytes(self.copies(By::EdgeType), elements);
        self.draft.stream(copy, StreamClass::Permutation, (table.min(bytes), bytes), &[], &[(copy, bytes)]);
        copy
    }

    /// Products with a vector: a function of rows and their sum.
    fn vector_product(&mut self, id: ValueId, of: ValueId, weight: WeightId) {
        let (to, size) = (self.tensor(id), self.size(id));
        let (space, by) = (self.layer.get(id).space, self.weight(weight).by);
        let width = self.layer.get(of).width;
        let rows = self.graph.rows(space);
        let all = self.bytes(rows, width);
        let from = if self.is_indexed(of, space) { self.copied_to_edges(of) } else { self.tensor(of) };
        let mut reads = vec![from];
        if by == By::EdgeType && !self.rules.by_relation {
            let vectors = name(to, "vectors of edges");
            self.draft.stream(vectors, StreamClass::Permutation, (0, all), &[], &[(vectors, all)]);
            reads.push(vectors);
        }
        let product = name(to, "factors");
        self.stream(product, (all * reads.len() as u64, all), &reads, &[(product, all)]);
        self.draft.stream(to, StreamClass::Reduction, (all, size), &[product], &[(to, size)]);
    }

    /// A product in one kernel.
    fn at_once(
        &mut self,
        operator: Name,
        by: By,
        shape: Shape,
        (table, scattered): (Option<u64>, bool),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        let Shape { segmented: Segmented { rows, segments, longest }, heads, n, k, layout } = shape;
        let dtype = self.dtype();
        if by == By::Nothing {
            let product = match layout {
                Layout::WeightGradient => (heads, k, n, rows),
                _ => (heads, rows, n, k),
            };
            self.draft.gemm(operator, product, (dtype, layout), reads, writes);
            return;
        }
        let work = Segments {
            rows: rows * heads,
            segments: segments * heads,
            longest,
            n,
            k,
            dtype,
            layout,
            gathered: table.is_some(),
            table: table.unwrap_or(rows * heads),
            scattered,
        };
        self.segments(operator, work, reads, writes);
    }

    /// Appends products of segments; what they add to is zero before.
    pub(super) fn segments(
        &mut self,
        operator: Name,
        work: Segments,
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        if work.scattered {
            let reads = self.zeroed(reads, writes);
            self.draft.push(operator, Work::Segments(work), &reads, &[]);
        } else {
            self.draft.push(operator, Work::Segments(work), reads, writes);
        }
    }

    /// A product of each type that has rows; in slices these are copied and put back.
    fn type_by_type(
        &mut self,
        operator: Name,
        (space, by): (Space, By),
        Shape { heads, n, k, layout, .. }: Shape,
        slices: bool,
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        let dtype = self.dtype();
        let rows = self.graph.rows_by_weight(space, by);
        let by_relation = self.rules.by_relation;
        // Gradients of weights are a tensor a type where products are.
        let joined = self.rules.typed == Typed::Joined && layout != Layout::WeightGradient;
        let (mut writes, mut first, mut parts) = (writes.to_vec(), true, Vec::new());
        for (number, rows) in rows.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            let part = name(operator, Name::of("part").numbered(number as u64));
            let mut from = reads.to_vec();
            let of = self.bytes(rows, k * heads);
            if slices {
                // A mask is compared, counted and turned to indices, for which the host waits.
                let edges = self.graph.edges();
                let mask = name(part, "mask");
                self.stream(mask, (8 * edges, edges), &[], &[(mask, edges)]);
                let found = name(part, "found");
                self.stream(found, (edges, 8 * rows), &[mask], &[(found, 8 * rows)]);
                self.draft.operators.last_mut().expect("one was written").awaited = true;
                let copy = name(part, "rows");
                self.draft.stream(copy, StreamClass::Permutation, (of, of), &[from[0], found], &[(copy, of)]);
                from[0] = copy;
            }
            let product = match layout {
                Layout::WeightGradient => (heads, k, n, rows),
                _ => (heads, rows, n, k),
            };
            let (made, size) = (name(part, "product"), self.bytes(rows, n * heads));
            if joined {
                self.draft.gemm(part, product, (dtype, layout), &from, &[(made, size)]);
                parts.push(made);
                continue;
            }
            if slices {
                self.draft.gemm(part, product, (dtype, layout), &from, &[(made, size)]);
                let put = name(part, "put");
                self.draft.stream(put, StreamClass::Permutation, (size, size), &[made], &writes);
            } else {
                let made = self.draft.gemm(part, product, (dtype, layout), &from, &writes);
                // One call of `segment_mm` launches them all; a module a type does not.
                made.members = u32::from(first || by_relation);
                made.views = match (by_relation, by) {
                    (false, _) => 0,
                    (true, By::EdgeType) => EINSUM_VIEWS,
                    (true, _) => 1,
                };
            }
            first = false;
            // The first fills what the others fill, too.
            if let Some((filled, _)) = writes.pop() {
                self.draft
                    .operators
                    .last_mut()
                    .expect("one was written")
                    .reads
                    .retain(|read| *read != filled);
            }
        }
        if joined {
            let all = writes.iter().map(|&(_, bytes)| bytes).sum();
            self.draft.stream(operator, StreamClass::Permutation, (all, all), &parts, &writes);
        }
    }

    /// The backward pass of a product: gradients of its rows, of its weight, and of the factors of
    /// that.
    pub(super) fn product_back(&mut self, id: ValueId, of: ValueId, weight: WeightId, gradient: Name) {
        let (value, w) = (self.layer.get(id), self.weight(weight));
        let (own, space) = (self.tensor(id), value.space);
        let source = self.layer.get(of);
        let from_nodes = source.space != space;
        let indexed = self.is_indexed(of, space);
        let segmented = self.graph.segmented(space, w.by);
        let table = indexed.then(|| self.graph.rows(source.space));
        let at_once = self.is_one_product(w.by);
        if self.tracked[of.0] {
            let shape =
                Shape { segmented, heads: w.heads, n: w.rows, k: w.columns, layout: Layout::InputGradient };
            let result = name(own, "input gradient");
            let (at_rows, at_nodes) = (self.bytes(self.graph.rows(space), source.width), self.size(of));
            let mut reads = vec![gradient];
            reads.extend(self.folded(weight));
            // Rows of a relation are all nodes of a type: nothing is added before types are.
            let rows =
                if from_nodes && !self.rules.by_relation { name(own, "gradient of rows") } else { result };
            if at_once && (indexed || !from_nodes) {
                let to = if indexed { at_nodes } else { at_rows };
                self.at_once(result, w.by, shape, (None, indexed), &reads, &[(result, to)]);
            } else if at_once {
                self.at_once(rows, w.by, shape, (None, false), &reads, &[(rows, at_rows)]);
            } else {
                self.type_by_type(rows, (space, w.by), shape, false, &reads, &[(rows, at_rows)]);
            }
            if rows != result && indexed && !at_once {
                self.add_to_nodes(result, rows, of);
            } else if rows != result && !indexed {
                let writes = [(result, at_nodes)];
                self.draft.stream(result, StreamClass::Reduction, (at_rows, at_nodes), &[rows], &writes);
            }
            self.give(of, result);
        }
        let shape =
            Shape { segmented, heads: w.heads, n: w.columns, k: w.rows, layout: Layout::WeightGradient };
        let result = name(own, "weight gradient");
        let copies = self.copies(w.by);
        let writes = [(result, self.bytes(copies, w.elements()))];
        let reads = [gradient, self.tensor(of)];
        self.draft.phase = Phase::BackwardWeight;
        if self.rules.typed == Typed::CopiedWeights && space == Space::Edges {
            let each = name(own, "weight gradients of edges");
            let all = self.bytes(self.graph.edges(), w.elements());
            let batch = (segmented.rows * w.heads, w.rows, w.columns, 1);
            self.draft.gemm(each, batch, (self.dtype(), Layout::WeightGradient), &reads, &[(each, all)]);
            self.draft.stream(result, StreamClass::EmbeddingGradient, (all, writes[0].1), &[each], &writes);
        } else if at_once {
            let dealt = self.rules.typed == Typed::Segments;
            self.at_once(result, w.by, shape, (table, dealt), &reads, &writes);
        } else {
            self.type_by_type(result, (space, w.by), shape, false, &reads, &writes);
        }
        self.accumulate(weight, result);
        self.draft.phase = Phase::BackwardInput;
    }

    /// Adds the gradient of a weight to its sum; that of a product of weights goes to both.
    pub(super) fn accumulate(&mut self, weight: WeightId, gradient: Name) {
        let own = self.weight(weight);
        let count = self.copies(own.by) * own.elements();
        if let Some([inner, outer]) = own.product {
            let (w, v) = (self.weight(inner), self.weight(outer));
            let copies = self.copies(own.by) * v.heads;
            let parts =
                [(inner, (copies, w.rows, v.rows, v.columns)), (outer, (copies, v.rows, v.columns, w.rows))];
            for (factor, product) in parts {
                let of = self.weight(factor);
                let result = name(name(gradient, "of factor"), Name::of("weight").numbered(factor.0 as u64));
                let writes = [(result, self.bytes(self.copies(of.by), of.elements()))];
                self.draft.gemm(
                    result,
                    product,
                    (self.dtype(), Layout::WeightGradient),
                    &[gradient],
                    &writes,
                );
                self.accumulate(factor, result);
            }
            return;
        }
        let sum = count * self.on.states.gradient_bytes();
        let traffic = (count * self.dtype().bytes() + sum, sum);
        self.stream(name("accumulate", gradient), traffic, &[gradient], &[]);
    }

    /// Adds rows of edges to those of the nodes that they were copied from.
    pub(super) fn add_to_nodes(&mut self, result: Name, rows: Name, of: ValueId) {
        let (space, width) = (self.layer.get(of).space, self.layer.get(of).width);
        let mut walk = self.walk();
        walk.read(Space::Edges, width);
        walk.add(space, width);
        self.walked(result, walk, &[rows], &[(result, self.size(of))]);
    }
}
