//! Linear layers split over tensor ranks by columns or by rows (Shoeybi et al. 2019, section 3), with the collectives
//! of sequence parallelism where it is on (Korthikanti et al. 2023, section 4.2.2).
//!
//! | | forward | backward, gradient of the input | beside |
//! |---|---|---|---|
//! | columns | - | all-reduce of the gradient | weight gradient |
//! | rows | all-reduce of the output | - | |
//! | columns, SP | all-gather of the input | reduce-scatter of the gradient | weight gradient |
//! | | | all-gather of the input, kept sharded, again | input gradient |
//! | rows, SP | reduce-scatter of the output | all-gather of the gradient | |
//! | whole | - | - | |
//!
//! A layer that every rank has whole works on the rank's part of the sequence under sequence parallelism.
//!
//! The order is that of Megatron-LM's `LinearWithGradAccumulationAndAsyncCommunication`: input gradient, its
//! collective, weight gradient.

use crate::graph::Phase;

use super::draft::{Draft, Issue};
use super::execution::ShardedTransformer;
use super::names::names;
use super::operator::{CollectiveKind, Group, Layout, Work};

/// A linear layer of a rank.
pub(super) struct Linear {
    pub(super) names: &'static Names,
    pub(super) side: Side,
    /// Columns of its input on this rank.
    pub(super) inputs: u64,
    /// Columns of its output on this rank.
    pub(super) outputs: u64,
}

/// Along which side of the weight ranks share it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Columns,
    Rows,
    /// Along none.
    Whole,
}

names! { $
    /// Names of the operators of a linear layer and of its tensors.
    Names by linear_names;
    product: "" _ "",
    gather_input: "gather " _ " input",
    reduce_output: "reduce " _ " output",
    gather_output_gradient: "gather " _ " output gradient",
    gather_input_again: "gather " _ " input again",
    input_gradient: "" _ " input gradient",
    reduce_input_gradient: "reduce " _ " input gradient",
    weight_gradient: "" _ " weight gradient",
    accumulate: "accumulate " _ " weight gradient",
    gathered: "" _ " input, gathered",
    gathered_again: "" _ " input, gathered again",
    output: "" _ " output",
    reduced: "" _ " output, scattered",
    gradient_gathered: "" _ " output gradient, gathered",
    gradient_reduced: "" _ " input gradient, scattered",
}

impl Linear {
    /// The forward pass from tensor `input`; returns the name of the result.
    pub(super) fn forward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
    ) -> &'static str {
        let (names, tokens) = (self.names, self.tokens(on));
        let shards = on.sequence_parallel();
        let mut operand = input;
        if shards && self.side == Side::Columns {
            let bytes = on.bytes(tokens * self.inputs);
            let gather = (CollectiveKind::AllGather, Group::Tensor, bytes);
            draft.collective(
                names.gather_input,
                gather,
                Issue::Waiting,
                &[input],
                &[(names.gathered, bytes)],
            );
            operand = names.gathered;
        }
        let bytes = on.bytes(tokens * self.outputs);
        let shape = (1, tokens, self.outputs, self.inputs);
        draft.gemm(
            names.product,
            shape,
            (on.execution().dtype, Layout::Forward),
            &[operand],
            &[(names.output, bytes)],
        );
        if on.tensor() == 1 || self.side != Side::Rows {
            return names.output;
        }
        reduce(draft, on, names.reduce_output, Issue::Waiting, (names.output, names.reduced), bytes)
    }

    /// The backward pass from `gradient`, that of the output, with the `input` of the forward pass; returns the name of
    /// the gradient of the input.
    pub(super) fn backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
        gradient: &'static str,
    ) -> &'static str {
        let (names, tokens, dtype) = (self.names, self.tokens(on), on.execution().dtype);
        let shards = on.sequence_parallel();
        let (mut input, mut gradient) = (input, gradient);
        if shards && self.side == Side::Rows {
            let bytes = on.bytes(tokens * self.outputs);
            let gather = (CollectiveKind::AllGather, Group::Tensor, bytes);
            let writes = [(names.gradient_gathered, bytes)];
            draft.collective(names.gather_output_gradient, gather, Issue::Waiting, &[gradient], &writes);
            gradient = names.gradient_gathered;
        }
        let bytes = on.bytes(tokens * self.inputs);
        if shards && self.side == Side::Columns {
            let gather = (CollectiveKind::AllGather, Group::Tensor, bytes);
            draft.within(Phase::BackwardWeight, |draft| {
                let writes = [(names.gathered_again, bytes)];
                draft.collective(names.gather_input_again, gather, Issue::Beside, &[input], &writes);
            });
            input = names.gathered_again;
        }
        let shape = (1, tokens, self.inputs, self.outputs);
        let writes = [(names.input_gradient, bytes)];
        draft.gemm(names.input_gradient, shape, (dtype, Layout::InputGradient), &[gradient], &writes);
        let mut result = names.input_gradient;
        if on.tensor() > 1 && self.side == Side::Columns {
            let tensors = (names.input_gradient, names.gradient_reduced);
            let issue = if on.execution().reduces_beside { Issue::Beside } else { Issue::Waiting };
            result = reduce(draft, on, names.reduce_input_gradient, issue, tensors, bytes);
        }
        draft.within(Phase::BackwardWeight, |draft| self.weight_gradient(draft, on, input, gradient));
        result
    }

    /// Tokens that it works on.
    fn tokens(&self, on: &ShardedTransformer) -> u64 {
        if self.side == Side::Whole { on.residual_tokens() } else { on.tokens() }
    }

    /// The gradient of the weight, added to the sum over micro-batches by the product itself or by a pass of its own.
    fn weight_gradient(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
        gradient: &'static str,
    ) {
        let (names, dtype) = (self.names, on.execution().dtype);
        let (shape, layout) =
            ((1, self.outputs, self.inputs, self.tokens(on)), (dtype, Layout::WeightGradient));
        if on.products_accumulate() {
            let operator = draft.gemm(names.weight_gradient, shape, layout, &[gradient, input], &[]);
            if let Work::Gemm(gemm) = &mut operator.work {
                gemm.accumulate = true;
            }
            return;
        }
        let weights = self.inputs * self.outputs;
        let writes = [(names.weight_gradient, on.bytes(weights))];
        draft.gemm(names.weight_gradient, shape, layout, &[gradient, input], &writes);
        draft.accumulate(names.accumulate, on, names.weight_gradient, weights);
    }
}

/// Sums a tensor of `bytes` over the tensor ranks: in place, or each its part of the sequence; returns the result.
pub(super) fn reduce(
    draft: &mut Draft,
    on: &ShardedTransformer,
    name: &'static str,
    issue: Issue,
    (tensor, scattered): (&'static str, &'static str),
    bytes: u64,
) -> &'static str {
    if on.sequence_parallel() {
        let work = (CollectiveKind::ReduceScatter, Group::Tensor, bytes);
        draft.collective(name, work, issue, &[tensor], &[(scattered, bytes / on.tensor())]);
        scattered
    } else {
        draft.collective(name, (CollectiveKind::AllReduce, Group::Tensor, bytes), issue, &[tensor], &[]);
        tensor
    }
}
