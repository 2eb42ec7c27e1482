//! Queries, keys and values as three products of one input, which add their biases, rather than slices of one; keys and
//! values repeated for the queries of their group, where attention takes as many of each.

use crate::graph::Phase;

use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::linear::{self, Linear, Names, Side, linear_names};
use super::{Bias, Positions, QueryKeyNorm, adapters, rotary};
use crate::graph::operator::StreamClass;

const QUERY: &Names = linear_names!("query");
const KEY: &Names = linear_names!("key");
const VALUE: &Names = linear_names!("value");
const REPEATED: [Name; 2] = [Name::of("key, repeated"), Name::of("value, repeated")];
const REPEAT: [Name; 2] = [Name::of("repeat key"), Name::of("repeat value")];
const BIASES: [Name; 3] =
    [Name::of("query bias gradient"), Name::of("key bias gradient"), Name::of("value bias gradient")];
const SUMMED: [Name; 2] = [Name::of("key gradient of the group"), Name::of("value gradient of the group")];

/// The projections to queries, keys and values of a rank.
pub(super) struct Apart {
    /// Columns of each.
    pub(super) columns: [u64; 3],
    /// Queries that share a key and a value, where these are repeated; else 1.
    pub(super) repeats: u64,
}

impl Apart {
    /// The forward pass from the output of the norm to the tensors of [`Self::operands`].
    pub(super) fn forward(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) {
        linear::forward(&self.layers(on), draft, on, input);
        let (norm, columns) = (on.query_key_norm(), [self.columns[0], self.columns[1]]);
        let mut tensors = [QUERY.output, KEY.output];
        if let Some(norm) = norm.filter(|norm| norm.precedes_rotation()) {
            tensors = norm.forward(draft, on, tensors, columns);
        }
        if on.model().positions == Positions::Rotary {
            let [queries, keys, _] = self.bytes(on);
            tensors = rotary::forward(draft, on, tensors, [queries, keys]);
        }
        if let Some(norm) = norm.filter(|norm| !norm.precedes_rotation()) {
            norm.forward(draft, on, tensors, columns);
        }
        if self.repeats > 1 {
            let [_, key, value] = self.projected(on);
            for ((from, bytes), (name, to)) in
                [key, value].into_iter().zip(&self.bytes(on)[1..]).zip(REPEAT.into_iter().zip(REPEATED))
            {
                let many = self.repeats * bytes;
                draft.stream(name, StreamClass::Elementwise, (*bytes, many), &[from], &[(to, many)]);
            }
        }
    }

    /// The backward pass from the gradients of the operands; returns the name of the gradient of the input.
    pub(super) fn backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        mut gradients: [Name; 3],
    ) -> Name {
        let [queries, keys, values] = self.bytes(on);
        if self.repeats > 1 {
            for (n, bytes) in [keys, values].into_iter().enumerate() {
                let many = self.repeats * bytes;
                let writes = [(SUMMED[n], bytes)];
                let reads = [gradients[n + 1]];
                draft.stream(SUMMED[n], StreamClass::Elementwise, (many, bytes), &reads, &writes);
                gradients[n + 1] = SUMMED[n];
            }
        }
        let (norm, columns) = (on.query_key_norm(), [self.columns[0], self.columns[1]]);
        if let Some(norm) = norm.filter(|norm| !norm.precedes_rotation()) {
            let of_heads = [gradients[0], gradients[1]];
            let [query, key] = norm.backward(draft, on, self.rotated(on), of_heads, columns);
            (gradients[0], gradients[1]) = (query, key);
        }
        if on.model().positions == Positions::Rotary {
            let of_both = [gradients[0], gradients[1]];
            let [query, key] = rotary::backward(draft, on, of_both, [queries, keys]);
            (gradients[0], gradients[1]) = (query, key);
        }
        if let Some(norm) = norm.filter(|norm| norm.precedes_rotation()) {
            let of_heads = [gradients[0], gradients[1]];
            let [query, key] = norm.backward(draft, on, [QUERY.output, KEY.output], of_heads, columns);
            (gradients[0], gradients[1]) = (query, key);
        }
        if on.model().bias != Bias::None && on.trains_weights() {
            draft.within(Phase::BackwardWeight, |draft| {
                for ((name, gradient), bytes) in BIASES.into_iter().zip(gradients).zip(self.bytes(on)) {
                    draft.stream(name, StreamClass::Reduction, (bytes, 0), &[gradient], &[]);
                }
            });
        }
        linear::backward(&self.layers(on), draft, on, input, &gradients)
    }

    /// The tensors of queries, keys and values that attention reads.
    pub(super) fn operands(&self, on: &ShardedTransformer) -> [Name; 3] {
        let [query, key, value] = self.projected(on);
        if self.repeats > 1 { [query, REPEATED[0], REPEATED[1]] } else { [query, key, value] }
    }

    /// Their tensors before any repetition.
    fn projected(&self, on: &ShardedTransformer) -> [Name; 3] {
        let [query, key] = match on.query_key_norm() {
            Some(norm) if !norm.precedes_rotation() => QueryKeyNorm::outputs(),
            _ => self.rotated(on),
        };
        [query, key, VALUE.output]
    }

    /// Queries and keys after positions have rotated them.
    fn rotated(&self, on: &ShardedTransformer) -> [Name; 2] {
        match (rotary::rotated(on), on.query_key_norm()) {
            (Some(rotated), _) => rotated,
            (None, Some(norm)) if norm.precedes_rotation() => QueryKeyNorm::outputs(),
            _ => [QUERY.output, KEY.output],
        }
    }

    /// The linear layers.
    pub(super) fn layers(&self, on: &ShardedTransformer) -> [Linear; 3] {
        let layer = |names, outputs| Linear::new(names, Side::Columns, on.hidden(), outputs);
        let [queries, keys, values] = self.columns;
        [
            layer(QUERY, queries).adaptable(adapters::QUERY),
            layer(KEY, keys).adaptable(adapters::KEY),
            layer(VALUE, values).adaptable(adapters::VALUE),
        ]
    }

    fn bytes(&self, on: &ShardedTransformer) -> [u64; 3] {
        self.columns.map(|columns| on.bytes(on.tokens() * columns))
    }
}
