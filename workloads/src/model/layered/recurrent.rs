//! Recurrent layers, as cuDNN's standard algorithm runs them in one call: a product of all inputs comes first, as they are
//! known, then each token takes a product of the state before it and a pass over its gates. Backward the last token comes
//! first, and gradients of weights are products over all tokens.
//!
//! ```text
//! kept of a token = (gates + second state of LSTM, or part of GRU's candidate that comes from the state) x width
//! ```
//!
//! Gradients of gates overwrite the gates, since a later call makes gradients of weights from the same reserve
//! (`cudnnRNNBackwardWeights`). Persistent kernels, which hold weights in registers, and layers that run beside each other on
//! several streams are not modelled. Source: Appleyard, Kocisky and Blunsom, "Optimizing Performance of Recurrent Neural
//! Networks on GPUs", arXiv 1604.01946, sections 3.1 to 3.3.

use crate::graph::Phase;
use crate::graph::module::Module;
use crate::graph::operator::{Dtype, Layout, StreamClass};
use crate::model::draft::Draft;

use super::layer::{Cell, Recurrent};
use super::shape::Shape;
use super::tape::{Tape, Value, in_bounds};
use crate::model::names::{Name, name};

/// Most tokens: each has two operators forward and two backward.
const TOKENS_MAX: u64 = 2_048;

impl Tape<'_> {
    /// The states that tokens leave, one after the other.
    pub(super) fn recurrent(&mut self, from: Value, recurrent: &Recurrent) -> Result<Value, String> {
        let Shape::Tokens { tokens, width: inputs } = from.shape else {
            return Err(format!("`recurrent` takes tokens with a width, not {}", from.shape));
        };
        let Recurrent { cell, bias, skip_input: skips, .. } = *recurrent;
        let (batch, width) = (u64::from(self.on.micro_batch), u64::from(recurrent.width));
        if skips && inputs != width {
            return Err(format!(
                "`skip_input` adds inputs to gates, so tokens must be as wide as the state: {inputs} is not {width}"
            ));
        }
        if tokens > TOKENS_MAX {
            return Err(format!("`recurrent` takes at most {TOKENS_MAX} tokens, not {tokens}"));
        }
        in_bounds("the matrix of a recurrent layer", &[inputs.max(width), cell.gates(), width])?;
        in_bounds("what a recurrent layer keeps", &[batch, tokens, cell.kept(), width])?;
        let layer = self.layer("recurrent");
        let to = self.value(layer, Shape::Tokens { tokens, width });
        let call = Call {
            layer,
            from: from.tensor,
            to: to.tensor,
            cell,
            bias,
            skips,
            batch,
            tokens,
            inputs,
            width,
            dtype: self.on.dtype,
        };
        self.parameters += call.parameters();
        call.forward(&mut self.draft, self.on.trains());
        self.back(to, move |reverse, gradient| {
            let [input_gradient, weight_gradient] = call.backward(&mut reverse.draft, gradient);
            reverse.give(from, input_gradient);
            reverse.accumulate_several(weight_gradient, call.parameters(), call.tensors());
        });
        Ok(to)
    }
}

/// A layer as the library is called with it.
#[derive(Clone, Copy)]
struct Call {
    layer: Name,
    /// Its inputs, and the states that it makes.
    from: Name,
    to: Name,
    cell: Cell,
    bias: bool,
    /// True if inputs are added to gates as they are.
    skips: bool,
    batch: u64,
    tokens: u64,
    /// Width of the inputs.
    inputs: u64,
    /// Width of the state.
    width: u64,
    dtype: Dtype,
}

impl Call {
    fn parameters(&self) -> u64 {
        self.outputs() * (self.width + if self.skips { 0 } else { self.inputs }) + self.biases()
    }

    /// Tensors of parameters.
    fn tensors(&self) -> u32 {
        (if self.skips { 1 } else { 2 }) + if self.bias { 2 } else { 0 }
    }

    /// One of the inputs and one of the state for each gate.
    fn biases(&self) -> u64 {
        if self.bias { 2 * self.outputs() } else { 0 }
    }

    /// Width of all gates.
    fn outputs(&self) -> u64 {
        self.cell.gates() * self.width
    }

    /// Bytes of a state of all samples.
    fn state(&self) -> u64 {
        self.batch * self.width * self.dtype.bytes()
    }

    /// Gates and what else the backward pass reads, of all tokens.
    fn reserve(&self) -> Name {
        name(self.layer, "reserve")
    }

    fn at(&self, token: u64, what: &'static str) -> Name {
        name(name(self.layer, Name::of("token").numbered(token)), what)
    }

