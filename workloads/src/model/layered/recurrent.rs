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
use crate::graph::operator::{Layout, StreamClass};
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
        let (cell, width, skips) = (recurrent.cell, u64::from(recurrent.width), recurrent.skip_input);
        if skips && inputs != width {
            return Err(format!(
                "`skip_input` adds inputs to gates, so tokens must be as wide as the state: {inputs} is not {width}"
            ));
        }
        if tokens > TOKENS_MAX {
            return Err(format!("`recurrent` takes at most {TOKENS_MAX} tokens, not {tokens}"));
        }
        let (batch, dtype, gates) = (u64::from(self.on.micro_batch), self.on.dtype, cell.gates());
        let outputs = gates * width;
        in_bounds("the matrix of a recurrent layer", &[inputs.max(width), outputs])?;
        in_bounds("what a recurrent layer keeps", &[batch, tokens, cell.kept(), width])?;
        let weights = outputs * (width + if skips { 0 } else { inputs });
        let biases = if recurrent.bias { 2 * outputs } else { 0 };
        self.parameters += weights + biases;

        let (layer, state) = (self.layer("recurrent"), batch * width * dtype.bytes());
        let at = move |token: u64, what| name(name(layer, Name::of("token").numbered(token)), what);
        let to = self.value(layer, Shape::Tokens { tokens, width });
        let (reserve, sums) = (name(layer, "reserve"), name(layer, "sums"));
        let trains = self.on.trains();
        let filled =
            [(to.tensor, tokens * state), (reserve, tokens * cell.kept() * state), (sums, gates * state)];
        call(&mut self.draft, &filled, |draft| {
            let forward = (dtype, Layout::Forward);
            if !skips {
                let product = (1, batch * tokens, outputs, inputs);
                draft.gemm(name(layer, "inputs"), product, forward, &[from.tensor, reserve], &[]);
            }
            for token in 1..=tokens {
                let product = (1, batch, outputs, width);
                draft.gemm(at(token, "product"), product, forward, &[to.tensor, sums], &[]);
                let read = gates + if skips { 1 } else { gates } + cell.carried();
                let made = 1 + if trains { cell.kept() } else { cell.carried() };
                let reads = [sums, reserve, from.tensor, to.tensor];
                let traffic = (read * state, made * state);
                draft.stream(at(token, "gates"), StreamClass::Elementwise, traffic, &reads, &[]);
            }
        });

        self.back(to, move |reverse, gradient| {
            let (result, states) = (name(layer, "input gradient"), name(layer, "state gradients"));
            let of_weights = name(layer, "weight gradient");
            let filled =
                [(result, batch * tokens * inputs * dtype.bytes()), (states, (1 + cell.carried()) * state)];
            call(&mut reverse.draft, &filled, |draft| {
                let back = (dtype, Layout::InputGradient);
                for token in (1..=tokens).rev() {
                    // Gradients of the output and of what is carried, then what the forward pass has left.
                    let read = (2 + cell.carried()) + (gates + 2 * cell.carried());
                    let made = gates + cell.carried() + u64::from(skips);
                    let reads = [gradient, states, reserve, to.tensor, result];
                    let traffic = (read * state, made * state);
                    draft.stream(at(token, "gate gradients"), StreamClass::Elementwise, traffic, &reads, &[]);
                    let product = (1, batch, width, outputs);
                    draft.gemm(at(token, "state gradient"), product, back, &[reserve, states], &[]);
                }
                if !skips {
                    let product = (1, batch * tokens, inputs, outputs);
                    draft.gemm(result, product, back, &[reserve, result], &[]);
                }
                draft.within(Phase::BackwardWeight, |draft| {
                    let weight = (dtype, Layout::WeightGradient);
                    let product = (1, outputs, width, batch * tokens);
                    let filled = [(of_weights, (weights + biases) * dtype.bytes())];
                    draft.gemm(of_weights, product, weight, &[reserve, to.tensor], &filled);
                    if !skips {
                        let (what, product) = ("input weight gradient", (1, outputs, inputs, batch * tokens));
                        let reads = [reserve, from.tensor, of_weights];
                        draft.gemm(name(layer, what), product, weight, &reads, &[]);
                    }
                    if biases > 0 {
                        let traffic = (tokens * gates * state, biases * dtype.bytes());
                        let reads = [reserve, of_weights];
                        draft.stream(
                            name(layer, "bias gradient"),
                            StreamClass::Reduction,
                            traffic,
                            &reads,
                            &[],
                        );
                    }
                });
            });
            reverse.give(from, result);
            let tensors = if skips { 1 } else { 2 } + if biases > 0 { 2 } else { 0 };
            reverse.accumulate_several(of_weights, weights + biases, tensors);
        });
        Ok(to)
    }
}

/// Appends operators that cuDNN launches in one call; its first fills tensors that all share.
fn call(draft: &mut Draft, filled: &[(Name, u64)], write: impl FnOnce(&mut Draft)) {
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
