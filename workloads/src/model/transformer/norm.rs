//! LayerNorm and RMSNorm.

use super::Norm;
use super::draft::Draft;
use super::execution::ShardedTransformer;
use super::names::names;
use super::operator::StreamClass;

names! { $
    /// Names of the operators and tensors of a norm.
    NormNames by norm_names;
    norm: "" _ "",
    output: "" _ " output",
    statistics: "" _ " statistics",
    input_gradient: "" _ " input gradient",
    weight_gradient: "" _ " weight gradient",
}

impl NormNames {
    /// Over rows of `width`. Reads the input, writes the output, and fp32 mean and deviation of every token (RMSNorm: deviation only).
    pub(super) fn forward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
        width: u64,
    ) -> &'static str {
        let bytes = on.bytes(on.residual_tokens() * width);
        let statistics = statistics(on);
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
        input: &'static str,
        gradient: &'static str,
        width: u64,
    ) -> &'static str {
        let bytes = on.bytes(on.residual_tokens() * width);
        let read = 2 * bytes + statistics(on);
        let reads = [input, self.statistics, gradient];
        draft.stream(self.weight_gradient, StreamClass::Reduction, (read, 0), &reads, &[]);
        draft.walk(self.input_gradient, rows(on), (read, bytes), &reads, &[(self.input_gradient, bytes)]);
        self.input_gradient
    }
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
