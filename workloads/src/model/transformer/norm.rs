//! LayerNorm and RMSNorm.

use super::Norm;
use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::names::names;
use crate::graph::operator::StreamClass;

names! { $
    /// Names of the operators and tensors of a norm.
    NormNames by norm_names;
    norm: "" _ "",
    output: "" _ " output",
    statistics: "" _ " statistics",
    input_gradient: "" _ " input gradient",
    weight_gradient: "" _ " weight gradient",
    cast: "cast " _ " input",
    single: "" _ " input in fp32",
    square: "square of " _ " input",
    squared: "" _ " input squared",
    mean: "mean of " _ " squares",
    scale: "scale " _ " input",
    scaled: "" _ " input, scaled",
    cast_back: "cast " _ " back",
    normed: "" _ " before weight",
    weigh: "weigh " _ "",
    normed_gradient: "" _ " gradient before weight",
    products: "" _ " gradient times input",
    cast_gradient: "cast " _ " gradient",
    single_gradient: "" _ " gradient in fp32",
    scale_gradient: "scale " _ " gradient",
    scaled_gradient: "" _ " gradient, scaled",
    factor_gradient: "" _ " gradient of the scale",
    factor_sum: "sum of " _ " gradient of the scale",
    mean_gradient: "" _ " gradient of the mean",
    power: "" _ " input to the power of one",
    twice: "" _ " input twice",
    square_gradient: "" _ " gradient of the squares",
    add: "add " _ " gradients",
    added: "" _ " gradients, added",
    cast_gradient_back: "cast " _ " gradient back",
}

impl NormNames {
    /// Over a row of `width` for every token of the residual stream.
    pub(super) fn forward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        width: u64,
    ) -> Name {
        self.forward_rows(draft, on, input, Rows::of_tokens(on, width))
    }

    /// Reads the input, writes the output, and fp32 mean and deviation of every row (RMSNorm:
    /// deviation only).
    pub(super) fn forward_rows(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        rows: Rows,
    ) -> Name {
        let (bytes, statistics) = (rows.bytes(on), rows.statistics(on));
        if rows.in_operators(on) {
            self.forward_in_operators(draft, on, input, (bytes, statistics));
            return self.output;
        }
        let writes = [(self.output, bytes), (self.statistics, statistics)];
        draft.walk(self.norm, rows.walked(on), (bytes, bytes + statistics), &[input], &writes);
        self.output
    }

    /// The backward pass of [`Self::forward`].
    pub(super) fn backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        gradient: Name,
        width: u64,
    ) -> Name {
        self.backward_rows(draft, on, input, gradient, Rows::of_tokens(on, width))
    }

    /// A pass over input and output gradient for the gradients of the weights, and one for that of
    /// the input. Both are one function of the autograd graph, so that neither waits for the weight
    /// gradients of linear layers.
    pub(super) fn backward_rows(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        gradient: Name,
        rows: Rows,
    ) -> Name {
        let (bytes, statistics) = (rows.bytes(on), rows.statistics(on));
        if rows.in_operators(on) {
            self.backward_in_operators(draft, on, gradient, (bytes, statistics));
            return self.input_gradient;
        }
        let read = 2 * bytes + statistics;
        let reads = [input, self.statistics, gradient];
        if rows.weighted && on.trains_weights() {
            draft.stream(self.weight_gradient, StreamClass::Reduction, (read, 0), &reads, &[]);
        }
        let writes = [(self.input_gradient, bytes)];
        draft.walk(self.input_gradient, rows.walked(on), (read, bytes), &reads, &writes);
        self.input_gradient
    }
}

/// Rows that a norm goes over.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: u64,
    pub(super) width: u64,
    /// The norm has a weight for each column.
    pub(super) weighted: bool,
}

impl Rows {
    const fn of_tokens(on: &ShardedTransformer, width: u64) -> Self {
        Self { count: on.residual_tokens(), width, weighted: true }
    }

    const fn bytes(self, on: &ShardedTransformer) -> u64 {
        on.bytes(self.count * self.width)
    }

    /// Bytes of the statistics of all rows.
    const fn statistics(self, on: &ShardedTransformer) -> u64 {
        let each = match on.model().norm {
            Norm::Layer => 8,
            Norm::Rms => 4,
        };
        self.count * each
    }

    /// Whether the norm is more than one kernel; LayerNorm is one everywhere.
    fn in_operators(self, on: &ShardedTransformer) -> bool {
        self.weighted && on.model().norm == Norm::Rms && !on.execution().fusion.norm
    }

    const fn walked(self, on: &ShardedTransformer) -> (StreamClass, u64) {
        let class = match on.model().norm {
            Norm::Layer => StreamClass::LayerNorm,
            Norm::Rms => StreamClass::RmsNorm,
        };
        (class, self.count)
    }
}
