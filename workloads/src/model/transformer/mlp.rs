//! The MLP: two linear layers and what is between them.

use super::draft::Draft;
use super::execution::ShardedTransformer;
use super::linear::{Linear, Names, Side, linear_names};
use super::operator::StreamClass;
use super::{Bias, Mlp};

const UP: &Names = linear_names!("mlp up");
const DOWN: &Names = linear_names!("mlp down");
const ACTIVATION: &str = "mlp activation";
const GATE: &str = "mlp gate";
const GATE_GRADIENT: &str = "mlp gate gradient";
const ACTIVATION_GRADIENT: &str = "mlp activation gradient";

/// The forward pass from the output of the norm; returns the name of the result.
pub(super) fn forward(draft: &mut Draft, on: &ShardedTransformer, input: &'static str) -> &'static str {
    up(on).forward(draft, on, input);
    activation(draft, on);
    down(on).forward(draft, on, ACTIVATION)
}

/// The backward pass from the gradient of the result; returns the name of the gradient of the input.
pub(super) fn backward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    input: &'static str,
    gradient: &'static str,
) -> &'static str {
    let gradient = down(on).backward(draft, on, ACTIVATION, gradient);
    activation_gradient(draft, on, gradient);
    up(on).backward(draft, on, input, ACTIVATION_GRADIENT)
}

/// Columns of the inner width on a rank.
fn columns(on: &ShardedTransformer) -> u64 {
    u64::from(on.model().ffn) / on.tensor()
}

fn up(on: &ShardedTransformer) -> Linear {
    let outputs = columns(on) * on.model().mlp_branches();
    Linear { names: UP, side: Side::Columns, inputs: on.hidden(), outputs }
}

fn down(on: &ShardedTransformer) -> Linear {
    Linear { names: DOWN, side: Side::Rows, inputs: columns(on), outputs: on.hidden() }
}

/// GeLU with its bias, or the product with the gate. One kernel keeps nothing but its input; as two, SiLU leaves its
/// output for the product.
fn activation(draft: &mut Draft, on: &ShardedTransformer) {
    let bytes = on.bytes(on.tokens() * columns(on));
    let fused = on.execution().fusion.activation;
    let class = StreamClass::Elementwise;
    let result = [(ACTIVATION, bytes)];
    match on.model().mlp {
        Mlp::Gelu => {
            if on.model().bias == Bias::All && !fused {
                draft.stream("mlp up bias", class, (bytes, bytes), &[UP.output], &[]);
            }
            draft.stream("gelu", class, (bytes, bytes), &[UP.output], &result);
        }
        Mlp::Swiglu if fused => {
            draft.stream("swiglu", class, (2 * bytes, bytes), &[UP.output], &result);
        }
        Mlp::Swiglu => {
            draft.stream("silu", class, (bytes, bytes), &[UP.output], &[(GATE, bytes)]);
            draft.stream("gate", class, (2 * bytes, bytes), &[UP.output, GATE], &result);
        }
    }
}

fn activation_gradient(draft: &mut Draft, on: &ShardedTransformer, gradient: &'static str) {
    let bytes = on.bytes(on.tokens() * columns(on));
    let class = StreamClass::Elementwise;
    let reads = [UP.output, gradient];
    match on.model().mlp {
        Mlp::Gelu => {
            draft.stream("gelu gradient", class, (2 * bytes, bytes), &reads, &[(ACTIVATION_GRADIENT, bytes)]);
            if on.model().bias == Bias::All {
                draft.stream(
                    "mlp up bias gradient",
                    StreamClass::Reduction,
                    (bytes, 0),
                    &[ACTIVATION_GRADIENT],
                    &[],
                );
            }
        }
        Mlp::Swiglu if on.execution().fusion.activation => {
            let writes = [(ACTIVATION_GRADIENT, 2 * bytes)];
            draft.stream("swiglu gradient", class, (3 * bytes, 2 * bytes), &reads, &writes);
        }
        Mlp::Swiglu => {
            // The halves of one tensor: the product's gradient fills one half and that of its other factor, SiLU's the other.
            let reads = [UP.output, GATE, gradient];
            let writes = [(ACTIVATION_GRADIENT, 2 * bytes), (GATE_GRADIENT, bytes)];
            draft.stream(GATE_GRADIENT, class, (3 * bytes, 2 * bytes), &reads, &writes);
            let reads = [UP.output, GATE_GRADIENT, ACTIVATION_GRADIENT];
            draft.stream("silu gradient", class, (2 * bytes, bytes), &reads, &[]);
        }
    }
}
