//! The MLP: two linear layers and what is between them.

use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::gelu::{GeluNames, gelu_names};
use super::linear::{self, Linear, Names, Side, linear_names};
use super::names::names;
use super::{Bias, Mlp, adapters};
use crate::graph::operator::{Math, Module, StreamClass};

names! { $
    /// Names of the operators and tensors between the linear layers.
    Between by between_names;
    activation: "" _ " activation",
    bias: "" _ " up bias",
    gelu: "" _ " gelu",
    swiglu: "" _ " swiglu",
    geglu: "" _ " geglu",
    silu: "" _ " silu",
    product: "" _ " product with gate",
    gate: "" _ " gate",
    activation_gradient: "" _ " activation gradient",
    up_gradient: "" _ " up output gradient",
    gelu_gradient: "" _ " gelu gradient",
    swiglu_gradient: "" _ " swiglu gradient",
    geglu_gradient: "" _ " geglu gradient",
    silu_gradient: "" _ " silu gradient",
    gate_gradient: "" _ " gate gradient",
    bias_gradient: "" _ " up bias gradient",
}

/// Names of the operators and tensors of an MLP.
struct MlpNames {
    /// Of the gate and what it gates, where they are one product.
    up: &'static Names,
    /// Of the gate, where they are two.
    gate: &'static Names,
    between: &'static Between,
    gelu: &'static GeluNames,
    down: &'static Names,
}

/// The MLP of a layer that has one.
const MLP: &MlpNames = &MlpNames {
    up: linear_names!("mlp up"),
    gate: linear_names!("mlp gate"),
    between: between_names!("mlp"),
    gelu: gelu_names!("mlp gelu"),
    down: linear_names!("mlp down"),
};
/// The MLP beside a mixture of experts.
const SHARED: &MlpNames = &MlpNames {
    up: linear_names!("shared expert up"),
    gate: linear_names!("shared expert gate"),
    between: between_names!("shared expert"),
    gelu: gelu_names!("shared expert gelu"),
    down: linear_names!("shared expert down"),
};

/// An MLP of a rank.
pub(super) struct DenseMlp {
    names: &'static MlpNames,
    /// Columns of the inner width on a rank.
    columns: u64,
}

impl DenseMlp {
    /// That of a layer.
    pub(super) fn of(on: &ShardedTransformer) -> Self {
        Self { names: MLP, columns: u64::from(on.model().ffn) / on.tensor() }
    }

    /// That beside a mixture of experts, `ffn` wide.
    pub(super) fn shared(on: &ShardedTransformer, ffn: u32) -> Self {
        Self { names: SHARED, columns: u64::from(ffn) / on.tensor() }
    }

    /// The forward pass from the output of the norm; returns the name of the result.
    pub(super) fn forward(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) -> Name {
        linear::forward(&self.up(on), draft, on, input);
        draft.module(Module::Activation, |draft| self.activation(draft, on));
        self.down(on).forward(draft, on, self.names.between.activation)
    }

    /// The tensor that the forward pass leaves its result in.
    pub(super) fn output(&self, on: &ShardedTransformer) -> Name {
        self.down(on).result(on)
    }

