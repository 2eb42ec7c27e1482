//! GeLU in its tanh form, `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, operator by operator as Hugging Face
//! Transformers compute it for GPT-2 (`NewGELUActivation`), with what autograd makes of it.

use super::draft::{Draft, Name};
use super::names::names;
use crate::graph::operator::StreamClass;

names! { $
    /// Names of the operators and tensors of a GeLU in operators.
    GeluNames by gelu_names;
    half: "" _ " half",
    cube: "" _ " cube",
    scaled_cube: "" _ " scaled cube",
    inner: "" _ " with cube",
    scaled_inner: "" _ " with cube, scaled",
    tanh: "" _ " tanh",
    one_more: "" _ " tanh and one",
    product: "" _ " product",
    half_gradient: "" _ " product gradient to half",
    tanh_gradient: "" _ " product gradient to tanh",
    scaled_inner_gradient: "" _ " tanh gradient",
    inner_gradient: "" _ " with cube gradient",
    scaled_cube_gradient: "" _ " scaled cube gradient",
    square: "" _ " square",
    thrice_square: "" _ " square times three",
    cube_gradient: "" _ " cube gradient",
    two_gradients: "" _ " sum of two gradients",
    outer_gradient: "" _ " half gradient",
    sum: "" _ " sum of gradients",
}

impl GeluNames {
    /// From a tensor of so many `bytes` to its activation; autograd keeps what products, powers and tanh need.
    pub(super) fn forward(&self, draft: &mut Draft, input: Name, activation: Name, bytes: u64) {
        let mut pass = pass(draft, bytes);
        pass(self.half, &[input], self.half);
        pass(self.cube, &[input], self.cube);
        pass(self.scaled_cube, &[self.cube], self.scaled_cube);
        pass(self.inner, &[input, self.scaled_cube], self.inner);
        pass(self.scaled_inner, &[self.inner], self.scaled_inner);
        pass(self.tanh, &[self.scaled_inner], self.tanh);
        pass(self.one_more, &[self.tanh], self.one_more);
        pass(self.product, &[self.half, self.one_more], activation);
    }

    /// From the gradient of the activation to that of the input, `result`: the three ways to it are summed.
    pub(super) fn backward(&self, draft: &mut Draft, [input, gradient]: [Name; 2], result: Name, bytes: u64) {
        let mut pass = pass(draft, bytes);
        pass(self.half_gradient, &[gradient, self.one_more], self.half_gradient);
        pass(self.tanh_gradient, &[gradient, self.half], self.tanh_gradient);
        pass(self.scaled_inner_gradient, &[self.tanh_gradient, self.tanh], self.scaled_inner_gradient);
        pass(self.inner_gradient, &[self.scaled_inner_gradient], self.inner_gradient);
        pass(self.scaled_cube_gradient, &[self.inner_gradient], self.scaled_cube_gradient);
        pass(self.square, &[input], self.square);
        pass(self.thrice_square, &[self.square], self.thrice_square);
        pass(self.cube_gradient, &[self.scaled_cube_gradient, self.thrice_square], self.cube_gradient);
        pass(self.two_gradients, &[self.inner_gradient, self.cube_gradient], self.two_gradients);
        pass(self.outer_gradient, &[self.half_gradient], self.outer_gradient);
        pass(self.sum, &[self.two_gradients, self.outer_gradient], result);
    }
}

/// A pass from tensors of so many bytes to one of the same size.
fn pass(draft: &mut Draft, bytes: u64) -> impl FnMut(Name, &[Name], Name) {
    move |name, reads, result| {
        let traffic = (reads.len() as u64 * bytes, bytes);
        draft.stream(name, StreamClass::Elementwise, traffic, reads, &[(result, bytes)]);
    }
}
