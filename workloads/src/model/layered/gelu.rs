//! GeLU by a hyperbolic tangent, an operator after the other; the tape makes its backward pass.

use super::tape::{Kept, Tape, Value};
use crate::graph::operator::StreamClass;
use crate::model::names::name;

impl Tape<'_> {
    /// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.
    pub(super) fn gelu_in_operators(&mut self, from: Value) -> Value {
        let from = from.shared();
        let half = self.pass("half", from, Kept::Nothing);
        let cube = self.cube(from);
        let scaled = self.pass("scaled cube", cube, Kept::Nothing);
        let inner = self.sum(from, scaled);
        let inner = self.pass("scaled sum", inner, Kept::Nothing);
        let tanh = self.pass("tanh", inner, Kept::Output);
        let one_more = self.one_more(tanh);
        self.multiply(half, one_more)
    }

    /// Its gradient: the square, thrice, times what comes back.
    fn cube(&mut self, from: Value) -> Value {
        let layer = self.layer("cube");
        let (to, bytes) = (self.copied(layer, &[from.tensor], from.shape), self.on.bytes(from.shape));
        self.back(to, move |reverse, gradient| {
            let [square, thrice] = [name(layer, "square"), name(layer, "square times three")];
            for (of, result) in [(from.tensor, square), (square, thrice)] {
                let writes = [(result, bytes)];
                reverse.draft.stream(result, StreamClass::Elementwise, (bytes, bytes), &[of], &writes);
            }
            reverse.pass_gradient(layer, from, gradient, Some(thrice));
        });
        to
    }

    /// A constant is added, which the gradient passes by.
    fn one_more(&mut self, from: Value) -> Value {
        let layer = self.layer("one more");
        let to = self.copied(layer, &[from.tensor], from.shape);
        self.back(to, move |reverse, gradient| reverse.give(from, gradient));
        to
    }
}