    /// The backward pass from the gradient of the result; returns the name of the gradient of the input.
    pub(super) fn backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        gradient: Name,
    ) -> Name {
        let &Between { activation, activation_gradient, up_gradient, .. } = self.names.between;
        let gradient = self.down(on).backward(draft, on, activation, gradient);
        draft.module(Module::Activation, |draft| self.activation_gradient(draft, on, gradient));
        let up = self.up(on);
        linear::backward(&up, draft, on, input, &[activation_gradient, up_gradient][..up.len()])
    }

    /// One layer, or the gate and what it gates.
    fn up(&self, on: &ShardedTransformer) -> Vec<Linear> {
        let layer = |names, outputs| Linear::new(names, Side::Columns, on.hidden(), outputs);
        if self.is_gated_apart(on) {
            return vec![
                layer(self.names.gate, self.columns).adaptable(adapters::GATE),
                layer(self.names.up, self.columns).adaptable(adapters::UP),
            ];
        }
        let branches = on.model().mlp_branches();
        let adapter = if branches > 1 { adapters::GATED_UP } else { adapters::UP };
        vec![layer(self.names.up, self.columns * branches).adaptable(adapter)]
    }

    fn is_gated_apart(&self, on: &ShardedTransformer) -> bool {
        on.model().mlp_branches() > 1 && !on.execution().fusion.gate
    }

    /// The tensors of the gate and of what it gates: halves of one, or two.
    fn gated(&self, on: &ShardedTransformer) -> Vec<Name> {
        self.up(on).iter().map(|layer| layer.names.output).collect()
    }

    fn down(&self, on: &ShardedTransformer) -> Linear {
        Linear::new(self.names.down, Side::Rows, self.columns, on.hidden()).adaptable(adapters::DOWN)
    }

    /// Its linear layers.
    pub(super) fn layers(&self, on: &ShardedTransformer) -> Vec<Linear> {
        let mut layers = self.up(on);
        layers.push(self.down(on));
        layers
    }

    /// GeLU with its bias, or the product with the gate. One kernel keeps nothing but its input; as
    /// two, SiLU or GeLU leaves its output for the product.
    fn activation(&self, draft: &mut Draft, on: &ShardedTransformer) {
        let MlpNames { up, between: names, .. } = self.names;
        let bytes = on.bytes(on.tokens() * self.columns);
        let fused = on.execution().fusion.activation;
        let class = StreamClass::Elementwise;
        let result = [(names.activation, bytes)];
        match on.model().mlp {
            Mlp::Gelu => {
                let fusion = on.execution().fusion;
                if on.model().bias == Bias::All && !fused && !fusion.bias {
                    draft.stream(names.bias, class, (bytes, bytes), &[up.output], &[]).math =
                        Some(Math::Bias);
                }
                if fusion.gelu {
                    draft.stream(names.gelu, class, (bytes, bytes), &[up.output], &result).math =
                        Some(Math::Gelu);
                } else {
                    self.names.gelu.forward(draft, up.output, names.activation, bytes);
                }
            }
            Mlp::Swiglu | Mlp::Geglu if fused => {
                let name = if on.model().mlp == Mlp::Geglu { names.geglu } else { names.swiglu };
                draft.stream(name, class, (2 * bytes, bytes), &self.gated(on), &result);
            }
            Mlp::Swiglu | Mlp::Geglu => {
                let gate = self.gated(on)[0];
                let name = if on.model().mlp == Mlp::Geglu { names.gelu } else { names.silu };
                let math = if on.model().mlp == Mlp::Geglu { Math::Gelu } else { Math::Silu };
                let pass = draft.stream(name, class, (bytes, bytes), &[gate], &[(names.gate, bytes)]);
                pass.math = Some(math);
                let reads = [up.output, names.gate];
                draft.stream(names.product, class, (2 * bytes, bytes), &reads, &result).math =
                    Some(Math::Multiply);
            }
        }
    }

    fn activation_gradient(&self, draft: &mut Draft, on: &ShardedTransformer, gradient: Name) {
        let MlpNames { up, between: names, .. } = self.names;
        let bytes = on.bytes(on.tokens() * self.columns);
        let class = StreamClass::Elementwise;
        let reads = [up.output, gradient];
        match on.model().mlp {
            Mlp::Gelu => {
                if on.execution().fusion.gelu {
                    let writes = [(names.activation_gradient, bytes)];
                    draft.stream(names.gelu_gradient, class, (2 * bytes, bytes), &reads, &writes);
                } else {
                    self.names.gelu.backward(draft, reads, names.activation_gradient, bytes);
                }
                if on.model().bias == Bias::All && on.trains_weights() {
                    let reads = [names.activation_gradient];
                    draft.stream(names.bias_gradient, StreamClass::Reduction, (bytes, 0), &reads, &[]);
                }
            }
            Mlp::Swiglu | Mlp::Geglu => self.gated_gradient(draft, on, gradient, bytes),
        }
    }

    /// The gradients of the gate and of what it gates: halves of one tensor, or two.
    fn gated_gradient(&self, draft: &mut Draft, on: &ShardedTransformer, gradient: Name, bytes: u64) {
        let MlpNames { up, between: names, .. } = self.names;
        let (class, gated) = (StreamClass::Elementwise, self.gated(on));
        let writes = match gated.len() {
            1 => vec![(names.activation_gradient, 2 * bytes)],
            _ => vec![(names.activation_gradient, bytes), (names.up_gradient, bytes)],
        };
        if on.execution().fusion.activation {
            let reads: Vec<_> = gated.iter().copied().chain([gradient]).collect();
            let name =
                if on.model().mlp == Mlp::Geglu { names.geglu_gradient } else { names.swiglu_gradient };
            draft.stream(name, class, (3 * bytes, 2 * bytes), &reads, &writes);
            return;
        }
        // The product's gradient fills that of what is gated and that of its other factor, from
        // which that of the gate is made.
        let reads = [up.output, names.gate, gradient];
        let writes: Vec<_> = writes.into_iter().chain([(names.gate_gradient, bytes)]).collect();
        draft.stream(names.gate_gradient, class, (3 * bytes, 2 * bytes), &reads, &writes);
        let reads = [gated[0], names.gate_gradient, names.activation_gradient];
        let name = if on.model().mlp == Mlp::Geglu { names.gelu_gradient } else { names.silu_gradient };
        draft.stream(name, class, (2 * bytes, bytes), &reads, &[]);
    }
}
