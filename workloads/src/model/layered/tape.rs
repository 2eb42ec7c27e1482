//! Writing the operators of a block, forward as its layers are read, and backward as autograd does: each layer leaves a
//! step on a tape, and the steps run in reverse, from the gradient of what the layer made to those of what it took.
//! Gradients that meet are added.

use std::collections::BTreeMap;

use crate::graph::Phase;
use crate::graph::operator::{Dtype, StreamClass};
use crate::model::draft::{BlockDraft, Draft};

use super::execution::LayeredExecution;
use super::shape::Shape;
use crate::model::names::{Name, name};

const INPUT: Name = Name::of("input");
const OUTPUT_GRADIENT: Name = Name::of("output gradient");

/// What a layer takes or makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// Its number in the block.
    id: usize,
    /// The tensor that holds it; two values are one tensor where a layer works in place or changes only the view.
    pub(super) tensor: Name,
    pub(super) shape: Shape,
    /// Whether it has a gradient.
    pub(super) tracked: bool,
    /// Whether the next layer is the only one that needs it, and may overwrite it.
    pub(super) fresh: bool,
}

impl Value {
    /// The same value where several layers need it.
    pub(super) const fn shared(self) -> Self {
        Self { fresh: false, ..self }
    }

    /// The same elements in another shape.
    pub(super) const fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }
}

/// A block under construction.
pub(super) struct Tape<'a> {
    pub(super) on: &'a LayeredExecution,
    pub(super) draft: Draft,
    pub(super) parameters: u64,
    input: Value,
    input_bytes: u64,
    steps: Vec<(Value, Step)>,
    values: usize,
    /// How many layers of a kind there are so far.
    counts: BTreeMap<&'static str, u32>,
}

/// From the gradient of what a layer made to those of what it took.
type Step = Box<dyn FnOnce(&mut Reverse<'_>, Name)>;

/// The backward pass under construction.
pub(super) struct Reverse<'a> {
    pub(super) on: &'a LayeredExecution,
    pub(super) draft: Draft,
    /// By value, the tensor that holds its gradient as far as it is known.
    gradients: BTreeMap<usize, Name>,
    /// How many gradients have met.
    sums: u32,
}

impl<'a> Tape<'a> {
    /// A block that starts from a value of `shape`, which has a gradient where it is `tracked`.
    pub(super) fn new(on: &'a LayeredExecution, shape: Shape, tracked: bool) -> Self {
        let input = Value { id: 0, tensor: INPUT, shape, tracked, fresh: false };
        let bytes = if matches!(shape, Shape::Ids { .. }) {
            // Integers of 64 bits.
            8 * on.elements(shape)
        } else {
            on.bytes(shape)
        };
        Self {
            on,
            draft: Draft::new(Phase::Forward),
            parameters: 0,
            input,
            input_bytes: bytes,
            steps: Vec::new(),
            values: 1,
            counts: BTreeMap::new(),
        }
    }

    /// What the block starts from.
    pub(super) const fn input(&self) -> Value {
        self.input
    }

    /// The name of a further layer of a kind: `convolution 3`.
    pub(super) fn layer(&mut self, kind: &'static str) -> Name {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        Name::of(kind).numbered(*count)
    }

    /// A value in a tensor of its own.
    pub(super) fn value(&mut self, layer: Name, shape: Shape) -> Value {
        let tensor = name(layer, "output");
        self.named_value(tensor, shape, true)
    }

    /// A value in a tensor of its own, that a pass over memory fills, which reads as many bytes from other tensors.
    pub(super) fn copied(&mut self, layer: Name, from: &[Name], shape: Shape) -> Value {
        let (to, bytes) = (self.value(layer, shape), self.on.bytes(shape));
        self.draft.stream(layer, StreamClass::Elementwise, (bytes, bytes), from, &[(to.tensor, bytes)]);
        to
    }

    /// A value in the tensor of another: a view of it, or it was changed in place.
    pub(super) fn view(&mut self, of: Value, shape: Shape) -> Value {
        let value = self.named_value(of.tensor, shape, of.tracked);
        Value { fresh: of.fresh, ..value }
    }

    fn named_value(&mut self, tensor: Name, shape: Shape, tracked: bool) -> Value {
        self.values += 1;
        Value { id: self.values - 1, tensor, shape, tracked, fresh: true }
    }

    /// A value that another block made.
    pub(super) fn outside(&mut self, tensor: Name, shape: Shape, tracked: bool) -> Value {
        self.named_value(tensor, shape, tracked).shared()
    }

