//! Tokens: tables of vectors, positions, a token for the class.

use crate::graph::Phase;
use crate::graph::operator::StreamClass;

use super::layer::Embedding;
use super::shape::Shape;
use super::tape::{Tape, Value, in_bounds};
use crate::model::names::name;

/// Bytes of an entry of a vocabulary, an integer of 64 bits.
const ENTRY_BYTES: u64 = 8;

impl Tape<'_> {
    /// Rows of a table. Its gradient is cleared, then what comes back is added to the rows that were read.
    pub(super) fn embedding(&mut self, from: Value, embedding: &Embedding) -> Result<Value, String> {
        let Shape::Ids { tokens } = from.shape else {
            return Err(format!("`embedding` takes entries of a vocabulary, not {}", from.shape));
        };
        let (rows, width) = (u64::from(embedding.vocabulary), u64::from(embedding.width));
        in_bounds("a table", &[rows, width])?;
        in_bounds("what an embedding makes", &[self.on.rows(from.shape), width])?;
        let layer = self.layer("embedding");
        let to = self.value(layer, Shape::Tokens { tokens, width });
        let (whole, entries) = (self.on.bytes(to.shape), ENTRY_BYTES * self.on.rows(from.shape));
        let count = rows * width;
        self.parameters += if embedding.tied { 0 } else { count };
        let (elements, traffic) = (self.on.elements(to.shape), (entries + whole, whole));
        self.draft.look_up(
            layer,
            (StreamClass::Embedding, elements),
            traffic,
            &[from.tensor],
            &[(to.tensor, whole)],
        );
        self.back(to, move |reverse, gradient| {
            let (table, dtype) = (name(layer, "gradient"), reverse.on.dtype);
            let size = count * dtype.bytes();
            reverse.draft.within(Phase::BackwardWeight, |draft| {
                let clear = name(layer, "gradient cleared");
                draft.stream(clear, StreamClass::Elementwise, (0, size), &[], &[(table, size)]);
                draft.add_to_rows(table, dtype, (whole, size), &[gradient, from.tensor, table]);
            });
            reverse.accumulate(table, count);
        });
        Ok(to)
    }

    /// A vector for every place, added.
    pub(super) fn position_embedding(&mut self, from: Value) -> Result<Value, String> {
        let Shape::Tokens { tokens, width } = from.shape else {
            return Err(format!("`position_embedding` takes tokens, not {}", from.shape));
        };
        let layer = self.layer("position embedding");
        let (to, bytes) = (self.value(layer, from.shape), self.on.bytes(from.shape));
        let count = tokens * width;
        self.parameters += count;
        let traffic = (bytes + count * self.on.dtype.bytes(), bytes);
        self.draft.stream(layer, StreamClass::Elementwise, traffic, &[from.tensor], &[(to.tensor, bytes)]);
        self.back(to, move |reverse, gradient| {
            reverse.reduced(layer, "gradient", &[gradient], bytes, (count, 1));
            reverse.give(from, gradient);
        });
        Ok(to)
    }

    /// A learned token before the others.
    pub(super) fn class_token(&mut self, from: Value) -> Result<Value, String> {
        let Shape::Tokens { tokens, width } = from.shape else {
            return Err(format!("`class_token` takes tokens, not {}", from.shape));
        };
        let layer = self.layer("class token");
        self.parameters += width;
        let to = self.copied(layer, &[from.tensor], Shape::Tokens { tokens: tokens + 1, width });
        self.back(to, move |reverse, gradient| {
            let of_token = u64::from(reverse.on.micro_batch) * width * reverse.on.dtype.bytes();
            reverse.reduced(layer, "gradient", &[gradient], of_token, (width, 1));
            reverse.give(from, gradient);
        });
        Ok(to)
    }

    /// The first token; the gradients of the others are 0, which is written.
    pub(super) fn first_token(&mut self, from: Value) -> Result<Value, String> {
        let Shape::Tokens { width, .. } = from.shape else {
            return Err(format!("`first_token` takes tokens, not {}", from.shape));
        };
        let layer = self.layer("first token");
        let to = self.view(from, Shape::Vector { width });
        let bytes = self.on.bytes(from.shape);
        self.back(to, move |reverse, gradient| {
            let result = name(layer, "input gradient");
            let writes = [(result, bytes)];
            reverse.draft.stream(result, StreamClass::Elementwise, (0, bytes), &[gradient], &writes);
            reverse.give(from, result);
        });
        Ok(to)
    }
}
