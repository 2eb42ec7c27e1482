//! The loss: cross-entropy against one class for every row, as PyTorch runs it.

use crate::graph::operator::{Dtype, StreamClass};

use super::shape::Shape;
use super::tape::{SINGLE, Tape, Value};
use crate::model::names::name;

impl Tape<'_> {
    /// Logarithms of the softmax, of which one a row is picked. In mixed precision all of it is in fp32.
    pub(super) fn cross_entropy(&mut self, from: Value) -> Result<Value, String> {
        if !matches!(from.shape, Shape::Vector { .. } | Shape::Tokens { .. }) {
            return Err(format!("`cross_entropy` takes a vector or tokens, not {}", from.shape));
        }
        let (rows, elements) = (self.on.rows(from.shape), self.on.elements(from.shape));
        let (bytes, single, copy) = (self.on.bytes(from.shape), SINGLE * elements, StreamClass::Elementwise);
        let layer = self.layer("cross-entropy");
        let cast = self.on.dtype != Dtype::Fp32;
        let mut logits = from.tensor;
        if cast {
            logits = name(layer, "logits in fp32");
            self.draft.stream(logits, copy, (bytes, single), &[from.tensor], &[(logits, single)]);
        }
        let probabilities = name(layer, "log-probabilities");
        let writes = [(probabilities, single)];
        let softmax = (StreamClass::Softmax, rows);
        self.draft.walk(probabilities, softmax, (single, single), &[logits], &writes);
        let loss = self.value(layer, Shape::Vector { width: 1 });
        let traffic = (SINGLE * rows, SINGLE);
        self.draft.stream(layer, StreamClass::Reduction, traffic, &[probabilities], &[(loss.tensor, SINGLE)]);
        self.back(loss, move |reverse, _| {
            let picked = name(layer, "picked gradient");
            reverse.draft.stream(picked, copy, (0, single), &[], &[(picked, single)]);
            let mut result = name(layer, "logits gradient");
            let (reads, writes) = ([probabilities, picked], [(result, single)]);
            reverse.draft.walk(result, softmax, (2 * single, single), &reads, &writes);
            if cast {
                let half = name(layer, "logits gradient cast");
                reverse.draft.stream(half, copy, (single, bytes), &[result], &[(half, bytes)]);
                result = half;
            }
            reverse.give(from, result);
        });
        Ok(loss)
    }
}
