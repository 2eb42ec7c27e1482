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

use super::adapters::{Adaptable, Adapter};
use super::draft::{Draft, Issue, Name};
use super::execution::ShardedTransformer;
use super::names::names;
use super::narrow::When;
use crate::graph::operator::{CollectiveKind, Dtype, Group, Layout, StreamClass, Work};

/// A linear layer of a rank.
pub(super) struct Linear {
    pub(super) names: &'static Names,
    pub(super) side: Side,
    /// Columns of its input on this rank.
    pub(super) inputs: u64,
    /// Columns of its output on this rank.
    pub(super) outputs: u64,
    /// It multiplies in 8 bits where linear layers do; routers and heads do not.
    pub(super) narrow: bool,
    /// Rows that meet weights of their own: experts.
    pub(super) groups: Option<Groups>,
    /// The adapter that it can have.
    pub(super) adapter: Option<&'static Adaptable>,
    /// It belongs to an adapter, and is trained where weights of the model are not.
    of_adapter: bool,
}

/// Groups of rows, each with a weight of its own.
#[derive(Clone, Copy)]
pub(super) struct Groups {
    pub(super) count: u64,
    /// Rows of all.
    pub(super) rows: u64,
    /// Rows of each; where they differ, the mean.
    pub(super) rows_each: u64,
}

/// What a layer multiplies that has a row for every token: its input, or the gradient of its output.
pub(super) struct Operand {
    pub(super) columns: u64,
    /// Whether ranks have parts of it.
    pub(super) in_parts: bool,
    /// Whether each rank needs it whole.
    pub(super) gathered: bool,
    /// The collective that makes it whole, and its result.
    pub(super) gather: [Name; 2],
    /// The pass for the largest value, and its agreement.
    pub(super) largest: [Name; 2],
    /// The pass that casts it to 8 bits, and its result.
    pub(super) cast: [Name; 2],
    /// The pass that transposes that, and its result.
    pub(super) turn: [Name; 2],
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
    unadapted: "" _ " output before adapter",
    unadapted_reduced: "" _ " output before adapter, scattered",
    gradient_gathered: "" _ " output gradient, gathered",
    gradient_reduced: "" _ " input gradient, scattered",
    input_largest: "largest of " _ " input",
    input_agree: "reduce largest of " _ " input",
    input_cast: "cast " _ " input",
    input_turn: "cast " _ " input, transposed",
    input_narrow: "" _ " input in 8 bits",
    input_turned: "" _ " input in 8 bits, transposed",
    weight_largest: "largest of " _ " weight",
    weight_agree: "reduce largest of " _ " weight",
    weight_cast: "cast " _ " weight",
    weight_turn: "cast " _ " weight, transposed",
    weight_narrow: "" _ " weight in 8 bits",
    weight_turned: "" _ " weight in 8 bits, transposed",
    gradient_largest: "largest of " _ " output gradient",
    gradient_agree: "reduce largest of " _ " output gradient",
    gradient_cast: "cast " _ " output gradient",
    gradient_turn: "cast " _ " output gradient, transposed",
    gradient_narrow: "" _ " output gradient in 8 bits",
    gradient_turned: "" _ " output gradient in 8 bits, transposed",
}

impl Linear {
    /// A layer whose weight ranks share along `side`, with so many columns of its input and of its output on this rank.
    pub(super) const fn new(names: &'static Names, side: Side, inputs: u64, outputs: u64) -> Self {
        Self { names, side, inputs, outputs, narrow: true, groups: None, adapter: None, of_adapter: false }
    }

    /// A layer of which every group of rows has one, whole on this rank.
    pub(super) const fn grouped(names: &'static Names, groups: Groups, inputs: u64, outputs: u64) -> Self {
        Self { groups: Some(groups), ..Self::new(names, Side::Whole, inputs, outputs) }
    }

    /// The same layer, which never multiplies in 8 bits.
    pub(super) const fn never_narrow(self) -> Self {
        Self { narrow: false, ..self }
    }

    /// The same layer, which can have an adapter.
    pub(super) const fn adaptable(self, adapter: &'static Adaptable) -> Self {
        Self { adapter: Some(adapter), ..self }
    }

    /// The same layer as a part of an adapter, in 16 bits.
    pub(super) const fn of_adapter(self) -> Self {
        Self { of_adapter: true, ..self.never_narrow() }
    }

    /// The forward pass from tensor `input`; returns the name of the result.
    pub(super) fn forward(self, draft: &mut Draft, on: &ShardedTransformer, input: Name) -> Name {
        forward(&[self], draft, on, input)
    }

    /// The tensor that the forward pass leaves its result in.
    pub(super) fn result(&self, on: &ShardedTransformer) -> Name {
        let scattered = self.side == Side::Rows && on.tensor() > 1 && on.sequence_parallel();
        if scattered { self.names.reduced } else { self.names.output }
    }

