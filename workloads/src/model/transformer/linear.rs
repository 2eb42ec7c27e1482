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
//! A layer that every rank has whole works on the rank's part of the sequence under sequence parallelism. Where the gathered
//! input is kept ([`gathers_again`](super::Execution::gathers_again) is false), it is not gathered again. Layers that
//! read the same input gather it once, and sum its gradients before ranks do.
//!
//! The order is that of Megatron-LM's `LinearWithGradAccumulationAndAsyncCommunication`: input gradient, its
//! collective, weight gradient.

use crate::graph::Phase;

use super::draft::{Draft, Issue};
use super::execution::ShardedTransformer;
use super::names::names;
use super::operator::{CollectiveKind, Group, Layout, StreamClass, Work};

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
    sum: "" _ " input gradient, added",
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
        self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
    ) -> &'static str {
        forward(&[self], draft, on, input)
    }

    /// The backward pass from `gradient`, that of the output, with the `input` of the forward pass; returns the name of
    /// the gradient of the input.
    pub(super) fn backward(
        self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
        gradient: &'static str,
    ) -> &'static str {
        backward(&[self], draft, on, input, &[gradient])
    }

    /// Tokens that it works on.
    fn tokens(&self, on: &ShardedTransformer) -> u64 {
        if self.side == Side::Whole { on.residual_tokens() } else { on.tokens() }
    }

    /// Bytes of its output on this rank, before any sum over ranks.
    fn output_bytes(&self, on: &ShardedTransformer) -> u64 {
        on.bytes(self.tokens(on) * self.outputs)
    }

    /// Whether ranks have parts of its input that each needs whole.
    fn gathers(&self, on: &ShardedTransformer) -> bool {
        on.sequence_parallel() && self.side == Side::Columns
    }

    fn gather_input(&self, draft: &mut Draft, on: &ShardedTransformer, input: &'static str) -> &'static str {
        if !self.gathers(on) {
            return input;
        }
        let bytes = on.bytes(self.tokens(on) * self.inputs);
        let gather = (CollectiveKind::AllGather, Group::Tensor, bytes);
        let writes = [(self.names.gathered, bytes)];
        draft.collective(self.names.gather_input, gather, Issue::Waiting, &[input], &writes);
        self.names.gathered
    }

    /// The input for the gradients of weights: kept as it was multiplied, or only as it came in.
    fn gather_input_again(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
    ) -> &'static str {
        if !self.gathers(on) {
            return input;
        }
        if !on.execution().gathers_again {
            return self.names.gathered;
        }
        let bytes = on.bytes(self.tokens(on) * self.inputs);
        let gather = (CollectiveKind::AllGather, Group::Tensor, bytes);
        draft.within(Phase::BackwardWeight, |draft| {
            let writes = [(self.names.gathered_again, bytes)];
            draft.collective(self.names.gather_input_again, gather, Issue::Beside, &[input], &writes);
        });
        self.names.gathered_again
    }

    fn gather_gradient(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        gradient: &'static str,
    ) -> &'static str {
        if !on.sequence_parallel() || self.side != Side::Rows {
            return gradient;
        }
        let bytes = self.output_bytes(on);
        let gather = (CollectiveKind::AllGather, Group::Tensor, bytes);
        let writes = [(self.names.gradient_gathered, bytes)];
        let name = self.names.gather_output_gradient;
        draft.collective(name, gather, Issue::Waiting, &[gradient], &writes);
        self.names.gradient_gathered
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

/// The forward pass of layers that read one `input`; returns the name of the first one's result. What they share is named
/// after the first.
pub(super) fn forward(
    layers: &[Linear],
    draft: &mut Draft,
    on: &ShardedTransformer,
    input: &'static str,
) -> &'static str {
    let first = &layers[0];
    let operand = first.gather_input(draft, on, input);
    for layer in layers {
        let shape = (1, layer.tokens(on), layer.outputs, layer.inputs);
        let writes = [(layer.names.output, layer.output_bytes(on))];
        let kind = (on.execution().dtype, Layout::Forward);
        draft.gemm(layer.names.product, shape, kind, &[operand], &writes);
    }
    let names = first.names;
    if on.tensor() == 1 || first.side != Side::Rows {
        return names.output;
    }
    let tensors = (names.output, names.reduced);
    reduce(draft, on, names.reduce_output, Issue::Waiting, tensors, first.output_bytes(on))
}

/// The backward pass of layers that read one `input`, from the `gradients` of their outputs; returns the name of the gradient
/// of the input.
pub(super) fn backward(
    layers: &[Linear],
    draft: &mut Draft,
    on: &ShardedTransformer,
    input: &'static str,
    gradients: &[&'static str],
) -> &'static str {
    let first = &layers[0];
    let gathered = |layer: &Linear, draft: &mut Draft, gradient| layer.gather_gradient(draft, on, gradient);
    let gradients: Vec<_> =
        layers.iter().zip(gradients).map(|(layer, gradient)| gathered(layer, draft, gradient)).collect();
    let input = first.gather_input_again(draft, on, input);
    let bytes = on.bytes(first.tokens(on) * first.inputs);
    let mut sum = None;
    for (layer, &gradient) in layers.iter().zip(&gradients) {
        let names = layer.names;
        let shape = (1, layer.tokens(on), layer.inputs, layer.outputs);
        let kind = (on.execution().dtype, Layout::InputGradient);
        let writes = [(names.input_gradient, bytes)];
        draft.gemm(names.input_gradient, shape, kind, &[gradient], &writes);
        let Some(before) = sum.replace(names.input_gradient) else { continue };
        let (addends, writes) = ([before, names.input_gradient], [(names.sum, bytes)]);
        draft.stream(names.sum, StreamClass::Elementwise, (2 * bytes, bytes), &addends, &writes);
        sum = Some(names.sum);
    }
    let mut result = sum.unwrap_or(first.names.input_gradient);
    if on.tensor() > 1 && first.side == Side::Columns {
        let issue = if on.execution().reduces_beside { Issue::Beside } else { Issue::Waiting };
        let tensors = (result, first.names.gradient_reduced);
        result = reduce(draft, on, first.names.reduce_input_gradient, issue, tensors, bytes);
    }
    draft.within(Phase::BackwardWeight, |draft| {
        for (layer, &gradient) in layers.iter().zip(&gradients) {
            layer.weight_gradient(draft, on, input, gradient);
        }
    });
    result
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
