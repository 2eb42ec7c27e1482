//! Passes over memory: activations, dropout, sums, products with parameters and gates.

use crate::graph::operator::{Math, StreamClass};

use super::layer::Activation;
use super::shape::Shape;
use super::tape::{Kept, Tape, Value};
use crate::model::names::{Name, name};

const COPY: StreamClass = StreamClass::Elementwise;

impl Tape<'_> {
    pub(super) fn activate(&mut self, from: Value, activation: Activation) -> Value {
        match activation {
            Activation::Relu if from.fresh => self.relu_in_place(from),
            Activation::Relu => self.function("relu", from, (Math::Relu, Kept::Output)),
            Activation::Gelu if self.on.gelu => self.function("gelu", from, (Math::Gelu, Kept::Input)),
            Activation::Gelu => self.gelu_in_operators(from),
            Activation::Silu => self.function("silu", from, (Math::Silu, Kept::Input)),
            Activation::Hardswish => self.function("hardswish", from, (Math::Hardswish, Kept::Input)),
            Activation::Sigmoid => self.function("sigmoid", from, (Math::Sigmoid, Kept::Output)),
            Activation::Tanh => self.function("tanh", from, (Math::Tanh, Kept::Output)),
        }
    }

    /// A function of each element.
    fn function(&mut self, kind: &'static str, from: Value, (math, kept): (Math, Kept)) -> Value {
        let to = self.pass(kind, from, kept);
        self.draft.does(math);
        to
    }

    /// The output says where the input was positive. On cuDNN the gradient is overwritten, too.
    fn relu_in_place(&mut self, from: Value) -> Value {
        let (layer, bytes) = (self.layer("relu"), self.on.bytes(from.shape));
        let to = self.view(from, from.shape);
        self.draft.stream(layer, COPY, (bytes, bytes), &[from.tensor], &[]).math = Some(Math::Relu);
        self.back(to, move |reverse, gradient| {
            if reverse.on.cudnn && from.tracked {
                let (traffic, reads) = ((2 * bytes, bytes), [gradient, from.tensor]);
                reverse.draft.stream(name(layer, "input gradient"), COPY, traffic, &reads, &[]);
                return reverse.give(from, gradient);
            }
            reverse.pass_gradient(layer, from, gradient, Some(from.tensor));
        });
        to
    }

    /// Multiplies with a mask of one byte an element, in training.
    pub(super) fn dropout(&mut self, from: Value) -> Value {
        if !self.on.trains() {
            return from;
        }
        let layer = self.layer("dropout");
        let (to, mask) = (self.value(layer, from.shape), name(layer, "mask"));
        let (bytes, of_mask) = (self.on.bytes(from.shape), self.on.elements(from.shape));
        let writes = [(to.tensor, bytes), (mask, of_mask)];
        let pass = self.draft.stream(layer, COPY, (bytes, bytes + of_mask), &[from.tensor], &writes);
        pass.math = Some(Math::Dropout);
        self.back(to, move |reverse, gradient| {
            let result = name(layer, "input gradient");
            let writes = [(result, bytes)];
            reverse.draft.stream(result, COPY, (bytes + of_mask, bytes), &[gradient, mask], &writes);
            reverse.give(from, result);
        });
        to
    }

    /// The sum of two values of one shape.
    pub(super) fn add(&mut self, values: [Value; 2]) -> Result<Value, String> {
        let [a, b] = values;
        if a.shape != b.shape {
            return Err(format!(
                "a sum takes equal shapes: the body makes {}, the shortcut {}",
                a.shape, b.shape
            ));
        }
        Ok(self.sum(a, b))
    }

    /// Both are of one shape.
    pub(super) fn sum(&mut self, a: Value, b: Value) -> Value {
        let layer = self.layer("addition");
        let (to, bytes) = (self.value(layer, a.shape), self.on.bytes(a.shape));
        self.draft.stream(layer, COPY, (2 * bytes, bytes), &[a.tensor, b.tensor], &[(to.tensor, bytes)]);
        self.draft.does(Math::Add);
        self.back(to, move |reverse, gradient| {
            reverse.give(a, gradient);
            reverse.give(b, gradient);
        });
        to
    }

    /// Values side by side along their channels; gradients are views of the whole.
    pub(super) fn concat(&mut self, parts: &[Value]) -> Result<Value, String> {
        let first = parts.first().ok_or("`concat` needs a branch")?.shape;
        if let Some(other) = parts.iter().find(|part| part.shape.with_channels(1) != first.with_channels(1)) {
            return Err(format!("branches differ by more than their channels: {first} and {}", other.shape));
        }
        let layer = self.layer("concatenation");
        let channels = parts.iter().map(|part| part.shape.channels()).sum();
        let tensors: Vec<Name> = parts.iter().map(|part| part.tensor).collect();
        let to = self.copied(layer, &tensors, first.with_channels(channels));
        let parts = parts.to_vec();
        self.back(to, move |reverse, gradient| parts.iter().for_each(|&part| reverse.give(part, gradient)));
        Ok(to)
    }

    /// Channels times parameters (Touvron et al., ICCV 2021).
    pub(super) fn layer_scale(&mut self, from: Value) -> Value {
        let layer = self.layer("layer scale");
        let to = self.copied(layer, &[from.tensor], from.shape);
        self.draft.does(Math::Multiply);
        let (bytes, channels) = (self.on.bytes(from.shape), from.shape.channels());
        self.parameters += channels;
        self.back(to, move |reverse, gradient| {
            reverse.pass_gradient(layer, from, gradient, None);
            reverse.reduced(layer, "weight gradient", &[gradient, from.tensor], 2 * bytes, (channels, 1));
        });
        to
    }

    /// Every channel times its element of a gate, a vector of each sample.
    pub(super) fn gated(&mut self, from: Value, gate: Value) -> Value {
        let layer = self.layer("gate");
        let (to, bytes) = (self.value(layer, from.shape), self.on.bytes(from.shape));
        let small = self.on.bytes(gate.shape);
        self.draft.stream(
            layer,
            COPY,
            (bytes + small, bytes),
            &[from.tensor, gate.tensor],
            &[(to.tensor, bytes)],
        );
        self.draft.does(Math::Multiply);
        self.back(to, move |reverse, gradient| {
            reverse.pass_gradient(layer, from, gradient, Some(gate.tensor));
            // A product of the size of the input, then its sum over places.
            let (product, sum) = (name(layer, "gradient product"), name(layer, "gradient"));
            let reads = [gradient, from.tensor];
            reverse.draft.stream(product, COPY, (2 * bytes, bytes), &reads, &[(product, bytes)]);
            let writes = [(sum, small)];
            reverse.draft.stream(sum, StreamClass::Reduction, (bytes, small), &[product], &writes);
            reverse.give(gate, sum);
        });
        to
    }

    /// The product of two values of one shape.
    pub(super) fn multiply(&mut self, a: Value, b: Value) -> Value {
        let layer = self.layer("product");
        let (to, bytes) = (self.value(layer, a.shape), self.on.bytes(a.shape));
        self.draft.stream(layer, COPY, (2 * bytes, bytes), &[a.tensor, b.tensor], &[(to.tensor, bytes)]);
        self.draft.does(Math::Multiply);
        self.back(to, move |reverse, gradient| {
            for (of, other, what) in [(a, b, "first gradient"), (b, a, "second gradient")] {
                let result = name(layer, what);
                let (reads, writes) = ([gradient, other.tensor], [(result, bytes)]);
                reverse.draft.stream(result, COPY, (2 * bytes, bytes), &reads, &writes);
                reverse.give(of, result);
            }
        });
        to
    }

    /// Gated linear unit (Dauphin et al., ICML 2017): one kernel over both halves.
    pub(super) fn glu(&mut self, from: Value) -> Result<Value, String> {
        let channels = from.shape.channels();
        if !channels.is_multiple_of(2) {
            return Err(format!("`glu` halves the channels, but there are {channels}"));
        }
        let layer = self.layer("glu");
        let to = self.value(layer, from.shape.with_channels(channels / 2));
        let (whole, half) = (self.on.bytes(from.shape), self.on.bytes(to.shape));
        self.draft.stream(layer, COPY, (whole, half), &[from.tensor], &[(to.tensor, half)]);
        self.back(to, move |reverse, gradient| {
            let result = name(layer, "input gradient");
            let (reads, writes) = ([gradient, from.tensor], [(result, whole)]);
            reverse.draft.stream(result, COPY, (whole + half, whole), &reads, &writes);
            reverse.give(from, result);
        });
        Ok(to)
    }

    /// The same elements in another shape.
    pub(super) fn reshaped(&mut self, from: Value, shape: Shape) -> Value {
        let to = self.view(from, shape);
        self.back(to, move |reverse, gradient| reverse.give(from, gradient));
        to
    }

    /// The same elements in another order.
    pub(super) fn transposed(&mut self, from: Value, shape: Shape) -> Value {
        self.pass("transpose", from, Kept::Nothing).shaped(shape)
    }
}
