//! LayerNorm and RMSNorm.

use super::Norm;
use super::draft::Draft;
use super::execution::ShardedTransformer;
use super::operator::StreamClass;

/// Names of the operators and tensors of a norm.
pub(super) struct NormNames {
    pub(super) norm: &'static str,
    pub(super) output: &'static str,
    pub(super) statistics: &'static str,
    pub(super) input_gradient: &'static str,
    pub(super) weight_gradient: &'static str,
}

macro_rules! norm_names {
    ($name:literal) => {
        &$crate::model::transformer::norm::NormNames {
            norm: $name,
            output: concat!($name, " output"),
            statistics: concat!($name, " statistics"),
            input_gradient: concat!($name, " input gradient"),
            weight_gradient: concat!($name, " weight gradient"),
        }
    };
}
pub(super) use norm_names;

impl NormNames {
    /// Reads the input, writes the output, and fp32 mean and deviation of every token (RMSNorm: deviation only).
    pub(super) fn forward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
    ) -> &'static str {
        let bytes = on.bytes(on.residual_elements());
        let statistics = statistics(on);
        let writes = [(self.output, bytes), (self.statistics, statistics)];
        draft.stream(self.norm, class(on), (bytes, bytes + statistics), &[input], &writes);
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
    ) -> &'static str {
        let bytes = on.bytes(on.residual_elements());
        let read = 2 * bytes + statistics(on);
        let reads = [input, self.statistics, gradient];
        draft.stream(self.weight_gradient, StreamClass::Reduction, (read, 0), &reads, &[]);
        draft.stream(self.input_gradient, class(on), (read, bytes), &reads, &[(self.input_gradient, bytes)]);
        self.input_gradient
    }
}

const fn class(on: &ShardedTransformer) -> StreamClass {
    match on.model().norm {
        Norm::Layer => StreamClass::LayerNorm,
        Norm::Rms => StreamClass::RmsNorm,
    }
}

/// Bytes of the statistics of all tokens.
const fn statistics(on: &ShardedTransformer) -> u64 {
    let each = match on.model().norm {
        Norm::Layer => 8,
        Norm::Rms => 4,
    };
    on.residual_tokens() * each
}
