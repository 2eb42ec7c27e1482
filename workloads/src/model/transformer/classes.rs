//! The head of an encoder that tells sequences apart: the first token of each goes through a dense layer and a tanh to the
//! logits of a few classes (`BertPooler` and `BertForSequenceClassification` of Hugging Face Transformers; the `Pooler` of
//! Megatron-LM). Every tensor rank has it whole, for all sequences.

use crate::graph::Phase;

use super::draft::{Draft, Issue, Name};
use super::execution::ShardedTransformer;
use super::names::names;
use crate::graph::operator::{CollectiveKind, Group, Layout, StreamClass};

names! { $
    /// Names of the operators and tensors of a layer of the head.
    Names by layer_names;
    product: "" _ "",
    output: "" _ " output",
    input_gradient: "" _ " input gradient",
    weight_gradient: "" _ " weight gradient",
    bias_gradient: "" _ " bias gradient",
    accumulate: "accumulate " _ " weight gradient",
}

const GATHERED: Name = Name::of("sequence, gathered");
const FIRST: Name = Name::of("first tokens");
const POOLER: &Names = layer_names!("pooler");
const POOLED: Name = Name::of("pooler activation");
const POOLED_GRADIENT: Name = Name::of("pooler activation gradient");
const CLASSES: &Names = layer_names!("classes");
const LOSS: Name = Name::of("loss");
const SEQUENCE_GRADIENT: Name = Name::of("sequence gradient");

/// From tensor `input` to the loss.
pub(super) fn forward(draft: &mut Draft, on: &ShardedTransformer, classes: u64, input: Name) {
    let (class, bytes) = (StreamClass::Elementwise, on.bytes(sequences(on) * on.hidden()));
    let mut sequence = input;
    if on.sequence_parallel() {
        let whole = on.bytes(on.tokens() * on.hidden());
        let work = (CollectiveKind::AllGather, Group::Tensor, whole);
        draft.collective("gather sequence", work, Issue::Waiting, &[input], &[(GATHERED, whole)]);
        sequence = GATHERED;
    }
    draft.stream("take first tokens", class, (bytes, bytes), &[sequence], &[(FIRST, bytes)]);
    POOLER.forward(draft, on, (on.hidden(), on.hidden()), FIRST);
    draft.stream("pooler tanh", class, (bytes, bytes), &[POOLER.output], &[(POOLED, bytes)]);
    CLASSES.forward(draft, on, (classes, on.hidden()), POOLED);
    let (class, logits) = ((StreamClass::Softmax, sequences(on)), on.bytes(sequences(on) * classes));
    draft.walk("cross entropy", class, (logits, logits), &[CLASSES.output], &[(LOSS, logits)]);
}

/// From the loss to the gradient of all tokens, zero but for the first ones.
pub(super) fn backward(draft: &mut Draft, on: &ShardedTransformer, classes: u64) {
    let (class, bytes) = (StreamClass::Elementwise, on.bytes(sequences(on) * on.hidden()));
    let logits = on.bytes(sequences(on) * classes);
    draft.stream("logits gradient", class, (logits, logits), &[CLASSES.output, LOSS], &[]);
    let gradient = CLASSES.backward(draft, on, (classes, on.hidden()), (POOLED, CLASSES.output));
    let writes = [(POOLED_GRADIENT, bytes)];
    draft.stream("pooler tanh gradient", class, (2 * bytes, bytes), &[POOLED, gradient], &writes);
    let gradient = POOLER.backward(draft, on, (on.hidden(), on.hidden()), (FIRST, POOLED_GRADIENT));
    let part = on.bytes(on.residual_elements());
    draft.stream(SEQUENCE_GRADIENT, class, (bytes, part), &[gradient], &[(SEQUENCE_GRADIENT, part)]);
}

/// Parameters of the head: both layers with their biases.
pub(super) const fn parameters(hidden: u64, classes: u64) -> u64 {
    (hidden + classes) * (hidden + 1)
}

fn sequences(on: &ShardedTransformer) -> u64 {
    on.execution().micro_batch.into()
}

impl Names {
    /// A product of all sequences with a weight of `outputs` x `inputs`, which adds its bias.
    fn forward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        (outputs, inputs): (u64, u64),
        input: Name,
    ) {
        let layout = (on.execution().dtype, Layout::Forward);
        let writes = [(self.output, on.bytes(sequences(on) * outputs))];
        draft.gemm(self.product, (1, sequences(on), outputs, inputs), layout, &[input], &writes);
    }

    fn backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        (outputs, inputs): (u64, u64),
        (input, gradient): (Name, Name),
    ) -> Name {
        let (rows, dtype) = (sequences(on), on.execution().dtype);
        let writes = [(self.input_gradient, on.bytes(rows * inputs))];
        let layout = (dtype, Layout::InputGradient);
        draft.gemm(self.input_gradient, (1, rows, inputs, outputs), layout, &[gradient], &writes);
        draft.within(Phase::BackwardWeight, |draft| {
            let (weights, layout) = (inputs * outputs, (dtype, Layout::WeightGradient));
            let writes = [(self.weight_gradient, on.bytes(weights))];
            let shape = (1, outputs, inputs, rows);
            draft.gemm(self.weight_gradient, shape, layout, &[gradient, input], &writes);
            draft.accumulate(self.accumulate, on, self.weight_gradient, weights);
            let read = on.bytes(rows * outputs);
            draft.stream(self.bias_gradient, StreamClass::Reduction, (read, 0), &[gradient], &[]);
        });
        self.input_gradient
    }
}