    /// The tensors of what its weight gives, before and after a sum that scatters it.
    fn products(&self, on: &ShardedTransformer) -> [Name; 2] {
        let &Names { output, reduced, unadapted, unadapted_reduced, .. } = self.names;
        if Adapter::of(self, on).is_some() { [unadapted, unadapted_reduced] } else { [output, reduced] }
    }

    /// True if its weight has a gradient.
    pub(super) const fn is_trained(&self, on: &ShardedTransformer) -> bool {
        self.of_adapter || on.trains_weights()
    }

    /// The backward pass from `gradient`, that of the output, with the `input` of the forward pass; returns the name of
    /// the gradient of the input.
    pub(super) fn backward(
        self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        gradient: Name,
    ) -> Name {
        backward(&[self], draft, on, input, &[gradient])
    }

    /// Rows that it works on: tokens, or those of all groups.
    pub(super) fn tokens(&self, on: &ShardedTransformer) -> u64 {
        match self.groups {
            Some(groups) => groups.rows,
            None if self.side == Side::Whole => on.residual_tokens(),
            None => on.tokens(),
        }
    }

    /// Rows of its input on this rank, before ranks gather it.
    fn input_tokens(&self, on: &ShardedTransformer) -> u64 {
        if self.side == Side::Rows { on.tokens() } else { on.residual_tokens() }
    }

    /// Weights on this rank.
    pub(super) fn weights(&self) -> u64 {
        self.groups.map_or(1, |groups| groups.count) * self.inputs * self.outputs
    }

    /// Appends one of its three products, the weight gradient's added to sums of the type, if any.
    fn multiply(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        name: Name,
        (layout, sums): (Layout, Option<Dtype>),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        let (batch, rows) =
            self.groups.map_or((1, self.tokens(on)), |groups| (groups.count, groups.rows_each));
        let shape = match layout {
            Layout::Forward => (batch, rows, self.outputs, self.inputs),
            Layout::InputGradient => (batch, rows, self.inputs, self.outputs),
            Layout::WeightGradient => (batch, self.outputs, self.inputs, rows),
        };
        let dtype = self.dtype(on);
        if self.groups.is_some() {
            draft.grouped(name, shape, (dtype, layout, sums), reads, writes);
            return;
        }
        let operator = draft.gemm(name, shape, (dtype, layout), reads, writes);
        if let Work::Gemm(gemm) = &mut operator.work {
            gemm.accumulate = sums;
        }
    }

    /// Bytes of its output on this rank, before any sum over ranks.
    pub(super) fn output_bytes(&self, on: &ShardedTransformer) -> u64 {
        on.bytes(self.tokens(on) * self.outputs)
    }

    /// Its input.
    fn input(&self, on: &ShardedTransformer) -> Operand {
        let (names, gathered) = (self.names, on.sequence_parallel() && self.side == Side::Columns);
        Operand {
            columns: self.inputs,
            in_parts: gathered || self.side == Side::Rows,
            gathered,
            gather: [names.gather_input, names.gathered],
            largest: [names.input_largest, names.input_agree],
            cast: [names.input_cast, names.input_narrow],
            turn: [names.input_turn, names.input_turned],
        }
    }

    /// The gradient of its output.
    fn gradient(&self, on: &ShardedTransformer) -> Operand {
        let (names, gathered) = (self.names, on.sequence_parallel() && self.side == Side::Rows);
        Operand {
            columns: self.outputs,
            in_parts: gathered || self.side == Side::Columns,
            gathered,
            gather: [names.gather_output_gradient, names.gradient_gathered],
            largest: [names.gradient_largest, names.gradient_agree],
            cast: [names.gradient_cast, names.gradient_narrow],
            turn: [names.gradient_turn, names.gradient_turned],
        }
    }

    /// An operand, tensor `from`, as it is multiplied: whole, and in 8 bits where it is so.
    fn prepare(&self, draft: &mut Draft, on: &ShardedTransformer, operand: &Operand, from: Name) -> Name {
        if self.narrow_when(on) == When::BeforeExchange {
            let narrow = self.narrow(draft, on, operand, from);
            return self.gather(draft, on, operand, Issue::Waiting, narrow);
        }
        let whole = self.gather(draft, on, operand, Issue::Waiting, from);
        self.narrow(draft, on, operand, whole)
    }

    /// The input for the gradients of weights: kept as it was multiplied, or only as it came in.
    fn kept_operand(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) -> Name {
        let input = match self.narrow_when(on) {
            When::Never => input,
            When::BeforeExchange => self.names.input_narrow,
            When::AfterExchange => return self.names.input_narrow,
        };
        let operand = self.input(on);
        if operand.gathered && !on.execution().gathers_again {
            return self.names.gathered;
        }
        let again = Operand { gather: [self.names.gather_input_again, self.names.gathered_again], ..operand };
        draft.within(Phase::BackwardWeight, |draft| self.gather(draft, on, &again, Issue::Beside, input))
    }

