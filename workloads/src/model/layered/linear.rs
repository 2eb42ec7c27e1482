//! Linear layers: a matrix product over the channels of every place, its bias within the kernel.

use crate::graph::Phase;
use crate::graph::operator::Layout;

use super::shape::Shape;
use super::tape::{Tape, Value, in_bounds};
use crate::model::names::{Name, name};

impl Tape<'_> {
    /// The product of `from` and a matrix of so many `outputs`, whose parameters are its own unless it is `tied`.
    pub(super) fn linear(
        &mut self,
        from: Value,
        outputs: u64,
        bias: bool,
        tied: bool,
    ) -> Result<Value, String> {
        if matches!(from.shape, Shape::Ids { .. }) {
            return Err(format!(
                "a linear layer takes numbers, not {}: put an `embedding` before it",
                from.shape
            ));
        }
        let layer = self.layer("linear");
        self.product(layer, from, outputs, bias, tied)
    }

    /// The same by the name of its layer.
    pub(super) fn product(
        &mut self,
        layer: Name,
        from: Value,
        outputs: u64,
        bias: bool,
        tied: bool,
    ) -> Result<Value, String> {
        let (inputs, rows, dtype) = (from.shape.channels(), self.on.rows(from.shape), self.on.dtype);
        in_bounds("the matrix of a linear layer", &[inputs, outputs])?;
        in_bounds("what a linear layer makes", &[rows, outputs])?;
        let to = self.value(layer, from.shape.with_channels(outputs));
        let weights = inputs * outputs;
        self.parameters += if tied { 0 } else { weights } + if bias { outputs } else { 0 };
        let written = self.on.bytes(to.shape);
        let (product, layout) = ((1, rows, outputs, inputs), (dtype, Layout::Forward));
        self.draft.gemm(layer, product, layout, &[from.tensor], &[(to.tensor, written)]);
        self.back(to, move |reverse, gradient| {
            if from.tracked {
                let (result, bytes) = (name(layer, "input gradient"), reverse.on.bytes(from.shape));
                let (product, layout) = ((1, rows, inputs, outputs), (dtype, Layout::InputGradient));
                reverse.draft.gemm(result, product, layout, &[gradient], &[(result, bytes)]);
                reverse.give(from, result);
            }
            let result = name(layer, "weight gradient");
            reverse.draft.within(Phase::BackwardWeight, |draft| {
                let (product, layout) = ((1, outputs, inputs, rows), (dtype, Layout::WeightGradient));
                let writes = [(result, weights * dtype.bytes())];
                draft.gemm(result, product, layout, &[gradient, from.tensor], &writes);
            });
            reverse.accumulate(result, weights);
            if bias {
                reverse.reduced(layer, "bias gradient", &[gradient], written, (outputs, 1));
            }
        });
        Ok(to)
    }
}
