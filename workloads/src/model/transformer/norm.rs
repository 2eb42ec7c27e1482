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
    /// Over rows of `width`. Reads the input, writes the output, and fp32 mean and deviation of every token (RMSNorm: deviation only).
    pub(super) fn forward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        width: u64,
    ) -> Name {
        let bytes = on.bytes(on.residual_tokens() * width);
        let statistics = statistics(on);
        if in_operators(on) {
            self.forward_in_operators(draft, on, input, (bytes, statistics));
            return self.output;
        }
        let writes = [(self.output, bytes), (self.statistics, statistics)];
        draft.walk(self.norm, rows(on), (bytes, bytes + statistics), &[input], &writes);
        self.output
    }

    /// A pass over input and output gradient for the gradients of the weights, and one for that of the input. Both are
    /// one function of the autograd graph, so that neither waits for the weight gradients of linear layers.
    pub(super) fn backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        gradient: Name,
        width: u64,
    ) -> Name {
        let bytes = on.bytes(on.residual_tokens() * width);
        if in_operators(on) {
            self.backward_in_operators(draft, on, gradient, (bytes, statistics(on)));
            return self.input_gradient;
        }
        let read = 2 * bytes + statistics(on);
        let reads = [input, self.statistics, gradient];
        draft.stream(self.weight_gradient, StreamClass::Reduction, (read, 0), &reads, &[]);
        draft.walk(self.input_gradient, rows(on), (read, bytes), &reads, &[(self.input_gradient, bytes)]);
        self.input_gradient
    }
}

/// Whether it is more than one kernel; LayerNorm is one everywhere.
fn in_operators(on: &ShardedTransformer) -> bool {
    on.model().norm == Norm::Rms && !on.execution().fusion.norm
}

/// A row for every token.
const fn rows(on: &ShardedTransformer) -> (StreamClass, u64) {
    let class = match on.model().norm {
        Norm::Layer => StreamClass::LayerNorm,
        Norm::Rms => StreamClass::RmsNorm,
    };
    (class, on.residual_tokens())
}

/// Bytes of the statistics of all tokens.
const fn statistics(on: &ShardedTransformer) -> u64 {
    let each = match on.model().norm {
        Norm::Layer => 8,
        Norm::Rms => 4,
    };
    on.residual_tokens() * each
}