    /// Says how the gradient of `value` becomes those of what it was made of.
    pub(super) fn back(&mut self, value: Value, step: impl FnOnce(&mut Reverse<'_>, Name) + 'static) {
        self.steps.push((value, Box::new(step)));
    }

    /// A pass over memory with one input, whose backward pass reads the gradient and `kept` tensors of so many bytes.
    pub(super) fn pass(&mut self, kind: &'static str, from: Value, kept: Kept) -> Value {
        let layer = self.layer(kind);
        let to = self.copied(layer, &[from.tensor], from.shape);
        self.back(to, move |reverse, gradient| {
            let kept = match kept {
                Kept::Input => Some(from.tensor),
                Kept::Output => Some(to.tensor),
                Kept::Nothing => None,
            };
            reverse.pass_gradient(layer, from, gradient, kept);
        });
        to
    }

    /// The block that ends with `last`: a value for the next block, or a loss. The gradient of `memory`, which other blocks
    /// use, too, is added to what they have made of it.
    pub(super) fn block(self, last: Value, memory: Option<Value>, is_loss: bool) -> BlockDraft {
        let Self { on, draft, input, input_bytes, steps, .. } = self;
        let (draft_back, gradients) = (Draft::new(Phase::BackwardInput), BTreeMap::new());
        let mut reverse = Reverse { on, draft: draft_back, gradients, sums: 0 };
        // The gradient of the loss by itself is one number.
        reverse.gradients.insert(last.id, if is_loss { last.tensor } else { OUTPUT_GRADIENT });
        for (value, step) in steps.into_iter().rev() {
            if let Some(gradient) = reverse.gradients.remove(&value.id) {
                step(&mut reverse, gradient);
            }
        }
        if let Some((memory, gradient)) =
            memory.and_then(|value| Some((value, reverse.gradients.remove(&value.id)?)))
        {
            let bytes = on.bytes(memory.shape);
            let sum = name(memory.tensor, "gradient sum");
            reverse.draft.stream(sum, StreamClass::Elementwise, (2 * bytes, bytes), &[gradient], &[]);
        }
        BlockDraft {
            input: (input.tensor, input_bytes),
            output_gradient: (!is_loss).then_some(OUTPUT_GRADIENT),
            forward: draft.operators,
            backward: reverse.draft.operators,
            middle: None,
        }
    }
}

/// What of a pass over memory its backward pass reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Input,
    Output,
    Nothing,
}

impl Reverse<'_> {
    /// Adds a tensor to the gradient of a value.
    pub(super) fn give(&mut self, to: Value, gradient: Name) {
        if !to.tracked {
            return;
        }
        let Some(other) = self.gradients.get(&to.id).copied() else {
            self.gradients.insert(to.id, gradient);
            return;
        };
        self.sums += 1;
        let (sum, bytes) = (Name::of("gradient sum").numbered(self.sums), self.on.bytes(to.shape));
        let traffic = (2 * bytes, bytes);
        self.draft.stream(sum, StreamClass::Elementwise, traffic, &[other, gradient], &[(sum, bytes)]);
        self.gradients.insert(to.id, sum);
    }

    /// A pass over memory from the gradient of what `layer` made to that of what it took, if that has one.
    pub(super) fn pass_gradient(&mut self, layer: Name, to: Value, gradient: Name, kept: Option<Name>) {
        if !to.tracked {
            return;
        }
        let (result, bytes) = (name(layer, "input gradient"), self.on.bytes(to.shape));
        let reads: Vec<Name> = [gradient].into_iter().chain(kept).collect();
        let traffic = (reads.len() as u64 * bytes, bytes);
        self.draft.stream(result, StreamClass::Elementwise, traffic, &reads, &[(result, bytes)]);
        self.give(to, result);
    }

    /// The gradient of `count` parameters in `tensors` tensors that are added to or multiplied with
    /// what comes by, summed from `bytes` of the tensors `reads`, then added to the sum over
    /// micro-batches.
    pub(super) fn reduced(
        &mut self,
        layer: Name,
        what: &'static str,
        reads: &[Name],
        bytes: u64,
        (count, tensors): (u64, u32),
    ) {
        let gradient = name(layer, what);
        let result = count * self.on.dtype.bytes();
        self.draft.within(Phase::BackwardWeight, |draft| {
            draft.stream(gradient, StreamClass::Reduction, (bytes, result), reads, &[(gradient, result)]);
        });
        self.accumulate_several(gradient, count, tensors);
    }

    /// Adds a gradient of `count` parameters to its sum over micro-batches.
    pub(super) fn accumulate(&mut self, gradient: Name, count: u64) {
        self.accumulate_several(gradient, count, 1);
    }

    /// Likewise for the gradients of several tensors, made by one operator.
    pub(super) fn accumulate_several(&mut self, gradient: Name, count: u64, tensors: u32) {
        let sum = count * self.on.states.gradient_bytes();
        let traffic = (count * self.on.dtype.bytes() + sum, sum);
        self.draft.within(Phase::BackwardWeight, |draft| {
            let accumulate = name("accumulate", gradient);
            draft.stream(accumulate, StreamClass::Elementwise, traffic, &[gradient], &[]).members = tensors;
        });
    }
}

/// Most elements of a value of a micro-batch, and of a matrix of parameters: sums of many stay far below 2^64.
const ELEMENTS_MAX: u128 = 1 << 40;

/// Whether so many elements of `what` are none and not too many.
pub(super) fn in_bounds(what: &str, sizes: &[u64]) -> Result<(), String> {
    if sizes.contains(&0) {
        return Err(format!("{what} must have at least 1 of everything"));
    }
    let elements = sizes.iter().map(|&size| u128::from(size)).fold(1, u128::saturating_mul);
    if elements > ELEMENTS_MAX {
        return Err(format!("{what} would have {elements} elements, more than {ELEMENTS_MAX}"));
    }
    Ok(())
}

/// Bytes of an element of losses and statistics, which are in fp32 in every precision.
pub(super) const SINGLE: u64 = Dtype::Fp32.bytes();