    fn forward(&self, draft: &mut Draft, trains: bool) {
        let Self { layer, from, to, cell, skips, batch, tokens, inputs, width, dtype, .. } = *self;
        let (state, reserve, sums) = (self.state(), self.reserve(), name(layer, "sums"));
        let (outputs, forward) = (self.outputs(), (dtype, Layout::Forward));
        let filled =
            [(to, tokens * state), (reserve, tokens * cell.kept() * state), (sums, cell.gates() * state)];
        launched(draft, &filled, |draft| {
            if !skips {
                let product = (1, batch * tokens, outputs, inputs);
                draft.gemm(name(layer, "inputs"), product, forward, &[from, reserve], &[]);
            }
            for token in 1..=tokens {
                let product = (1, batch, outputs, width);
                draft.gemm(self.at(token, "product"), product, forward, &[to, sums], &[]);
                let added = if skips { 1 } else { cell.gates() };
                let made = if trains { cell.kept() } else { cell.carried() };
                let traffic = ((cell.gates() + added + cell.carried()) * state, (1 + made) * state);
                let reads = [sums, reserve, from, to];
                draft.stream(self.at(token, "gates"), StreamClass::Elementwise, traffic, &reads, &[]);
            }
        });
    }

    /// Gives names of the gradients of inputs and parameters.
    fn backward(&self, draft: &mut Draft, gradient: Name) -> [Name; 2] {
        let Self { layer, to, cell, skips, batch, tokens, inputs, width, dtype, .. } = *self;
        let (state, reserve, back) = (self.state(), self.reserve(), (dtype, Layout::InputGradient));
        let (result, states) = (name(layer, "input gradient"), name(layer, "state gradients"));
        let of_weights = name(layer, "weight gradient");
        let of_inputs = batch * tokens * inputs * dtype.bytes();
        let filled = [(result, of_inputs), (states, (1 + cell.carried()) * state)];
        launched(draft, &filled, |draft| {
            for token in (1..=tokens).rev() {
                // Gradients of the output and of what is carried, then what the forward pass has left.
                let read = (2 + cell.carried()) + (cell.gates() + 2 * cell.carried());
                let made = cell.gates() + cell.carried() + u64::from(skips);
                let (traffic, reads) =
                    ((read * state, made * state), [gradient, states, reserve, to, result]);
                let gates = self.at(token, "gate gradients");
                draft.stream(gates, StreamClass::Elementwise, traffic, &reads, &[]);
                let product = (1, batch, width, self.outputs());
                draft.gemm(self.at(token, "state gradient"), product, back, &[reserve, states], &[]);
            }
            if !skips {
                let product = (1, batch * tokens, inputs, self.outputs());
                draft.gemm(result, product, back, &[reserve, result], &[]);
            }
            draft.within(Phase::BackwardWeight, |draft| self.weights(draft, of_weights));
        });
        [result, of_weights]
    }

    /// Gradients of parameters, in one tensor.
    fn weights(&self, draft: &mut Draft, of_weights: Name) {
        let Self { layer, from, to, skips, batch, tokens, inputs, width, dtype, .. } = *self;
        let (reserve, outputs, weight) = (self.reserve(), self.outputs(), (dtype, Layout::WeightGradient));
        let product = |width| (1, outputs, width, batch * tokens);
        let filled = [(of_weights, self.parameters() * dtype.bytes())];
        draft.gemm(of_weights, product(width), weight, &[reserve, to], &filled);
        if !skips {
            let (what, reads) = (name(layer, "input weight gradient"), [reserve, from, of_weights]);
            draft.gemm(what, product(inputs), weight, &reads, &[]);
        }
        if self.bias {
            let traffic = (tokens * self.cell.gates() * self.state(), self.biases() * dtype.bytes());
            let (what, reads) = (name(layer, "bias gradient"), [reserve, of_weights]);
            draft.stream(what, StreamClass::Reduction, traffic, &reads, &[]);
        }
    }
}

/// Appends operators that cuDNN launches in one call; its first fills tensors that all share.
fn launched(draft: &mut Draft, filled: &[(Name, u64)], write: impl FnOnce(&mut Draft)) {
    let first = draft.operators.len();
    draft.module(Module::Recurrent, write);
    let (first, later) = draft.operators[first..].split_first_mut().expect("a call launches something");
    first.reads.retain(|name| filled.iter().all(|(own, _)| own != name));
    first.writes = filled.to_vec();
    later.iter_mut().for_each(|op| op.members = 0);
}

impl Cell {
    /// Sums of products that decide about an element of the state.
    const fn gates(self) -> u64 {
        match self {
            Self::Simple => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// Elements beside, for each element of the state, that a token leaves to the next: LSTM's second state; of GRU the state
    /// before, which it mixes in.
    const fn carried(self) -> u64 {
        match self {
            Self::Simple => 0,
            Self::Lstm | Self::Gru => 1,
        }
    }

    /// Elements that the backward pass reads, for each of the state: gates, and LSTM's second state or the state's part of GRU's
    /// candidate.
    const fn kept(self) -> u64 {
        self.gates() + self.carried()
    }
}