    /// Makes an operand whole where ranks have parts that each needs; returns the name of the result.
    fn gather(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        &Operand { columns, gathered, gather: [name, whole], .. }: &Operand,
        issue: Issue,
        from: Name,
    ) -> Name {
        if !gathered {
            return from;
        }
        let elements = self.tokens(on) * columns;
        let narrow = self.narrow_when(on) == When::BeforeExchange;
        let bytes = if narrow { elements } else { on.bytes(elements) };
        let work = (CollectiveKind::AllGather, Group::Tensor, bytes);
        draft.collective(name, work, issue, &[from], &[(whole, bytes)]);
        whole
    }

    /// The gradient of the weight, added to the sum over micro-batches by the product itself or by a pass of its own.
    fn weight_gradient(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name, gradient: Name) {
        let (names, sums) = (self.names, on.products_add_to());
        let writes = [(names.weight_gradient, on.bytes(self.weights()))];
        let writes = if sums.is_some() { &[][..] } else { &writes[..] };
        let (layout, reads) = ((Layout::WeightGradient, sums), [gradient, input]);
        self.multiply(draft, on, names.weight_gradient, layout, &reads, writes);
        if sums.is_none() {
            draft.accumulate(names.accumulate, on, names.weight_gradient, self.weights());
        }
    }
}

/// The forward pass of layers that read one `input`; returns the name of the first one's result. What they share is named
/// after the first.
pub(super) fn forward(layers: &[Linear], draft: &mut Draft, on: &ShardedTransformer, input: Name) -> Name {
    let first = &layers[0];
    let operand = first.prepare(draft, on, &first.input(on), input);
    for layer in layers {
        let reads: Vec<_> = [operand].into_iter().chain(layer.weight(draft, on)).collect();
        let writes = [(layer.products(on)[0], layer.output_bytes(on))];
        layer.multiply(draft, on, layer.names.product, (Layout::Forward, None), &reads, &writes);
    }
    for layer in layers {
        let [mut product, scattered] = layer.products(on);
        if on.tensor() > 1 && layer.side == Side::Rows {
            let (tensors, bytes) = ((product, scattered), layer.output_bytes(on));
            product = reduce(draft, on, layer.names.reduce_output, Issue::Waiting, tensors, bytes);
        }
        if let Some(adapter) = Adapter::of(layer, on) {
            adapter.forward(draft, on, input, [product, layer.result(on)]);
        }
    }
    first.result(on)
}

/// The backward pass of layers that read one `input`, from the `gradients` of their outputs; returns the name of the gradient
/// of the input.
pub(super) fn backward(
    layers: &[Linear],
    draft: &mut Draft,
    on: &ShardedTransformer,
    input: Name,
    gradients: &[Name],
) -> Name {
    let first = &layers[0];
    let mut through_adapters = Vec::new();
    for (layer, &gradient) in layers.iter().zip(gradients) {
        let Some(adapter) = Adapter::of(layer, on) else { continue };
        let sum = adapter.sum();
        through_adapters.push((sum, adapter.backward(draft, on, input, gradient)));
    }
    let operands: Vec<_> = layers
        .iter()
        .zip(gradients)
        .map(|(layer, gradient)| layer.prepare(draft, on, &layer.gradient(on), *gradient))
        .collect();
    let input = if first.is_trained(on) { first.kept_operand(draft, on, input) } else { input };
    let bytes = on.bytes(first.tokens(on) * first.inputs);
    let mut sum = None;
    for (layer, &gradient) in layers.iter().zip(&operands) {
        let names = layer.names;
        let reads: Vec<_> = [gradient].into_iter().chain(layer.weight_turned(draft, on)).collect();
        let writes = [(names.input_gradient, bytes)];
        layer.multiply(draft, on, names.input_gradient, (Layout::InputGradient, None), &reads, &writes);
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
    for (sum, through) in through_adapters {
        let bytes = on.bytes(first.input_tokens(on) * first.inputs);
        let addends = [result, through];
        draft.stream(sum, StreamClass::Elementwise, (2 * bytes, bytes), &addends, &[(sum, bytes)]);
        result = sum;
    }
    if !first.is_trained(on) {
        return result;
    }
    draft.within(Phase::BackwardWeight, |draft| {
        let input = first.turned(draft, on, &first.input(on), input);
        for (layer, &gradient) in layers.iter().zip(&operands) {
            let gradient = layer.turned(draft, on, &layer.gradient(on), gradient);
            layer.weight_gradient(draft, on, input, gradient);
        }
    });
    result
}

/// Sums a tensor of `bytes` over the tensor ranks: in place, or each its part of the sequence; returns the result.
pub(super) fn reduce(
    draft: &mut Draft,
    on: &ShardedTransformer,
    name: Name,
    issue: Issue,
    (tensor, scattered): (Name, Name),
    bytes: u64,
) -> Name {
    if on.sequence_parallel() {
        let work = (CollectiveKind::ReduceScatter, Group::Tensor, bytes);
        draft.collective(name, work, issue, &[tensor], &[(scattered, bytes / on.tensor())]);
        scattered
    } else {
        draft.collective(name, (CollectiveKind::AllReduce, Group::Tensor, bytes), issue, &[tensor], &[]);
        tensor
    }
}
